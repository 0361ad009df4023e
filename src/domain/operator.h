/* operator.h - what an operator may do to anybody's things, on record under the operator's name. */
#ifndef PADDOCK_DOMAIN_OPERATOR_H
#define PADDOCK_DOMAIN_OPERATOR_H

#include "domain/caller.h"
#include "domain/domain.h"

/* Kills a command with all that it started; its end comes as for its user, reason `cancelled`. ERR_NOT_FOUND "not_found", ERR_CONFLICT "not_running". */
int operator_kill(struct domain *d, const struct caller *by, const char *command_id, err_t **err);
/* The next try of a Run's clean-up (NULL: of all that are pending) is now; a janitor makes it. *ret: an array of the Runs' ids.
 * ERR_NOT_FOUND "not_found": the Run is unknown or has none pending. */
int operator_retry(struct domain *d, const struct caller *by, const char *run_id, json_t **ret, err_t **err);

#endif
