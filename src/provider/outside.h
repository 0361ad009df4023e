/* outside.h - what an error may say beyond the provider. Answers name virtual paths only, never one of this machine (R4.1), and engines, bubblewrap and the
 * C library put those into their words. */
#ifndef PADDOCK_PROVIDER_OUTSIDE_H
#define PADDOCK_PROVIDER_OUTSIDE_H

#include "base/err.h"

/* A copy to be freed, with "…" in the place of each path; NULL of NULL. When there was one the log gets the whole. */
err_t *outside_err(const char *instance_id, const err_t *err);
/* The same with an error of the caller's own. Returns -1; no effect when err or *err is NULL. */
int outside_fail(const char *instance_id, err_t **err);

#endif
