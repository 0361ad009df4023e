#include "fcgi/command_body.h"

#include "base/str.h"
#include "fcgi/header.h"

static enum command_view view_of(enum header_form f)
{
	switch (f) {
	case HEADER_SSE:
		return COMMAND_VIEW_SSE;
	case HEADER_NDJSON:
		return COMMAND_VIEW_NDJSON;
	case HEADER_JSON:
		break;
	}
	return COMMAND_VIEW_RESULT;
}

static enum header_form form_of(enum command_view v)
{
	if (v == COMMAND_VIEW_SSE)
		return HEADER_SSE;
	return v == COMMAND_VIEW_NDJSON ? HEADER_NDJSON : HEADER_JSON;
}

int command_body_encoding(const struct call *c, bool *ret, err_t **err)
{
	const char *v = request_query(c->q, "encoding");

	if (v && !str_eq(v, "base64") && !str_eq(v, "utf-8"))
		return err_set(err, ERR_REFUSED, "bad_encoding", "encoding is utf-8 or base64");
	*ret = v && str_eq(v, "base64");
	return 0;
}

int command_body_read(struct call *c, struct command_new *ret, err_t **err)
{
	const unsigned all = 1u << HEADER_JSON | 1u << HEADER_SSE | 1u << HEADER_NDJSON;
	const json_t *b = c->body;

	ret->has_timeout = json_has(b, "timeout_ms");
	if (json_get_str(b, "command", false, &ret->command, err) < 0 || json_get_arr(b, "argv", false, &ret->argv, err) < 0 ||
	    json_get_str(b, "cwd", false, &ret->cwd, err) < 0 || json_get_obj(b, "env", false, &ret->env, err) < 0 ||
	    json_get_mem(b, "stdin", false, &ret->stdin_text, &ret->stdin_len, err) < 0 ||
	    json_get_i64(b, "timeout_ms", false, INT64_MIN, INT64_MAX, &ret->timeout_ms, err) < 0 ||
	    json_get_bool(b, "with_sandbox", false, &ret->with_sandbox, err) < 0)
		return -1;
	if (command_body_encoding(c, &ret->base64, err) < 0)
		return -1;
	ret->view = view_of(header_accept(request_field(c->q, FIELD_ACCEPT), all, HEADER_JSON));
	ret->idempotency = (struct idempotency){
		.key = request_field(c->q, FIELD_IDEMPOTENCY_KEY),
		.body = c->raw,
		.body_len = c->raw_len,
	};
	return 0;
}

int command_body_ticket(struct call *c, const char *command_id, const char *ticket, const char *type, err_t **err)
{
	if (response_header(c->r, "X-Paddock-Command", command_id, err) < 0)
		return -1;
	return response_accel(c->r, c->ctx->accel_prefix, ticket, type, err);
}

int command_body_answer(struct call *c, const struct command_new *n, struct command_started *s, err_t **err)
{
	if (s->ticket[0])
		return command_body_ticket(c, s->id, s->ticket, header_form_type(form_of(n->view)), err);
	if (response_header(c->r, "X-Paddock-Command", s->id, err) < 0)
		return -1;
	return response_json(c->r, n->background ? 202 : 200, s->command, err);
}
