#include "fcgi/problem.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/str.h"

static const struct row {
	enum err_code code;
	int status;
	const char *said;   /* what the client is told instead of the message; NULL: the message */
} table[] = {
	{ ERR_INTERNAL, 500, "an error of ours; the log has it under the request id" },
	{ ERR_INVALID, 400, NULL },
	{ ERR_REFUSED, 422, NULL },
	{ ERR_NOT_FOUND, 404, NULL },
	{ ERR_CONFLICT, 409, NULL },
	{ ERR_EXISTS, 409, NULL },
	{ ERR_DENIED, 403, NULL },
	{ ERR_BUSY, 409, NULL },
	{ ERR_LIMIT, 429, NULL },
	{ ERR_TOO_LARGE, 413, NULL },
	{ ERR_UNAVAILABLE, 503, "a part of the service is away; nothing was done, try again" },
	{ ERR_UNKNOWN, 503, "a part of the service did not answer; what was asked for may or may not have been done" },
	{ ERR_TIMEOUT, 503, "a part of the service took too long" },
	{ ERR_GONE, 410, NULL },
	{ ERR_NO_SPACE, 507, "no space is left" },
	{ ERR_NO_MEMORY, 503, "out of memory; try again" },
};

static const struct row *row_of(enum err_code code)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].code == code)
			return &table[i];
	return &table[0];
}

int problem_status(enum err_code code)
{
	return row_of(code)->status;
}

static const struct {
	enum err_code code;
	const char *detail;
	int status;
} special[] = {
	{ ERR_DENIED, "unauthorized", 401 },
	{ ERR_INVALID, "unsupported_media_type", 415 },
	{ ERR_NOT_FOUND, "method_not_allowed", 405 },
};

/* A failed system call on the way is never the caller's fault, whatever its errno looks like; its text names our files. */
static bool system_fault(const err_t *e)
{
	return err_errno(e) != 0 && !row_of(err_code(e))->said;
}

int problem_status_of(const err_t *e)
{
	if (system_fault(e))
		return problem_status(ERR_INTERNAL);
	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if (err_code(e) == special[i].code && str_eq(err_detail(e), special[i].detail))
			return special[i].status;
	return problem_status(err_code(e));
}

static int add_extras(json_t *o, const json_t *extras)
{
	if (!extras)
		return 0;
	json_object_object_foreach(extras, key, v) {
		if (json_add(o, key, json_object_get(v)) < 0)
			return -1;
	}
	return 0;
}

static json_t *body(const err_t *e, int status, const json_t *extras, const char *request_id)
{
	const char *said = row_of(system_fault(e) ? ERR_INTERNAL : err_code(e))->said;
	const char *code = system_fault(e) ? err_code_name(ERR_INTERNAL) : err_detail(e);
	json_t *o = json_object_new_object();

	if (!o)
		return NULL;
	if (json_add_str(o, "type", "about:blank") < 0 || json_add_str(o, "title", response_reason(status)) < 0 ||
	    json_add_i64(o, "status", status) < 0 || json_add_str(o, "detail", said ? said : err_message(e)) < 0 ||
	    json_add_str(o, "code", code) < 0 || json_add_str(o, "request_id", request_id) < 0 ||
	    add_extras(o, extras) < 0) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

void problem_answer(struct response *r, const err_t *e, const json_t *extras, const char *request_id, int64_t retry_after_s)
{
	int status = problem_status_of(e);
	char retry[24];

	snprintf(retry, sizeof(retry), "%lld", (long long)retry_after_s);
	if (status != 405)
		response_drop_headers(r);
	if (status == 503 || status == 507 || status == 429 || str_eq(err_detail(e), "cleanup_pending"))
		response_header(r, "Retry-After", retry, NULL);
	if (status == 401)
		response_header(r, "WWW-Authenticate", "Bearer", NULL);
	if (response_problem(r, status, body(e, status, extras, request_id), NULL) < 0)
		response_empty(r, 503);
}
