/* http.h - libmicrohttpd on the loop: who may connect, requests with their bodies, answers, waiting, streams. The only includer of microhttpd.h.
 *
 * A request is handled by its route's function when its body is complete. The function answers (http_answer_*, http_stream) or calls http_wait()
 * and is called again later through the continuation. Answering twice is a bug; not answering is a 500. */
#ifndef PADDOCK_EXECUTOR_HTTP_H
#define PADDOCK_EXECUTOR_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/json.h"
#include "core/loop.h"

struct http;
struct request;
struct executor;

enum http_method { HTTP_GET, HTTP_PUT, HTTP_POST, HTTP_DELETE };

struct route {
	enum http_method method;
	const char *path;        /* "{}" stands for one segment */
	bool for_tickets;        /* the nginx account may ask for it too */
	size_t max_body;
	void (*handle)(struct executor *x, struct request *r);
};

struct http_peers {
	uid_t full[3];           /* everything; (uid_t)-1: unused */
	uid_t tickets;           /* routes for_tickets only */
};

/* listen_fd becomes the http's. routes: ended by a NULL path; static. silent_ms: how long a connection may send nothing before its first request is
 * complete; one that waits for an answer or has a stream may be silent for ever, one that is kept between requests for HTTP_KEPT_S. */
struct http *http_new(struct loop *l, int listen_fd, const struct http_peers *p, int64_t silent_ms, const struct route *routes, struct executor *x, err_t **err);
#define HTTP_KEPT_S 150   /* longer than nginx keeps its own (60 s): no request of its meets our closing */
void http_free(struct http *h);
unsigned http_connections(const struct http *h);
uint64_t http_requests(const struct http *h);

/* --- the request --- */
const char *request_param(const struct request *r, unsigned i);        /* i-th "{}" segment, percent-decoded; "" when absent */
const char *request_query(const struct request *r, const char *name);  /* NULL when absent */
const char *request_header(const struct request *r, const char *name);
const char *request_id(const struct request *r);                       /* X-Request-Id, "" when absent */
struct buf *request_body(struct request *r);
/* The body as a JSON object; a new reference, or NULL and the problem was answered. */
json_t *request_json(struct request *r);
/* An integer of the query; `fallback` when absent. -1: out of range, the problem was answered. */
int request_query_i64(struct request *r, const char *name, int64_t fallback, int64_t max, int64_t *ret);

/* --- answers --- */
void http_header(struct request *r, const char *name, const char *value);   /* for the answer that follows; at most HTTP_HEADERS */
#define HTTP_HEADERS 6
void http_answer_json(struct request *r, int status, json_t *j);            /* takes the reference; NULL: 500 */
void http_answer_buf(struct request *r, int status, const char *content_type, struct buf *b);   /* takes the bytes */
void http_answer_problem(struct request *r, int status, const char *code, const char *detail);
void http_answer_problem_with(struct request *r, int status, const char *code, const char *detail, const char *key, const char *value);
void http_answer_err(struct request *r, const err_t *e);
void http_answer_empty(struct request *r, int status);

/* --- waiting before the answer --- */
/* The request sleeps until request_wake() or for ms; then fn is called. Once per handler call. */
void http_wait(struct request *r, int64_t ms, void (*fn)(struct executor *x, struct request *r));
void request_wake(struct request *r);   /* no effect when it does not sleep */
/* State of the handler's own, freed with the request. Replaces an earlier one without freeing it. */
void request_set_state(struct request *r, void *state, void (*free_fn)(void *state));
void *request_state(const struct request *r);

/* --- streams --- */
#define HTTP_STREAM_END (-1)      /* the end of the body */
#define HTTP_STREAM_BROKEN (-2)   /* end without a clean end: the client sees a cut transfer */
#define HTTP_UNSIZED UINT64_MAX
/* Where a body comes from; it works on the request's state. */
struct http_source {
	/* *ret: at most max bytes, the source's own, unchanged until back() or the next call. 0: nothing now, called again after request_wake() or the idle time. */
	ssize_t (*read)(struct request *r, size_t max, const char **ret);
	/* The last n bytes of that were not sent. The next read goes on with them, or with what has taken their place. */
	void (*back)(struct request *r, size_t n);
};
/* length: of the whole body, or HTTP_UNSIZED (chunked). source: static. The connection ends with the body. A reader that stops costs no memory here. */
void http_stream(struct request *r, int status, const char *content_type, uint64_t length, const struct http_source *source);
void http_stream_idle(struct request *r, int64_t ms);   /* longest sleep of the stream; default HTTP_IDLE_MS */
#define HTTP_IDLE_MS 15000

#endif
