/* ctl_commands.h - the commands of paddockctl that look after an installation. argv[0] is the command's own word.
 * Each returns the exit status: 0 well, 1 failed (said on standard error), 2 wrong usage, 3 (status, doctor) something is not as it should be. */
#ifndef PADDOCK_CTL_COMMANDS_H
#define PADDOCK_CTL_COMMANDS_H

#include "core/config.h"

int ctl_status(const struct config *c, int argc, char **argv);
int ctl_doctor(const struct config *c, int argc, char **argv);
int ctl_start(const struct config *c, int argc, char **argv);
int ctl_stop(const struct config *c, int argc, char **argv);
int ctl_sql(const struct config *c, int argc, char **argv);      /* becomes psql */
int ctl_engine(const struct config *c, int argc, char **argv);   /* becomes podman, as the account that owns the containers */

#endif
