/* res_auth.h - who the caller is, for people and for nginx's auth subrequest. */
#ifndef PADDOCK_FCGI_RES_AUTH_H
#define PADDOCK_FCGI_RES_AUTH_H

#include "fcgi/ctx.h"

int res_auth_me(struct call *c, err_t **err);
/* 204 with X-Paddock-User and X-Paddock-Kind, 401 or 403; 503 while the database is away. Nothing else: nginx knows no other answer. */
int res_auth_subrequest(struct call *c, err_t **err);

#endif
