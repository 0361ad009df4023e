/* owed.h - answers that a provider has at once but may not give from within a call: they are told from the loop, in their order.
 *
 * For any provider. Ids are copied; what an event says of an error is made fit for answers (outside.h). Whoever is told may ask again, which owes anew; it must
 * not free what is told from. */
#ifndef PADDOCK_PROVIDER_OWED_H
#define PADDOCK_PROVIDER_OWED_H

#include "provider/provider.h"

struct owed;

struct owed *owed_new(struct loop *l, const struct provider_events *ev, void *arg, err_t **err);
void owed_free(struct owed *o);   /* what is still owed is not told. NULL is fine */

/* Take over what, which goes with the answer (NULL: none), also when they fail: ERR_NO_MEMORY, nothing is owed. */
int owed_event(struct owed *o, const char *instance_id, enum instance_event ev, err_t *what, err_t **err);
int owed_scope(struct owed *o, const char *instance_id, const char *scope, err_t *what, err_t **err);
/* fn gives the answer, when its turn has come. */
int owed_call(struct owed *o, void (*fn)(void *arg), void *arg, err_t **err);

#endif
