#include "fcgi/response.h"

#include <string.h>

#include "base/str.h"
#include "fcgi/limits.h"

struct response {
	struct arena *arena;
	int status;
	const char *type, *accel;
	const char *body;
	size_t len;
	const char *names[LIMIT_RESPONSE_HEADERS], *values[LIMIT_RESPONSE_HEADERS];
	size_t nheaders;
};

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{ 200, "OK" }, { 201, "Created" }, { 202, "Accepted" }, { 204, "No Content" }, { 400, "Bad Request" }, { 401, "Unauthorized" },
	{ 403, "Forbidden" }, { 404, "Not Found" }, { 405, "Method Not Allowed" }, { 409, "Conflict" }, { 410, "Gone" },
	{ 413, "Content Too Large" }, { 415, "Unsupported Media Type" }, { 422, "Unprocessable Content" }, { 429, "Too Many Requests" },
	{ 500, "Internal Server Error" }, { 503, "Service Unavailable" }, { 507, "Insufficient Storage" },
};

const char *response_reason(int status)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Status";
}

struct response *response_new(struct arena *a)
{
	struct response *r = arena_alloc(a, sizeof(*r));

	if (!r)
		return NULL;
	r->arena = a;
	response_empty(r, 204);
	return r;
}

void response_empty(struct response *r, int status)
{
	r->status = status;
	r->type = r->accel = r->body = NULL;
	r->len = 0;
}

static void put_json(void *p)
{
	json_object_put(p);
}

static int set_json(struct response *r, int status, const char *type, json_t *o, err_t **err)
{
	const char *text;
	size_t len;

	if (!o || !arena_adopt(r->arena, put_json, o) || !(text = json_text(o, &len)))
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for the answer");
	response_empty(r, status);
	r->type = type;
	r->body = text;
	r->len = len;
	return 0;
}

int response_json(struct response *r, int status, json_t *o, err_t **err)
{
	return set_json(r, status, "application/json", o, err);
}

int response_problem(struct response *r, int status, json_t *o, err_t **err)
{
	return set_json(r, status, "application/problem+json", o, err);
}

int response_text(struct response *r, int status, const char *type, const void *p, size_t n, err_t **err)
{
	const char *copy = arena_dupn(r->arena, p, n);

	if (!copy)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for the answer");
	response_empty(r, status);
	r->type = type;
	r->body = copy;
	r->len = n;
	return 0;
}

int response_accel(struct response *r, const char *prefix, const char *ticket, const char *type, err_t **err)
{
	size_t ok = strspn(ticket, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
	const char *uri;

	if (ok == 0 || ticket[ok])
		return err_set(err, ERR_INTERNAL, NULL, "the executor gave a malformed ticket");
	uri = arena_fmt(r->arena, "%s%s", prefix, ticket);
	if (!uri)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for the answer");
	response_empty(r, 200);
	r->type = type;
	r->accel = uri;
	return 0;
}

static int value_ok(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return 0;
	return 1;
}

int response_header(struct response *r, const char *name, const char *value, err_t **err)
{
	const char *copy;

	if (!value_ok(value) || r->nheaders == LIMIT_RESPONSE_HEADERS)
		return err_set(err, ERR_INTERNAL, NULL, "header %s cannot be sent", name);
	copy = arena_dup(r->arena, value);
	if (!copy)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a header");
	r->names[r->nheaders] = name;
	r->values[r->nheaders++] = copy;
	return 0;
}

void response_drop_headers(struct response *r)
{
	r->nheaders = 0;
}

int response_status(const struct response *r)
{
	return r->status;
}

size_t response_length(const struct response *r)
{
	return r->len;
}

int response_serialize(const struct response *r, const char *id, struct buf *b)
{
	buf_addf(b, "Status: %d %s\r\nX-Request-Id: %s\r\n", r->status, response_reason(r->status), id);
	/* nginx passes this one on from a redirecting answer, beside its own. */
	if (!r->accel)
		buf_adds(b, "Cache-Control: no-store\r\n");
	if (r->type)
		buf_addf(b, "Content-Type: %s\r\n", r->type);
	for (size_t i = 0; i < r->nheaders; i++)
		buf_addf(b, "%s: %s\r\n", r->names[i], r->values[i]);
	if (r->accel)
		buf_addf(b, "X-Accel-Redirect: %s\r\n", r->accel);
	else if (r->status != 204)
		buf_addf(b, "Content-Length: %zu\r\n", r->len);
	buf_adds(b, "\r\n");
	buf_add(b, r->body ? r->body : "", r->len);
	return buf_failed(b) ? -1 : 0;
}
