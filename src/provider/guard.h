/* guard.h - runs paddock-netguard for one container. On the loop; the helper is killed when it takes too long. */
#ifndef PADDOCK_PROVIDER_GUARD_H
#define PADDOCK_PROVIDER_GUARD_H

#include <sys/types.h>

#include "base/err.h"
#include "core/loop.h"

struct guard;
/* err NULL: the rules are in force. Called once, never from within guard_start(). */
typedef void guard_fn(void *arg, const err_t *err);

struct guard *guard_start(struct loop *l, const char *program, pid_t container, guard_fn *fn, void *arg, err_t **err);
/* Gives up: fn is not called. NULL is fine; not needed after fn was called. */
void guard_cancel(struct guard *g);

#endif
