/* host_call.h - one request to paddock-launcher (host_keep.h), on the loop. */
#ifndef PADDOCK_PROVIDER_HOST_CALL_H
#define PADDOCK_PROVIDER_HOST_CALL_H

#include "base/err.h"
#include "core/loop.h"

struct host_call;
/* err NULL: done; text is what came before the "ok". ERR_BUSY, ERR_NOT_FOUND, ERR_NO_SPACE, ERR_REFUSED: the launcher's answer, nothing was done.
 * ERR_UNAVAILABLE: no launcher, nothing was done. ERR_UNKNOWN: no answer. Called once, from the loop. */
typedef void host_call_fn(void *arg, const char *text, const err_t *err);

/* fields: NULL-terminated, copied. */
struct host_call *host_call_start(struct loop *l, const char *socket, const char *const *fields, int64_t ms, host_call_fn *fn, void *arg, err_t **err);
/* A pidfd of the launcher that was asked, the caller's; -1: it has ended, or this process cannot see it. */
int host_call_launcher(const struct host_call *c);
void host_call_cancel(struct host_call *c);   /* fn is not called; what was asked may still be done. NULL is fine */

#endif
