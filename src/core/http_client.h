/* http_client.h - HTTP requests over a Unix socket by libcurl, blocking (workers, ctl) and on the loop (executor -> engine).
 *
 * A connection is kept between requests (a POST that is not repeatable opens its own: it must never be sent twice). No redirects, no proxies, no environment.
 * The answer's body is capped. */
#ifndef PADDOCK_CORE_HTTP_CLIENT_H
#define PADDOCK_CORE_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/loop.h"

struct http_req {
	const char *method;        /* "GET", "POST", "PUT", "DELETE" */
	const char *path;          /* "/v1/..." , already percent-encoded */
	const void *body;          /* borrowed until the answer; NULL for none */
	size_t body_len;
	const char *content_type;  /* NULL: application/json */
	const char *request_id;    /* sent as X-Request-Id; NULL for none */
	int64_t timeout_ms;        /* whole request; > 0 */
	size_t max_answer;         /* bytes */
	bool repeatable;           /* of a POST: no harm when it arrives twice, as all other methods may */
};

struct http_answer {
	int status;
	struct buf body;
};
void http_answer_free(struct http_answer *a);

/* --- blocking --- */
struct http_client;
struct http_client *http_client_new(const char *socket_path, err_t **err);
void http_client_free(struct http_client *c);
/* 0 with any HTTP status in ret (owned by the caller, http_answer_free). Errors: ERR_UNAVAILABLE when no byte of the request can
 * have been acted on (no connection), ERR_UNKNOWN after that (time-out, cut answer), ERR_TOO_LARGE. */
int http_client_do(struct http_client *c, const struct http_req *r, struct http_answer *ret, err_t **err);

/* --- on the loop --- */
struct http_async;
typedef void http_async_fn(void *arg, const struct http_answer *a, const err_t *err);   /* exactly one of a and err; both borrowed */
struct http_async *http_async_new(struct loop *l, const char *socket_path, err_t **err);
/* Pending requests are dropped without a call. Not from within an http_async_fn. */
void http_async_free(struct http_async *h);
/* Copies what it needs of r but the body, which it copies too. -1: nothing was sent and fn will not be called. */
int http_async_do(struct http_async *h, const struct http_req *r, http_async_fn *fn, void *arg, err_t **err);

#endif
