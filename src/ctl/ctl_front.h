/* ctl_front.h - a look at the service from outside, as a client would: HTTPS to nginx on this machine. */
#ifndef PADDOCK_CTL_FRONT_H
#define PADDOCK_CTL_FRONT_H

#include "base/buf.h"
#include "base/err.h"
#include "core/config.h"

/* GET /readyz; the body is appended to ret. Returns the HTTP status, or -1 when nothing answers. Blocks at most 6 s. */
int ctl_front_ready(const struct config *c, struct buf *ret, err_t **err);

#endif
