/* routes.h - the route table. contrib/lint/openapi holds it and docs/openapi.yaml together. */
#ifndef PADDOCK_FCGI_ROUTES_H
#define PADDOCK_FCGI_ROUTES_H

#include <stddef.h>

#include "fcgi/router.h"

extern const struct route routes[];
extern const size_t routes_count;

#endif
