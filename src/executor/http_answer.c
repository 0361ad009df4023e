/* Answers and the request's parts (declared in http.h). */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "executor/http_priv.h"

#define JSON_DEPTH 32
#define ANSWER_MAX (256u << 20)

/* --- the request --- */

const char *request_param(const struct request *r, unsigned i)
{
	return i < HTTP_PARAMS ? r->params[i] : "";
}

const char *request_query(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->conn, MHD_GET_ARGUMENT_KIND, name);
}

const char *request_header(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

const char *request_id(const struct request *r)
{
	const char *id = request_header(r, "X-Request-Id");

	return id ? id : "";
}

struct buf *request_body(struct request *r)
{
	return &r->body;
}

json_t *request_json(struct request *r)
{
	cleanup_err err_t *e = NULL;
	json_t *j = json_parse(buf_str(&r->body), r->body.len, r->body.cap, JSON_DEPTH, &e);

	if (!j) {
		http_answer_err(r, e);
	} else if (!json_object_is_type(j, json_type_object)) {
		json_object_put(j);
		http_answer_problem(r, 400, "bad_json", "the body must be a JSON object");
		j = NULL;
	}
	return j;
}

int request_query_i64(struct request *r, const char *name, int64_t fallback, int64_t max, int64_t *ret)
{
	const char *text = request_query(r, name);

	*ret = fallback;
	if (!text || num_i64(text, 0, max, ret) == 0)
		return 0;
	http_answer_problem_with(r, 400, "bad_field", "a number out of range", "field", name);
	return -1;
}

void request_set_state(struct request *r, void *state, void (*free_fn)(void *state))
{
	r->state = state;
	r->free_state = free_fn;
}

void *request_state(const struct request *r)
{
	return r->state;
}

/* --- answers --- */

void http_header(struct request *r, const char *name, const char *value)
{
	if (r->n_headers >= HTTP_HEADERS || strpbrk(value, "\r\n") || str_copy(r->headers[r->n_headers].value, sizeof r->headers[0].value, value) < 0)
		return;
	r->headers[r->n_headers++].name = name;
}

/* Takes the response. */
static void queue(struct request *r, int status, const char *content_type, struct MHD_Response *m)
{
	r->answered = true;
	if (!m) {
		r->dead = true;   /* out of memory: the connection goes down */
		return;
	}
	if (content_type)
		(void)MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	for (unsigned i = 0; i < r->n_headers; i++)
		(void)MHD_add_response_header(m, r->headers[i].name, r->headers[i].value);
	(void)MHD_set_connection_option(r->conn, MHD_CONNECTION_OPTION_TIMEOUT, 0u);   /* who reads slowly is not silent */
	(void)MHD_queue_response(r->conn, (unsigned)status, m);
	MHD_destroy_response(m);
}

void http_answer_buf(struct request *r, int status, const char *content_type, struct buf *b)
{
	size_t n = b->len;
	char *p = buf_failed(b) ? NULL : buf_steal(b);

	buf_free(b);
	if (!p && n > 0) {
		queue(r, 500, NULL, MHD_create_response_from_buffer(0, (void *)(uintptr_t)"", MHD_RESPMEM_PERSISTENT));
		return;
	}
	queue(r, status, content_type, MHD_create_response_from_buffer(n, p ? p : (void *)(uintptr_t)"", p ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT));
}

void http_answer_json(struct request *r, int status, json_t *j)
{
	cleanup_json json_t *owned = j;
	struct buf b = BUF_INIT(ANSWER_MAX);
	size_t n = 0;
	const char *text = owned ? json_text(owned, &n) : NULL;

	if (!text || buf_add(&b, text, n) < 0 || buf_addc(&b, '\n') < 0) {
		buf_free(&b);
		http_answer_problem(r, 500, "no_memory", "out of memory");
		return;
	}
	http_answer_buf(r, status, "application/json", &b);
}

void http_answer_problem_with(struct request *r, int status, const char *code, const char *detail, const char *key, const char *value)
{
	struct buf b = BUF_INIT(64u << 10);

	buf_addf(&b, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":", MHD_get_reason_phrase_for((unsigned)status), status);
	json_quote(&b, detail, strlen(detail));
	buf_adds(&b, ",\"code\":");
	json_quote(&b, code, strlen(code));
	buf_adds(&b, ",\"request_id\":");
	json_quote(&b, request_id(r), strlen(request_id(r)));
	if (key) {
		buf_addf(&b, ",\"%s\":", key);
		json_quote(&b, value, strlen(value));
	}
	buf_adds(&b, "}\n");
	if (status == 503)
		http_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "2");
	http_answer_buf(r, status, "application/problem+json", &b);
}

void http_answer_problem(struct request *r, int status, const char *code, const char *detail)
{
	http_answer_problem_with(r, status, code, detail, NULL, NULL);
}

static int status_of(enum err_code c)
{
	switch (c) {
	case ERR_INVALID:
		return 400;
	case ERR_REFUSED:
		return 422;
	case ERR_NOT_FOUND:
		return 404;
	case ERR_CONFLICT:
	case ERR_EXISTS:
	case ERR_BUSY:
		return 409;
	case ERR_DENIED:
		return 403;
	case ERR_LIMIT:
		return 429;
	case ERR_TOO_LARGE:
		return 413;
	case ERR_GONE:
		return 410;
	case ERR_NO_SPACE:
		return 507;
	case ERR_UNAVAILABLE:
	case ERR_UNKNOWN:
	case ERR_TIMEOUT:
	case ERR_NO_MEMORY:
		return 503;
	case ERR_INTERNAL:
		break;
	}
	return 500;
}

void http_answer_err(struct request *r, const err_t *e)
{
	http_answer_problem(r, status_of(err_code(e)), err_detail(e), err_message(e));
}

void http_answer_empty(struct request *r, int status)
{
	queue(r, status, NULL, MHD_create_response_from_buffer(0, (void *)(uintptr_t)"", MHD_RESPMEM_PERSISTENT));
}
