/* ctl_commands.h - the commands of paddockctl, a table in ctl_main.c. argv[0] is the command's own word.
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

int ctl_migrate(const struct config *c, int argc, char **argv);  /* as the database's owner */
int ctl_users(const struct config *c, int argc, char **argv);
int ctl_tokens(const struct config *c, int argc, char **argv);   /* create: the secret alone on standard output */
int ctl_runs(const struct config *c, int argc, char **argv);
int ctl_cmds(const struct config *c, int argc, char **argv);     /* commands */
int ctl_cleanup(const struct config *c, int argc, char **argv);
int ctl_sandboxes(const struct config *c, int argc, char **argv);

#endif
