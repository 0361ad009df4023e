/* body.h - the JSON body of a request, strictly. */
#ifndef PADDOCK_FCGI_BODY_H
#define PADDOCK_FCGI_BODY_H

#include <stdbool.h>

#include "fcgi/ctx.h"

/* Fills c->body, c->raw. ERR_INVALID "unsupported_media_type" (415), "bad_json", "body_required"; ERR_TOO_LARGE "body_too_large".
 * `optional`: no body counts as {}. */
int body_json(struct call *c, bool optional, err_t **err);

#endif
