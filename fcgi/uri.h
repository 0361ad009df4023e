/* uri.h - the request target: path segments and query parameters, decoded once and strictly. Pure but for the arena.
 *
 * Refused (ERR_INVALID): a target that does not start with "/", a bad percent sequence, control bytes and NUL, invalid UTF-8, an
 * empty, "." or ".." segment, "/" or "\" hidden in a segment ("bad_path"); a query parameter without a name or twice
 * ("bad_query", "duplicate_parameter"); more than the limits allow ("bad_path", "bad_query"). "+" is a space in a query. */
#ifndef PADDOCK_FCGI_URI_H
#define PADDOCK_FCGI_URI_H

#include <stddef.h>

#include "base/err.h"
#include "fcgi/arena.h"
#include "fcgi/limits.h"

struct uri_param {
	const char *name, *value;
};

struct uri {
	const char *segments[LIMIT_PATH_SEGMENTS];   /* without the slashes; "/" has none */
	size_t nsegments;
	struct uri_param params[LIMIT_QUERY_PARAMS];
	size_t nparams;
};

/* Everything in ret is borrowed from the arena. */
int uri_parse(struct arena *a, const char *target, struct uri *ret, err_t **err);
int uri_parse_path(struct arena *a, const char *p, size_t n, struct uri *ret, err_t **err);
int uri_parse_query(struct arena *a, const char *p, size_t n, struct uri *ret, err_t **err);

const char *uri_query(const struct uri *u, const char *name);   /* NULL when absent */
/* ERR_INVALID ("unknown_parameter") for a parameter that is not in the space-separated list. */
int uri_query_only(const struct uri *u, const char *allowed, err_t **err);

#endif
