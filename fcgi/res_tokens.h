/* res_tokens.h - the caller's own bearer tokens. */
#ifndef PADDOCK_FCGI_RES_TOKENS_H
#define PADDOCK_FCGI_RES_TOKENS_H

#include "fcgi/ctx.h"

int res_tokens_list(struct call *c, err_t **err);
int res_tokens_create(struct call *c, err_t **err);
int res_tokens_revoke(struct call *c, err_t **err);

#endif
