/* res_execute.h - POST /api/execute: one command in a Run of its own. */
#ifndef PADDOCK_FCGI_RES_EXECUTE_H
#define PADDOCK_FCGI_RES_EXECUTE_H

#include "fcgi/ctx.h"

int res_execute(struct call *c, err_t **err);

#endif
