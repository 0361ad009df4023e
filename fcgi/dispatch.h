/* dispatch.h - one request from its parameters to its answer: checks, route, authentication, body, handler, problem. */
#ifndef PADDOCK_FCGI_DISPATCH_H
#define PADDOCK_FCGI_DISPATCH_H

#include "fcgi/ctx.h"

/* Fills c->r, whatever happens; errors of ours are logged. c holds ctx, arena, q and r; the rest is filled here. */
void dispatch(struct call *c);

/* The access line. us: from taking the request to its answer. */
void dispatch_log(const struct call *c, int64_t us);

#endif
