#include "fcgi/request.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/num.h"
#include "base/rand.h"
#include "base/str.h"
#include "fcgi/header.h"

struct request {
	struct arena *arena;
	const char *fields[FIELD_COUNT];
	enum request_field doubled, too_long;   /* FIELD_COUNT: none */
	struct uri uri;
	const char *id, *log_path;
	enum request_method method;
	uint64_t body_length, body_left;
	request_read_fn *read;
	void *read_arg;
};

static const char *const names[FIELD_COUNT] = {
	[FIELD_METHOD] = "REQUEST_METHOD",
	[FIELD_URI] = "REQUEST_URI",
	[FIELD_CONTENT_TYPE] = "CONTENT_TYPE",
	[FIELD_CONTENT_LENGTH] = "CONTENT_LENGTH",
	[FIELD_REMOTE_ADDR] = "REMOTE_ADDR",
	[FIELD_HOST] = "HTTP_HOST",
	[FIELD_AUTHORIZATION] = "HTTP_AUTHORIZATION",
	[FIELD_COOKIE] = "HTTP_COOKIE",
	[FIELD_ACCEPT] = "HTTP_ACCEPT",
	[FIELD_ORIGIN] = "HTTP_ORIGIN",
	[FIELD_SEC_FETCH_SITE] = "HTTP_SEC_FETCH_SITE",
	[FIELD_REQUESTED_WITH] = "HTTP_X_REQUESTED_WITH",
	[FIELD_IDEMPOTENCY_KEY] = "HTTP_IDEMPOTENCY_KEY",
	[FIELD_LAST_EVENT_ID] = "HTTP_LAST_EVENT_ID",
	[FIELD_RANGE] = "HTTP_RANGE",
	[FIELD_ACTING_USER] = "HTTP_X_PADDOCK_USER",
	[FIELD_REQUEST_ID] = "PADDOCK_REQUEST_ID",
};

static const char *const methods[] = {
	[METHOD_GET] = "GET", [METHOD_HEAD] = "HEAD", [METHOD_POST] = "POST",
	[METHOD_PUT] = "PUT", [METHOD_DELETE] = "DELETE", [METHOD_PATCH] = "PATCH",
};

static enum request_field field_of(const char *s, size_t n)
{
	for (int f = 0; f < FIELD_COUNT; f++)
		if (strlen(names[f]) == n && memcmp(names[f], s, n) == 0)
			return (enum request_field)f;
	return FIELD_COUNT;
}

/* -1: out of memory. */
static int collect(struct request *q, char *const *envp)
{
	bool seen[FIELD_COUNT] = { false };

	for (; *envp; envp++) {
		size_t n = strcspn(*envp, "=");
		enum request_field f = field_of(*envp, n);
		const char *value = (*envp)[n] ? *envp + n + 1 : "";

		if (f == FIELD_COUNT)
			continue;
		if (seen[f])
			q->doubled = f;
		if (strlen(value) > LIMIT_HEADER_BYTES)
			q->too_long = f;
		else if (*value && !seen[f] && !(q->fields[f] = arena_dup(q->arena, value)))
			return -1;
		seen[f] = true;
	}
	return 0;
}

static enum request_method method_of(const char *s)
{
	for (size_t i = 0; s && i < sizeof(methods) / sizeof(methods[0]); i++)
		if (str_eq(s, methods[i]))
			return (enum request_method)i;
	return METHOD_OTHER;
}

static const char *own_id(struct arena *a)
{
	char hex[33];

	rand_hex(hex, 16);
	return arena_dup(a, hex);
}

struct request *request_new(struct arena *a, char *const *envp, request_read_fn *read, void *arg)
{
	struct request *q = arena_alloc(a, sizeof(*q));
	const char *id, *target;

	if (!q)
		return NULL;
	q->arena = a;
	q->doubled = q->too_long = FIELD_COUNT;
	q->read = read;
	q->read_arg = arg;
	if (collect(q, envp) < 0)
		return NULL;
	q->method = method_of(q->fields[FIELD_METHOD]);
	id = q->fields[FIELD_REQUEST_ID];
	q->id = id && header_request_id_ok(id) ? id : own_id(a);
	target = q->fields[FIELD_URI] ? q->fields[FIELD_URI] : "";
	q->log_path = arena_dupn(a, target, strcspn(target, "?"));
	return q->id && q->log_path ? q : NULL;
}

static int check_length(struct request *q, err_t **err)
{
	const char *s = q->fields[FIELD_CONTENT_LENGTH];

	if (s && num_u64(s, INT64_MAX, &q->body_length) < 0)
		return err_set(err, ERR_INVALID, "bad_content_length", "the content length is no number");
	q->body_left = q->body_length;
	return 0;
}

int request_check(struct request *q, err_t **err)
{
	const char *id = q->fields[FIELD_REQUEST_ID];

	if (q->doubled != FIELD_COUNT)
		return err_set(err, ERR_INVALID, "duplicate_header", "%s is given twice", names[q->doubled]);
	if (q->too_long != FIELD_COUNT)
		return err_set(err, ERR_INVALID, "header_too_long", "%s is longer than %d bytes", names[q->too_long], LIMIT_HEADER_BYTES);
	if (!id || !header_request_id_ok(id))
		return err_set(err, ERR_INTERNAL, "internal", "the front passes no request id; see \"What nginx passes\" in docs/api.md");
	if (!q->fields[FIELD_URI] || !q->fields[FIELD_METHOD])
		return err_set(err, ERR_INTERNAL, "internal", "the front passes no method or target; see \"What nginx passes\" in docs/api.md");
	if (check_length(q, err) < 0)
		return -1;
	return uri_parse(q->arena, q->fields[FIELD_URI], &q->uri, err);
}

const char *request_id(const struct request *q)
{
	return q->id;
}

enum request_method request_method(const struct request *q)
{
	return q->method;
}

const char *request_method_name(const struct request *q)
{
	return q->fields[FIELD_METHOD] ? q->fields[FIELD_METHOD] : "-";
}

const char *request_log_path(const struct request *q)
{
	return q->log_path;
}

const struct uri *request_uri(const struct request *q)
{
	return &q->uri;
}

const char *request_field(const struct request *q, enum request_field f)
{
	return q->fields[f];
}

const char *request_query(const struct request *q, const char *name)
{
	return uri_query(&q->uri, name);
}

uint64_t request_body_length(const struct request *q)
{
	return q->body_length;
}

int request_body_read(struct request *q, void *p, size_t n, err_t **err)
{
	size_t want = n > INT_MAX ? INT_MAX : n;
	int got;

	if (want > q->body_left)
		want = (size_t)q->body_left;
	if (want == 0)
		return 0;
	got = q->read(q->read_arg, p, (int)want);
	if (got <= 0)
		return err_set(err, ERR_INVALID, "incomplete_body", "the body ended %llu bytes before its announced length",
			       (unsigned long long)q->body_left);
	q->body_left -= (uint64_t)got;
	return got;
}

int request_body_all(struct request *q, struct arena *a, uint64_t max, const char **ret, size_t *ret_len, err_t **err)
{
	size_t len = 0;
	char *p;

	if (q->body_length > max)
		return err_set(err, ERR_TOO_LARGE, "body_too_large", "the body is longer than %llu bytes", (unsigned long long)max);
	p = arena_alloc(a, (size_t)q->body_length + 1);
	if (!p)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for the body");
	while (len < q->body_length) {
		int n = request_body_read(q, p + len, (size_t)q->body_length - len, err);

		if (n < 0)
			return -1;
		len += (size_t)n;
	}
	*ret = p;
	*ret_len = len;
	return 0;
}
