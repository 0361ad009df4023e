/* res_sandbox.h - the caller's own sandbox; for admins, those that somebody has to look at. */
#ifndef PADDOCK_FCGI_RES_SANDBOX_H
#define PADDOCK_FCGI_RES_SANDBOX_H

#include "fcgi/ctx.h"

int res_sandbox_get(struct call *c, err_t **err);   /* authenticates itself */
int res_sandbox_rebuild(struct call *c, err_t **err);
int res_sandbox_pause(struct call *c, err_t **err);
int res_sandbox_release(struct call *c, err_t **err);
int res_sandbox_keep_alive(struct call *c, err_t **err);

int res_sandbox_quarantine(struct call *c, err_t **err);
int res_sandbox_retire(struct call *c, err_t **err);

#endif
