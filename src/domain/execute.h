/* execute.h - one command in a Run of its own, opened and ended around it (POST /api/execute). */
#ifndef PADDOCK_DOMAIN_EXECUTE_H
#define PADDOCK_DOMAIN_EXECUTE_H

#include "domain/commands.h"

/* As commands_start. The Run, its attempt, its instance and the command are one commit; the janitor ends the Run when the command's end
 * is on record: completed whatever the exit code, failed when the command was lost or not started. */
int execute_start(struct domain *d, const struct caller *c, const struct command_new *n, struct command_started *ret, err_t **err);

#endif
