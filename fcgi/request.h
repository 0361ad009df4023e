/* request.h - one request as nginx passed it: the listed parameters (docs/api.md, "What nginx passes") and the body.
 *
 * All memory belongs to the request's arena. Nothing here blocks but request_body_read(). */
#ifndef PADDOCK_FCGI_REQUEST_H
#define PADDOCK_FCGI_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fcgi/arena.h"
#include "fcgi/uri.h"

enum request_method { METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_PUT, METHOD_DELETE, METHOD_PATCH, METHOD_OTHER };

/* The parameters that are looked at. */
enum request_field {
	FIELD_METHOD, FIELD_URI, FIELD_CONTENT_TYPE, FIELD_CONTENT_LENGTH, FIELD_REMOTE_ADDR, FIELD_HOST, FIELD_AUTHORIZATION, FIELD_COOKIE,
	FIELD_ACCEPT, FIELD_ORIGIN, FIELD_SEC_FETCH_SITE, FIELD_REQUESTED_WITH, FIELD_IDEMPOTENCY_KEY, FIELD_LAST_EVENT_ID, FIELD_RANGE,
	FIELD_ACTING_USER, FIELD_REQUEST_ID, FIELD_COUNT,
};

struct request;

/* Reads up to n bytes of the body; 0 at its end, < 0 when the front has gone. */
typedef int request_read_fn(void *arg, void *p, int n);

/* Collects; never refuses, so that even a bad request has a method, a path and an id for its log line. NULL: out of memory.
 * What is needed of envp ("NAME=value", NULL-terminated) is copied: libfcgi frees it with the connection, before the log line is written. */
struct request *request_new(struct arena *a, char *const *envp, request_read_fn *read, void *arg);

/* Refuses doubled or over-long parameters, a missing request id, a bad target or content length. */
int request_check(struct request *q, err_t **err);

const char *request_id(const struct request *q);        /* nginx's; one of our own when it sent none */
enum request_method request_method(const struct request *q);
const char *request_method_name(const struct request *q);
const char *request_log_path(const struct request *q);  /* the target without its query */
const struct uri *request_uri(const struct request *q); /* empty before request_check() */
const char *request_field(const struct request *q, enum request_field f);   /* NULL when absent or empty */
const char *request_query(const struct request *q, const char *name);       /* NULL when absent */

/* Length of the body as nginx announced it. */
uint64_t request_body_length(const struct request *q);
/* The next bytes, at most n (n <= INT_MAX). 0: all that was announced was read. -1: ERR_INVALID ("incomplete_body"). */
int request_body_read(struct request *q, void *p, size_t n, err_t **err);
/* The whole body in the arena, NUL appended. ERR_TOO_LARGE ("body_too_large") before a byte is read when it is longer than max. */
int request_body_all(struct request *q, struct arena *a, uint64_t max, const char **ret, size_t *ret_len, err_t **err);

#endif
