/* ctl_front.h - a look at the service from outside, as a client would: HTTPS to nginx on this machine. */
#ifndef PADDOCK_CTL_FRONT_H
#define PADDOCK_CTL_FRONT_H

#include "base/buf.h"
#include "base/err.h"
#include "core/config.h"

/* An answer about health tells of the look before, however long ago that was, and makes the next one: who is told that something is not well
 * waits so long and asks once more. */
#define CTL_LOOK_AGAIN_US 700000

/* GET /readyz, once more when it is not ready; the body is put into ret. Returns the HTTP status, or -1 when nothing answers. Blocks at most 13 s. */
int ctl_front_ready(const struct config *c, struct buf *ret, err_t **err);

#endif
