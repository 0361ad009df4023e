#include "domain/command_start.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "domain/answer.h"
#include "domain/check.h"
#include "domain/cleanup.h"
#include "domain/command_json.h"
#include "domain/executor_client.h"
#include "domain/reports.h"
#include "domain/sandbox_ask.h"
#include "provider/provider.h"

#define PUT_BYTES_MAX ((4u << 20) - (64u << 10))   /* the executor takes 4 MiB; ids, record and directories need a part of it */
#define STDIN_INLINE_MAX (256u << 10)
#define SEND_UNTIL_MS (START_SETTLE_MS / 2)
#define PUT_TRIES 3
#define PUT_PAUSE_MS 50
#define ROOM_BATCHES 4
#define STAGE_MAX 128
#define WITH_SANDBOX_MS 15000

static const char *const views[] = {
	[COMMAND_VIEW_RESULT] = "result",
	[COMMAND_VIEW_SSE] = "sse",
	[COMMAND_VIEW_NDJSON] = "ndjson",
	[COMMAND_VIEW_STDOUT] = "stdout",
	[COMMAND_VIEW_STDERR] = "stderr",
};

static const char *const kinds[] = { [COMMAND_KIND_COMMAND] = "command", [COMMAND_KIND_FILE] = "file", [COMMAND_KIND_VERIFY] = "verify" };

static int no_memory(err_t **err)
{
	return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a command");
}

static int check_what(const struct command_new *n, err_t **err)
{
	if (!n->command == !n->argv)
		return err_set(err, ERR_INVALID, "bad_field", "exactly one of command and argv is needed");
	if (n->argv)
		return check_argv(n->argv, err);
	size_t len = strlen(n->command);
	if (len < 1 || len > COMMAND_TEXT_MAX)
		return err_set(err, ERR_REFUSED, "bad_command", "command must have 1 to %d bytes", COMMAND_TEXT_MAX);
	return 0;
}

static int add_stdin(struct start *s, const struct command_new *n)
{
	bool keep = n->keep_stdin;
	int bad = 0;
	s->stdin_later = n->stdin_text && n->stdin_len > STDIN_INLINE_MAX;
	if (n->stdin_text && !s->stdin_later) {
		size_t len = 0;
		cleanup_free char *text = crypto_base64(n->stdin_text, n->stdin_len, &len);
		bad |= text ? json_add_mem(s->body, "stdin_base64", text, len) : -1;
	}
	return bad | json_add_bool(s->body, "keep_stdin", keep || s->stdin_later);
}

/* The request's variables and the two that name the project directory; the latter are added when the workdir is known. */
static int add_env(struct start *s, const json_t *env)
{
	json_t *all = json_object_new_object();
	if (!all)
		return -1;
	if (env) {
		json_object_object_foreach((json_t *)env, name, v) {
			if (json_add(all, name, json_object_get(v)) < 0) {
				json_object_put(all);
				return -1;
			}
		}
	}
	return json_add(s->body, "env", all);
}

static int build_body(struct start *s, const struct command_new *n, err_t **err)
{
	int bad = 0;
	size_t len = 0, what = 0;
	s->body = json_object_new_object();
	if (!s->body)
		return no_memory(err);
	bad |= n->argv ? json_add(s->body, "argv", json_object_get((json_t *)n->argv)) : json_add_str(s->body, "command", n->command);
	if (bad || !json_text(s->body, &what))
		return no_memory(err);
	bad |= add_env(s, n->env);
	bad |= add_stdin(s, n);
	bad |= json_add_i64(s->body, "timeout_ms", s->row.timeout_ms);
	/* A command of no stage is a stage of its own. */
	bad |= json_add_str(s->body, "timer", n->has_timeout ? "command" : "stage");
	if (bad || !json_text(s->body, &len))
		return no_memory(err);
	/* What is to be run is sent twice: to be run and to be recorded. */
	if (len + what > PUT_BYTES_MAX)
		return err_set(err, ERR_TOO_LARGE, "too_large", "command, environment and stdin are too large together");
	return 0;
}

static int check_stage(const struct command_new *n, const struct domain_limits *l, struct db_command_new *row, err_t **err)
{
	int64_t ms;
	if (!n->stage)
		return 0;
	if (check_name(n->stage, STAGE_MAX, "bad_stage", "stage.id", err) < 0 ||
			check_timeout(n->has_stage_timeout, n->stage_timeout_ms, l->stage_timeout_ms, l->run_timeout_ms, &ms, err) < 0)
		return -1;
	row->stage = n->stage;
	row->stage_ms = n->has_timeout ? 0 : ms;
	return 0;
}

int start_prepare(struct domain *d, const struct command_new *n, struct start *s, err_t **err)
{
	const struct domain_limits *l = &d->limits;
	memset(s, 0, sizeof *s);
	if (n->with_sandbox && !(d->caps & PROVIDER_RELEASE))
		return err_set(err, ERR_CONFLICT, "with_sandbox_unsupported", "sandboxes of the backend %s are not replaced on the way", d->backend);
	if (check_what(n, err) < 0 || (n->env && check_env(n->env, err) < 0) || (n->cwd && check_path(n->cwd, false, "bad_cwd", &s->cwd, err) < 0) ||
			check_timeout(n->has_timeout, n->timeout_ms, l->stage_timeout_ms, l->run_timeout_ms, &s->row.timeout_ms, err) < 0 ||
			check_stage(n, l, &s->row, err) < 0 || idempotency_check(d, &n->idempotency, &s->idem, err) < 0)
		return -1;
	if ((int64_t)n->stdin_len > l->stdin_bytes)
		return err_set(err, ERR_REFUSED, "bad_stdin", "stdin has at most %lld bytes", (long long)l->stdin_bytes);
	id_v7(s->id);
	s->row.id = s->id;
	s->row.command = n->command;
	s->row.argv = n->argv ? json_text((json_t *)n->argv, NULL) : NULL;
	s->row.cwd = s->cwd;
	s->row.background = n->background;
	s->row.max_run = l->run_commands;
	s->row.max_user = l->user_commands;
	s->row.max_all = l->all_commands;
	s->row.max_user_instances = l->user_instances;
	s->row.max_all_instances = l->all_instances;
	id_v7(s->scope);
	s->row.scope = s->scope;
	s->row.kind = kinds[n->kind];
	s->row.provider = domain_persistent(d);
	s->row.stale_ms = l->sandbox_stale_ms;
	s->row.renew = n->with_sandbox;
	return build_body(s, n, err);
}

void start_free(struct start *s)
{
	free(s->cwd);
	json_object_put(s->body);
	s->cwd = NULL;
	s->body = NULL;
}

static int add_record(struct start *s, const struct db_result *r)
{
	json_t *rec = json_object_new_object(), *what = NULL;
	const char *key = s->row.argv ? "argv" : "command";
	int bad = rec ? 0 : -1;
	if (bad)
		return bad;
	bad |= json_add_str(rec, "id", db_str(r, 0, START_COMMAND));
	bad |= json_add_str(rec, "run_id", db_str(r, 0, START_RUN));
	bad |= json_add_i64(rec, "attempt", db_i64(r, 0, START_ATTEMPT));
	if (json_object_object_get_ex(s->body, key, &what))
		bad |= json_add(rec, key, json_object_get(what));
	bad |= json_add_str(rec, "cwd", db_str(r, 0, START_CWD));
	bad |= json_add_i64(rec, "timeout_ms", db_i64(r, 0, START_TIMEOUT));
	return json_add(s->body, "record", rec) | bad;
}

/* Only one that is still to be made may be made by this: another that the executor does not know is lost. */
static int add_create(struct start *s, const struct caller *c, const struct db_result *r)
{
	json_t *create = NULL;
	json_object_object_del(s->body, "create");
	if (!db_bool(r, 0, START_FRESH))
		return 0;
	create = json_object_new_object();
	int bad = create ? json_add_str(create, "workspace", c->user) : -1;
	if (!bad && !db_null(r, 0, START_PREVIOUS))
		bad = json_add_str(create, "replaces", db_str(r, 0, START_PREVIOUS));
	return json_add(s->body, "create", create) | bad;
}

static int add_place(struct start *s, const struct caller *c, const struct db_result *r)
{
	const char *workdir = db_str(r, 0, START_WORKDIR);
	json_t *env = NULL;
	int bad = add_create(s, c, r);
	bad |= json_add_str(s->body, "instance", db_str(r, 0, START_INSTANCE));
	/* In an instance of its own a Run's attempt is the instance. */
	if (!str_eq(db_str(r, 0, START_SCOPE), db_str(r, 0, START_INSTANCE)))
		bad |= json_add_str(s->body, "scope", db_str(r, 0, START_SCOPE));
	bad |= json_add_str(s->body, "cwd", db_str(r, 0, START_CWD));
	bad |= json_add_bool(s->body, "make_cwd", s->cwd == NULL);
	/* It has the base environment and nothing else. */
	if (str_eq(s->row.kind, "file"))
		return json_add_str(s->body, "kind", "file") | bad;
	if (!json_object_object_get_ex(s->body, "env", &env))
		return -1;
	bad |= json_add_str(env, "PADDOCK_PROJECT_DIR", workdir);
	bad |= json_add_str(env, "AITROOP_PROJECT_DIR", workdir);
	return bad;
}

static json_t *ticket_wish(enum command_view view, uint64_t from, bool base64)
{
	json_t *t = json_object_new_object();
	if (t && (json_add_str(t, "view", views[view]) | json_add_i64(t, "from", (int64_t)from) | json_add_bool(t, "base64", base64))) {
		json_object_put(t);
		return NULL;
	}
	return t;
}

static int take_ticket(const json_t *answer, char ticket[TICKET_SIZE], err_t **err)
{
	const char *t = NULL;
	if (json_get_str(answer, "ticket", true, &t, NULL) < 0 || str_copy(ticket, TICKET_SIZE, t) < 0)
		return err_set(err, ERR_UNKNOWN, "outcome_unknown", "the executor gave no ticket");
	return 0;
}

/* Repeats the PUT, which is idempotent by the command's id, while its answer is unknown. *ret_sent: one of them may have arrived. */
static int put(struct domain *d, const char *id, json_t *body, int64_t wait_start_ms, int64_t since, json_t **ret, bool *ret_sent, err_t **err)
{
	*ret_sent = false;
	for (int i = 0; i < PUT_TRIES; i++) {
		err_t *e = NULL;
		if (clock_boot_ms() - since > SEND_UNTIL_MS)
			return err_set(err, ERR_UNAVAILABLE, "executor_unavailable", "it took too long to reach the executor");
		if (i > 0)
			poll(NULL, 0, PUT_PAUSE_MS << i);
		FAULT_POINT(start_before_call);
		if (executor_client_command_put(d->executor, id, body, wait_start_ms, ret, &e) == 0) {
			FAULT_POINT(start_after_call);
			return 0;
		}
		*ret_sent = *ret_sent || err_code(e) == ERR_UNKNOWN;
		if ((err_code(e) != ERR_UNKNOWN && err_code(e) != ERR_UNAVAILABLE) || i == PUT_TRIES - 1)
			return err_move(err, e);
		err_free(e);
	}
	return -1;
}

/* The executor refused: the row says so, and a Run that lived for this command ends. */
static int write_refusal(struct domain *d, const char *id, const err_t *why)
{
	cleanup_db_result struct db_result *r = NULL;
	cleanup_err err_t *e = NULL;
	if (db_command_refused(d->db, id, err_detail(why), err_message(why), &r, &e) < 0) {
		log_kv(LOG_WARN, "refusal_not_recorded", "command", id, "err", err_message(e), NULL);
		return -1;
	}
	for (int i = 0; i < db_rows(r); i++)
		(void)cleanup_run(d, db_str(r, i, 0), NULL);
	return 0;
}

/* The executor will not run anything in it any more: it has never heard of it, or has destroyed it. */
static bool is_no_more(const struct start *s, const err_t *why)
{
	return s->row.provider && (err_code(why) == ERR_NOT_FOUND || (err_code(why) == ERR_GONE && str_eq(err_detail(why), "instance_gone")));
}

/* sent: one of this request's PUTs may have arrived. One of an earlier request with the same key may have in any case: of that command nothing is written. */
static int put_failed(struct domain *d, const struct caller *c, const struct start *s, const struct db_result *r, bool sent, err_t *why, err_t **err)
{
	const char *id = db_str(r, 0, START_COMMAND);
	bool replayed = str_eq(db_str(r, 0, START_RESULT), "replayed");
	if ((sent || replayed) && (err_code(why) == ERR_UNKNOWN || err_code(why) == ERR_UNAVAILABLE)) {
		err_set(err, ERR_UNKNOWN, "outcome_unknown", "command %s may have been started: %s", id, err_message(why));
		err_free(why);
		return -1;
	}
	if (!replayed)
		(void)write_refusal(d, id, why);
	if (is_no_more(s, why)) {
		err_free(why);
		(void)sandbox_look(d, db_str(r, 0, START_INSTANCE), NULL);
		return answer_check("sandbox_not_found", err);
	}
	if (err_code(why) != ERR_GONE)
		return err_move(err, why);
	err_free(why);
	cleanup_db_result struct db_result *run = NULL;
	if (db_run_get(d->db, db_str(r, 0, START_RUN), c->user_id, &run, NULL) == 0 && db_rows(run) == 1 && !str_eq(db_str(run, 0, RUN_STATUS), "running"))
		return err_set(err, ERR_CONFLICT, "run_ended", "the Run has ended");
	return err_set(err, ERR_CONFLICT, "sandbox_lost", "the Run's sandbox is gone");
}

static int add_empty_texts(json_t *c)
{
	return command_json_text(c, "stdout", "stdout_encoding", "", 0) | command_json_text(c, "stderr", "stderr_encoding", "", 0);
}

/* The Command at once, for an answer that does not wait. */
static int give_command(const json_t *answer, struct command_started *ret, err_t **err)
{
	const json_t *c = NULL;
	if (json_get_obj(answer, "command", true, &c, err) < 0)
		return -1;
	ret->command = json_object_get((json_t *)c);
	if (!json_has(c, "stdout"))
		return add_empty_texts(ret->command) < 0 ? no_memory(err) : 0;
	return 0;
}

/* A command of an earlier request with the same key that has its end: what is left of it is given. */
static int replay_ended(struct domain *d, const struct caller *c, const struct command_new *n, struct command_started *ret, err_t **err)
{
	err_t *e = NULL;
	if (n->view != COMMAND_VIEW_NONE && n->view != COMMAND_VIEW_RESULT) {
		if (commands_ticket(d, c, ret->id, n->view, 0, n->base64, ret->ticket, &e) == 0)
			return 0;
		if (err_code(e) != ERR_GONE)
			return err_move(err, e);
		err_free(e);
	}
	return commands_get(d, c, ret->id, &ret->command, err);
}

static int finish_body(struct start *s, const struct caller *c, const struct command_new *n, const struct db_result *r)
{
	/* What is left of a stage is known only now. */
	int bad = json_add_i64(s->body, "timeout_ms", db_i64(r, 0, START_TIMEOUT)) | add_place(s, c, r) | add_record(s, r);
	if (n->view == COMMAND_VIEW_NONE)
		return bad;
	json_t *t = ticket_wish(n->view, 0, n->base64);
	return t ? json_add(s->body, "ticket", t) | bad : -1;
}

static void send_stdin(struct domain *d, const struct caller *c, const struct command_new *n, const char *id, const char *instance)
{
	err_t *e = NULL;
	if (executor_client_stdin(d->executor, id, n->stdin_text, n->stdin_len, !n->keep_stdin, NULL, &e) == 0)
		return;
	/* It may be over already; else it must not wait for what does not come. */
	if (err_code(e) != ERR_CONFLICT)
		(void)executor_client_kill(d->executor, id, instance, "cancelled", NULL);
	log_kv(LOG_WARN, "stdin_not_delivered", "req", c->request_id, "command", id, "err", err_message(e), NULL);
	err_free(e);
}

/* The command was not started because its sandbox is no more. */
static bool is_missing(const json_t *answer)
{
	const json_t *c = NULL, *error = NULL;
	const char *code = NULL;
	return json_get_obj(answer, "command", false, &c, NULL) == 0 && c && json_get_obj(c, "error", false, &error, NULL) == 0 && error &&
		json_get_str(error, "code", false, &code, NULL) == 0 && code && str_eq(code, "sandbox_not_found");
}

/* One that is on record as started is not started again by a repetition, whatever the executor has forgotten: `commands` puts its end on record. */
static int check_repeated(struct domain *d, const struct caller *c, const char *id, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	cleanup_err err_t *e = NULL;
	if (db_command_get(d->db, id, c->user_id, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0 || !str_eq(db_str(r, 0, COMMAND_STATUS), "running"))
		return 0;
	if (executor_client_command_get(d->executor, id, false, NULL, &e) == 0 || err_code(e) != ERR_NOT_FOUND)
		return 0;   /* what else there is the PUT finds out */
	return err_set(err, ERR_UNKNOWN, "outcome_unknown", "command %s was started, and what became of it is not known", id);
}

/* The same as put(); when the executor does not know the user's sandbox it is told of it, and asked once more: what the sandbox is then decides. */
static int put_in_sandbox(struct domain *d, const struct start *s, const struct db_result *r, int64_t wait_start_ms, int64_t since, json_t **ret, bool *ret_sent, err_t **err)
{
	const char *id = db_str(r, 0, START_COMMAND);
	err_t *e = NULL;
	if (put(d, id, s->body, wait_start_ms, since, ret, ret_sent, &e) == 0)
		return 0;
	if (!s->row.provider || err_code(e) != ERR_NOT_FOUND)
		return err_move(err, e);
	err_free(e);
	if (*ret_sent)
		return err_set(err, ERR_UNKNOWN, "outcome_unknown", "an executor that has forgotten it since may have started it");
	if (sandbox_take_missing(d, db_str(r, 0, START_INSTANCE), err) < 0)
		return -1;
	return put(d, id, s->body, wait_start_ms, since, ret, ret_sent, err);
}

/* Tells the executor of the command of r. -1: an error; *ret_missing: only because the sandbox is no more. */
static int tell(struct domain *d, const struct caller *c, const struct command_new *n, struct start *s, const struct db_result *r, int64_t since, bool again,
	struct command_started *ret, bool *ret_missing, err_t **err)
{
	cleanup_json json_t *answer = NULL;
	err_t *e = NULL;
	bool sent;
	memset(ret, 0, sizeof *ret);
	(void)str_copy(ret->id, sizeof ret->id, db_str(r, 0, START_COMMAND));
	(void)str_copy(ret->run_id, sizeof ret->run_id, db_str(r, 0, START_RUN));
	ret->replayed = str_eq(db_str(r, 0, START_RESULT), "replayed");
	if (db_bool(r, 0, START_ENDED))
		return replay_ended(d, c, n, ret, err);
	executor_client_request_id(d->executor, c->request_id);
	if (ret->replayed && check_repeated(d, c, ret->id, err) < 0)
		return -1;
	if (finish_body(s, c, n, r) < 0)
		return no_memory(err);
	if (put_in_sandbox(d, s, r, again ? WITH_SANDBOX_MS : 0, since, &answer, &sent, &e) < 0) {
		*ret_missing = again && is_no_more(s, e);
		return *ret_missing ? err_move(err, e) : put_failed(d, c, s, r, sent, e, err);
	}
	if (again && is_missing(answer)) {
		*ret_missing = true;
		return err_set(err, ERR_CONFLICT, "sandbox_not_found", "the sandbox no longer exists");
	}
	if (s->stdin_later && !ret->replayed)
		send_stdin(d, c, n, ret->id, db_str(r, 0, START_INSTANCE));
	return n->view == COMMAND_VIEW_NONE ? give_command(answer, ret, err) : take_ticket(answer, ret->ticket, err);
}

/* A second row for the command, in a new sandbox. */
static int write_again(struct domain *d, const struct caller *c, struct start *s, const char *first, struct db_result **ret, err_t **err)
{
	struct db_origin o = answer_origin(c);
	char instance[ID_SIZE];
	int again, tries = START_AGAIN;
	id_v7(instance);
	id_v7(s->id);
	log_kv(LOG_WARN, "sandbox_replaced", "req", c->request_id, "command", first, "again", s->id, NULL);
	do {
		db_result_free(steal_ptr(ret));
		FAULT_POINT(again_before_row);
		if (db_command_again(d->db, first, instance, c->user, &s->row, &o, ret, err) < 0)
			return -1;
		FAULT_POINT(again_after_row);
		again = start_again(d, *ret, &tries, err);
	} while (again > 0);
	return again < 0 ? -1 : answer_check(db_str(*ret, 0, START_RESULT), err);
}

int start_tell(struct domain *d, const struct caller *c, const struct command_new *n, struct start *s, const struct db_result *r, int64_t since,
	struct command_started *ret, err_t **err)
{
	cleanup_db_result struct db_result *second = NULL;
	bool missing = false;
	err_t *e = NULL;
	int rc = tell(d, c, n, s, r, since, n->with_sandbox, ret, &missing, &e);
	if (!missing)
		return rc < 0 ? err_move(err, e) : rc;
	err_free(e);
	if (write_again(d, c, s, db_str(r, 0, START_COMMAND), &second, err) < 0)
		return -1;
	return tell(d, c, n, s, second, clock_boot_ms(), false, ret, &missing, err);
}

static bool make_room(struct domain *d)
{
	int all = 0;
	for (int i = 0; i < ROOM_BATCHES; i++) {
		int n = reports_take(d, 0, NULL);
		if (n <= 0)
			break;
		all += n;
	}
	return all > 0;
}

int start_again(struct domain *d, const struct db_result *r, int *tries, err_t **err)
{
	const char *word = db_str(r, 0, START_RESULT);
	if (str_eq(word, "sandbox_stale")) {
		if (--*tries <= 0)
			return err_set(err, ERR_UNAVAILABLE, "control_plane_unavailable", "an operation on the sandbox makes no progress");
		return sandbox_unstick(d, db_str(r, 0, START_INSTANCE), err) < 0 ? -1 : 1;
	}
	if (!str_eq(word, "too_many_commands") && !str_eq(word, "too_many_instances"))
		return 0;
	return --*tries > 0 && make_room(d);
}

int commands_ticket(struct domain *d, const struct caller *c, const char *command_id, enum command_view view, uint64_t from, bool base64,
	char ticket[TICKET_SIZE], err_t **err)
{
	bool ended;
	cleanup_json json_t *wish = NULL, *answer = NULL;
	err_t *e = NULL;
	if (commands_peek(d, c, command_id, &ended, err) < 0)
		return -1;
	wish = ticket_wish(view, from, base64);
	if (!wish)
		return no_memory(err);
	executor_client_request_id(d->executor, c->request_id);
	if (executor_client_ticket(d->executor, command_id, wish, &answer, &e) == 0)
		return take_ticket(answer, ticket, err);
	if (err_code(e) != ERR_NOT_FOUND)
		return err_move(err, e);
	err_free(e);
	if (ended)
		return err_set(err, ERR_GONE, "output_expired", "the command's output is no longer kept; its record is");
	return err_set(err, ERR_UNAVAILABLE, "executor_unavailable", "the command has not reached the executor yet");
}
