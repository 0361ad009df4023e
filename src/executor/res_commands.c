/* res_commands.c - /v1/commands and /t. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "executor/command_json.h"
#include "executor/executor.h"
#include "executor/res.h"
#include "executor/res_wait.h"
#include "executor/view.h"

#define COMMAND_TEXT_MAX (128u << 20)
#define QUERY_IDS 200

/* --- the Command as text --- */

int executor_command_members(struct executor *x, const char *cid, bool texts, struct buf *b, err_t **err)
{
	cleanup_free char *record = NULL;
	struct steps s;
	struct output *o = NULL;
	int rc;

	if (commands_facts(x->commands, cid, &s, &record, err) < 0)
		return -1;
	if (texts && !(o = commands_output(x->commands, cid, err)))
		return -1;
	rc = command_members(b, &s, record, o, commands_limits(x->commands)->text_bytes, err);
	output_unref(o);
	return rc;
}

int executor_command(struct executor *x, const char *cid, bool texts, struct buf *b, err_t **err)
{
	buf_addc(b, '{');
	if (executor_command_members(x, cid, texts, b, err) < 0)
		return -1;
	return buf_addc(b, '}') < 0 ? err_set(err, ERR_NO_MEMORY, NULL, "command's answer") : 0;
}

/* The id of the path; NULL: answered. */
static const char *command_id(struct request *r)
{
	const char *cid = request_param(r, 0);

	if (id_valid(cid))
		return cid;
	http_answer_problem(r, 404, "not_found", "not a command's id");
	return NULL;
}

/* --- PUT --- */

/* {"command":{...}}, or {"ticket":"..."}: who asked for a ticket looks at the command through it, unless it waited for the start */
static void answer_put(struct executor *x, struct request *r, const char *cid, int status, const char *ticket, bool waited)
{
	struct buf b = BUF_INIT(COMMAND_TEXT_MAX);
	cleanup_err err_t *e = NULL;

	if (*ticket && !waited) {
		buf_addf(&b, "{\"ticket\":\"%s\"}\n", ticket);
		http_answer_buf(r, status, "application/json", &b);
		return;
	}
	buf_addc(&b, '{');
	if (*ticket)
		buf_addf(&b, "\"ticket\":\"%s\",", ticket);
	buf_adds(&b, "\"command\":");
	if (executor_command(x, cid, false, &b, &e) < 0) {
		buf_free(&b);
		http_answer_err(r, e);
		return;
	}
	buf_adds(&b, "}\n");
	http_answer_buf(r, status, "application/json", &b);
}

/* The answer to a PUT, held until the command has started or ended. */
struct start_wait {
	struct res_wait wait;      /* first */
	struct output *o;          /* whose watches tell of both */
	int status;
	char cid[ID_SIZE], ticket[TICKET_SIZE];
};

static void start_answer_or_wait(struct executor *x, struct request *r)
{
	struct start_wait *w = request_state(r);

	if (commands_phase(x->commands, w->cid) != COMMAND_PENDING || !res_wait_more(r, start_answer_or_wait))
		answer_put(x, r, w->cid, w->status, w->ticket, true);
}

static void start_wait_free(void *state)
{
	struct start_wait *w = state;

	list_del(&w->wait.watch.node);
	output_unref(w->o);
	free(w);
}

static void wait_for_start(struct executor *x, struct request *r, const char *cid, int status, const char *ticket, int64_t ms)
{
	cleanup_err err_t *e = NULL;
	struct output *o = commands_output(x->commands, cid, &e);
	struct start_wait *w;

	if (!o) {
		http_answer_err(r, e);
		return;
	}
	w = res_wait_new(r, output_watches(o), ms, sizeof *w);
	if (!w) {
		output_unref(o);
		return;
	}
	request_set_state(r, w, start_wait_free);
	w->o = o;
	w->status = status;
	(void)str_copy(w->cid, sizeof w->cid, cid);
	(void)str_copy(w->ticket, sizeof w->ticket, ticket);
	start_answer_or_wait(x, r);
}

void res_command_put(struct executor *x, struct request *r)
{
	const char *cid = command_id(r);
	cleanup_json json_t *body = cid ? request_json(r) : NULL;
	cleanup_err err_t *e = NULL;
	char ticket[TICKET_SIZE] = "";
	struct view_spec view = { 0 };
	struct spec *s;
	bool is_new;
	int64_t wait_ms;

	if (!body || request_query_i64(r, "wait_start_ms", 0, RES_WAIT_MAX_MS, &wait_ms) < 0)
		return;
	s = spec_new(body, &e);
	if (s)
		view = s->ticket;
	if (!s || commands_put(x->commands, cid, s, &is_new, &e) < 0 ||
	    (view.kind && tickets_make(x->tickets, cid, &view, ticket, &e) < 0))
		http_answer_err(r, e);
	else if (wait_ms > 0)
		wait_for_start(x, r, cid, is_new ? 201 : 200, ticket, wait_ms);
	else
		answer_put(x, r, cid, is_new ? 201 : 200, ticket, false);
}

/* --- GET, query --- */

void res_command_get(struct executor *x, struct request *r)
{
	const char *cid = command_id(r);
	struct buf b = BUF_INIT(COMMAND_TEXT_MAX);
	cleanup_err err_t *e = NULL;
	int64_t texts;

	if (!cid || request_query_i64(r, "texts", 0, 1, &texts) < 0)
		return;
	if (executor_command(x, cid, texts == 1, &b, &e) < 0) {
		buf_free(&b);
		http_answer_err(r, e);
		return;
	}
	buf_addc(&b, '\n');
	http_answer_buf(r, 200, "application/json", &b);
}

/* Appends the command unless it is unknown. */
static void add_item(struct executor *x, const char *cid, struct buf *b)
{
	size_t before = b->len;
	cleanup_err err_t *e = NULL;

	if (before && b->data[before - 1] == '}')
		buf_addc(b, ',');
	if (executor_command(x, cid, false, b, &e) < 0) {
		b->len = before;
		b->data[before] = '\0';
	}
}

void res_commands_query(struct executor *x, struct request *r)
{
	static const char *const keys[] = { "ids", NULL };
	cleanup_json json_t *body = request_json(r);
	struct buf b = BUF_INIT(COMMAND_TEXT_MAX);
	cleanup_err err_t *e = NULL;
	const json_t *ids = NULL;
	size_t n;

	if (!body)
		return;
	if (json_only_keys(body, keys, &e) < 0 || json_get_arr(body, "ids", true, &ids, &e) < 0) {
		http_answer_err(r, e);
		return;
	}
	n = json_object_array_length(ids);
	if (n > QUERY_IDS) {
		http_answer_problem(r, 400, "bad_field", "ids: at most 200");
		return;
	}
	buf_adds(&b, "{\"items\":[");
	for (size_t i = 0; i < n; i++) {
		const char *cid = json_object_get_string(json_object_array_get_idx(ids, i));

		if (cid && id_valid(cid))
			add_item(x, cid, &b);
	}
	buf_adds(&b, "]}\n");
	http_answer_buf(r, 200, "application/json", &b);
}

/* --- views --- */

void res_command_ticket(struct executor *x, struct request *r)
{
	const char *cid = command_id(r);
	cleanup_json json_t *body = cid ? request_json(r) : NULL;
	cleanup_err err_t *e = NULL;
	struct view_spec v = { 0 };
	char ticket[TICKET_SIZE];
	json_t *j;

	if (!body)
		return;
	if (commands_phase(x->commands, cid) == COMMAND_UNKNOWN) {
		http_answer_problem(r, 404, "not_found", "the command is not known");
		return;
	}
	if (spec_view(body, &v, &e) < 0 || tickets_make(x->tickets, cid, &v, ticket, &e) < 0) {
		http_answer_err(r, e);
		return;
	}
	j = json_object_new_object();
	if (j && json_add_str(j, "ticket", ticket) < 0) {
		json_object_put(j);
		j = NULL;
	}
	http_answer_json(r, 201, j);
}

void res_ticket_get(struct executor *x, struct request *r)
{
	char cid[ID_SIZE];
	struct view_spec v;

	if (tickets_take(x->tickets, request_param(r, 0), cid, &v) < 0)
		http_answer_problem(r, 404, "ticket_unknown", "the ticket is unknown, used or expired");
	else
		v.kind->open(x, r, cid, &v);
}

void res_command_view(struct executor *x, struct request *r)
{
	const char *cid = command_id(r);
	struct view_spec v = { .kind = view_find(request_param(r, 1)) };
	int64_t from, base64;

	if (!cid || request_query_i64(r, "from", 0, INT64_MAX, &from) < 0 || request_query_i64(r, "base64", 0, 1, &base64) < 0)
		return;
	v.from = (uint64_t)from;
	v.base64 = base64 == 1;
	if (!v.kind)
		http_answer_problem(r, 404, "not_found", "no such view");
	else
		v.kind->open(x, r, cid, &v);
}

/* --- stdin, signal, kill --- */

void res_command_stdin(struct executor *x, struct request *r)
{
	const char *cid = command_id(r);
	struct buf *body = request_body(r);
	cleanup_err err_t *e = NULL;
	json_t *j;
	int64_t eof;

	if (!cid || request_query_i64(r, "eof", 0, 1, &eof) < 0)
		return;
	if (commands_stdin(x->commands, cid, body->data, body->len, eof == 1, &e) < 0) {
		http_answer_err(r, e);
		return;
	}
	j = json_object_new_object();
	if (j && json_add_i64(j, "received_bytes", (int64_t)commands_stdin_received(x->commands, cid)) < 0) {
		json_object_put(j);
		j = NULL;
	}
	http_answer_json(r, 202, j);
}

/* A name with or without SIG, or a number from 1 to 64. -1: neither. */
static int signal_of(const json_t *v)
{
	static const char digits[] = "0123456789";
	const char *s = json_object_get_string((json_t *)v);
	int64_t n = 0;

	if (!s)
		return -1;
	if (json_object_is_type(v, json_type_int) || (*s && strspn(s, digits) == strlen(s)))
		return num_i64(s, 1, 64, &n) < 0 ? -1 : (int)n;
	if (!json_object_is_type(v, json_type_string))
		return -1;
	if (str_prefix(s, "SIG"))
		s += 3;
	for (int i = 1; i < NSIG; i++)
		if (sigabbrev_np(i) && str_eq(s, sigabbrev_np(i)))
			return i;
	return -1;
}

void res_command_signal(struct executor *x, struct request *r)
{
	static const char *const keys[] = { "signal", "instance", NULL };
	const char *cid = command_id(r), *iid = NULL;
	cleanup_json json_t *body = cid ? request_json(r) : NULL;
	cleanup_err err_t *e = NULL;
	json_t *v = NULL;
	int signo;

	if (!body)
		return;
	if (json_only_keys(body, keys, &e) < 0 || json_get_str(body, "instance", false, &iid, &e) < 0) {
		http_answer_err(r, e);
		return;
	}
	signo = json_object_object_get_ex(body, "signal", &v) ? signal_of(v) : -1;
	if (signo < 0)
		http_answer_problem(r, 422, "bad_signal", "signal: a name like TERM or a number from 1 to 64");
	else if (commands_signal(x->commands, cid, iid, signo, &e) < 0)
		http_answer_err(r, e);
	else
		http_answer_empty(r, 202);
}

void res_command_kill(struct executor *x, struct request *r)
{
	static const char *const keys[] = { "reason", "instance", NULL };
	const char *cid = command_id(r), *reason = "cancelled", *iid = NULL;
	cleanup_json json_t *body = NULL;
	cleanup_err err_t *e = NULL;
	enum reason why;

	if (!cid)
		return;
	if (request_body(r)->len > 0 && !(body = request_json(r)))
		return;
	if (body && (json_only_keys(body, keys, &e) < 0 || json_get_str(body, "reason", false, &reason, &e) < 0 ||
	    json_get_str(body, "instance", false, &iid, &e) < 0)) {
		http_answer_err(r, e);
		return;
	}
	why = reason_parse(reason);
	if (why != REASON_CANCELLED && why != REASON_TIMEOUT)
		http_answer_problem(r, 400, "bad_field", "reason: cancelled or timeout");
	else if (commands_kill(x->commands, cid, iid, why, &e) < 0)
		http_answer_err(r, e);
	else
		http_answer_empty(r, 202);
}
