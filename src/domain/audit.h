/* audit.h - who did what, for whom, from where, with what result. Commands and Runs carry these facts in their own rows (the view
 * audit_log unites them); this writes the rest. */
#ifndef PADDOCK_DOMAIN_AUDIT_H
#define PADDOCK_DOMAIN_AUDIT_H

#include "domain/caller.h"
#include "domain/domain.h"

/* For what is no row of ours, and so cannot be one transaction with its act. action: "command.kill"; object: an id or a name; result: "ok" or an error's detail word. */
int audit_write(struct domain *d, const struct caller *by, const char *action, const char *object, const char *result, err_t **err);
/* What the service does by its rules, about what is nobody's. */
void audit_own(struct domain *d, const char *action, const char *object, const char *result);
/* A caller for programs of the operator: named after the account that runs them, no token. */
void audit_operator(struct caller *ret, const char *program);

#endif
