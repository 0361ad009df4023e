/* res_usage.h - how long the caller's sandboxes ran. */
#ifndef PADDOCK_FCGI_RES_USAGE_H
#define PADDOCK_FCGI_RES_USAGE_H

#include "fcgi/ctx.h"

int res_usage(struct call *c, err_t **err);

#endif
