/* page.h - what lists have in common: ?limit=. */
#ifndef PADDOCK_FCGI_PAGE_H
#define PADDOCK_FCGI_PAGE_H

#include "fcgi/request.h"

/* *ret is 0 without one (the domain's default). ERR_REFUSED "bad_limit" for what is no number from 1 to 200. */
int page_limit(const struct request *q, int64_t *ret, err_t **err);

#endif
