/* auth.h - who is calling: the request's headers as domain/auth.h wants them, and what a route demands. */
#ifndef PADDOCK_FCGI_AUTH_H
#define PADDOCK_FCGI_AUTH_H

#include <stdbool.h>

#include "domain/auth.h"
#include "fcgi/ctx.h"
#include "fcgi/router.h"

void auth_headers(const struct request *q, struct auth_request *ret);   /* borrowed from q */
/* Fills c->caller. ERR_DENIED "unauthorized" (401), "forbidden" (403; also an e2b token, which serves another API), "admin_required". */
int auth_call(struct call *c, enum route_auth need, err_t **err);
/* The same decision for a caller who is known already. */
int auth_allow(const struct caller *who, enum route_auth need, err_t **err);
bool auth_from_loopback(const struct request *q);

#endif
