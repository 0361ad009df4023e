#include "fcgi/res_commands.h"

#include "base/num.h"
#include "base/str.h"
#include "domain/commands.h"
#include "fcgi/command_body.h"
#include "fcgi/header.h"
#include "fcgi/page.h"

#define STDIN_PIECE (1u << 20)

static int read_stage(const json_t *body, struct command_new *n, err_t **err)
{
	static const char *const keys[] = { "id", "timeout_ms", NULL };
	const json_t *s = NULL;

	if (json_get_obj(body, "stage", false, &s, err) < 0)
		return -1;
	if (!s)
		return 0;
	n->has_stage_timeout = json_has(s, "timeout_ms");
	if (json_only_keys(s, keys, err) < 0 || json_get_str(s, "id", true, &n->stage, err) < 0)
		return -1;
	return json_get_i64(s, "timeout_ms", false, INT64_MIN, INT64_MAX, &n->stage_timeout_ms, err);
}

int res_commands_start(struct call *c, err_t **err)
{
	static const char *const keys[] = { COMMAND_BODY_KEYS, "lease_token", "keep_stdin", "background", "stage", NULL };
	struct command_new n = { 0 };
	struct command_started s = { 0 };

	if (json_only_keys(c->body, keys, err) < 0 || command_body_read(c, &n, err) < 0)
		return -1;
	if (json_get_str(c->body, "lease_token", false, &n.lease_token, err) < 0 || json_get_bool(c->body, "keep_stdin", false, &n.keep_stdin, err) < 0 ||
	    json_get_bool(c->body, "background", false, &n.background, err) < 0 || read_stage(c->body, &n, err) < 0)
		return -1;
	if (n.background)
		n.view = COMMAND_VIEW_NONE;
	if (commands_start(c->ctx->domain, &c->caller, c->params[0], &n, &s, err) < 0)
		return -1;
	return command_body_answer(c, &n, &s, err);
}

int res_commands_list(struct call *c, err_t **err)
{
	struct command_list list = { .cursor = request_query(c->q, "cursor") };
	json_t *o = NULL;

	if (page_limit(c->q, &list.limit, err) < 0 || commands_list(c->ctx->domain, &c->caller, c->params[0], &list, &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}

int res_commands_get(struct call *c, err_t **err)
{
	json_t *o = NULL;

	if (commands_get(c->ctx->domain, &c->caller, c->params[0], &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}

static int view(struct call *c, enum command_view v, uint64_t from, bool base64, const char *type, err_t **err)
{
	char ticket[TICKET_SIZE];

	if (commands_ticket(c->ctx->domain, &c->caller, c->params[0], v, from, base64, ticket, err) < 0)
		return -1;
	return command_body_ticket(c, c->params[0], ticket, type, err);
}

/* Where to go on. A browser that reconnects sends its old query and the newer Last-Event-ID, so that one wins. */
static int cursor(const struct call *c, uint64_t *ret, err_t **err)
{
	const char *last = request_field(c->q, FIELD_LAST_EVENT_ID), *from = last ? last : request_query(c->q, "from");

	if (from && num_u64(from, INT64_MAX, ret) < 0)
		return err_set(err, ERR_INVALID, "bad_cursor", "from and Last-Event-ID are byte positions");
	return 0;
}

int res_commands_events(struct call *c, err_t **err)
{
	const unsigned offered = 1u << HEADER_SSE | 1u << HEADER_NDJSON;
	enum header_form f = header_accept(request_field(c->q, FIELD_ACCEPT), offered, HEADER_SSE);
	uint64_t from = 0;
	bool base64;

	if (cursor(c, &from, err) < 0 || command_body_encoding(c, &base64, err) < 0)
		return -1;
	return view(c, f == HEADER_NDJSON ? COMMAND_VIEW_NDJSON : COMMAND_VIEW_SSE, from, base64, header_form_type(f), err);
}

int res_commands_stdout(struct call *c, err_t **err)
{
	return view(c, COMMAND_VIEW_STDOUT, 0, false, "application/octet-stream", err);
}

int res_commands_stderr(struct call *c, err_t **err)
{
	return view(c, COMMAND_VIEW_STDERR, 0, false, "application/octet-stream", err);
}

static int flag(const struct call *c, const char *name, bool *ret, err_t **err)
{
	const char *v = request_query(c->q, name);

	if (v && !str_eq(v, "0") && !str_eq(v, "1"))
		return err_set(err, ERR_REFUSED, "bad_flag", "%s is 0 or 1", name);
	*ret = v && str_eq(v, "1");
	return 0;
}

/* Fills p with up to n bytes of the body. The bytes, or -1. */
static int fill(struct request *q, char *p, size_t n, err_t **err)
{
	size_t len = 0;
	int got;

	do {
		got = request_body_read(q, p + len, n - len, err);
		if (got < 0)
			return -1;
		len += (size_t)got;
	} while (got > 0 && len < n);
	return (int)len;
}

/* Hands the body on piece by piece. End of file goes with the last piece, so that it is never told for a body that was cut short. */
static int forward(struct call *c, bool eof, uint64_t *sent, err_t **err)
{
	char *piece = arena_alloc(c->arena, STDIN_PIECE);
	uint64_t total = request_body_length(c->q);

	if (!piece)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a piece of the body");
	do {
		int n = fill(c->q, piece, STDIN_PIECE, err);
		json_t *o = NULL;

		if (n < 0 || commands_stdin(c->ctx->domain, &c->caller, c->params[0], piece, (size_t)n, eof && *sent + (uint64_t)n == total, &o, err) < 0)
			return -1;
		json_object_put(o);
		*sent += (uint64_t)n;
	} while (*sent < total);
	return 0;
}

int res_commands_stdin(struct call *c, err_t **err)
{
	uint64_t sent = 0;
	json_t *o;
	bool eof;

	if (flag(c, "eof", &eof, err) < 0)
		return -1;
	if (request_body_length(c->q) > c->ctx->stdin_bytes)
		return err_set(err, ERR_TOO_LARGE, "stdin_too_large", "the body is longer than %llu bytes", (unsigned long long)c->ctx->stdin_bytes);
	if (forward(c, eof, &sent, err) < 0)
		return -1;
	o = json_object_new_object();
	if (o && json_add_i64(o, "received_bytes", (int64_t)sent) < 0) {
		json_object_put(o);
		o = NULL;
	}
	return response_json(c->r, 202, o, err);
}

/* A signal is a name or a number; the domain takes both as text. */
static int signal_text(struct call *c, const char **ret, err_t **err)
{
	json_t *v = NULL;

	if (json_object_object_get_ex(c->body, "signal", &v) && json_object_is_type(v, json_type_int)) {
		*ret = arena_fmt(c->arena, "%lld", (long long)json_object_get_int64(v));
		return *ret ? 0 : err_set(err, ERR_NO_MEMORY, NULL, "no memory");
	}
	return json_get_str(c->body, "signal", true, ret, err);
}

int res_commands_signal(struct call *c, err_t **err)
{
	static const char *const keys[] = { "signal", NULL };
	const char *sig = NULL;

	if (json_only_keys(c->body, keys, err) < 0 || signal_text(c, &sig, err) < 0)
		return -1;
	if (commands_signal(c->ctx->domain, &c->caller, c->params[0], sig, err) < 0)
		return -1;
	response_empty(c->r, 202);
	return 0;
}

int res_commands_kill(struct call *c, err_t **err)
{
	static const char *const keys[] = { NULL };

	if (json_only_keys(c->body, keys, err) < 0 || commands_kill(c->ctx->domain, &c->caller, c->params[0], err) < 0)
		return -1;
	response_empty(c->r, 202);
	return 0;
}
