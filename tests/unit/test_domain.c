#include "unit.h"

#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "domain/auth.h"
#include "domain/cleanup.h"
#include "domain/commands.h"
#include "domain/duties.h"
#include "domain/execute.h"
#include "domain/health.h"
#include "domain/orphans.h"
#include "domain/reports.h"
#include "domain/runs.h"
#include "domain/tokens.h"
#include "domain/users.h"
#include "lib/stand.h"

static struct stand st;
#define D st.domain
#define C (&st.caller)

static int up(void **state)
{
	(void)state;
	stand_up(&st);
	return 0;
}

static int down(void **state)
{
	(void)state;
	stand_down(&st);
	return 0;
}

#define assert_fails(call, word) do { \
	err_t *e_ = NULL, **err = &e_; \
	assert_true((call) < 0); \
	assert_string_equal(err_detail(e_), word); \
	err_free(e_); \
} while (0)

#define assert_ok(call) do { \
	err_t *e_ = NULL, **err = &e_; \
	int rc_ = (call); \
	if (rc_ < 0) \
		fail_msg("%s", err_message(e_)); \
} while (0)

static const char *str_of(const json_t *o, const char *key)
{
	const char *s = NULL;
	assert_int_equal(json_get_str(o, key, false, &s, NULL), 0);
	return s;
}

struct made {
	char id[ID_SIZE];
	char token[LEASE_TOKEN_SIZE];
};

static struct made make_run(const char *thread, bool claim, int64_t lease_ms)
{
	struct made m;
	json_t *run = NULL;
	struct run_claim cl = { .worker_id = "w1", .lease_ms = lease_ms };
	assert_ok(runs_create(D, C, &(struct run_new){ .thread_id = thread, .claim = claim ? &cl : NULL }, &run, m.token, err));
	str_copy(m.id, sizeof m.id, str_of(run, "id"));
	json_object_put(run);
	return m;
}

static struct command_started start(const struct made *m, const char *token)
{
	struct command_started s;
	struct command_new n = { .command = "true", .lease_token = token, .view = COMMAND_VIEW_RESULT };
	assert_ok(commands_start(D, C, m->id, &n, &s, err));
	return s;
}

static void run_status(const char *id, char dst[32], bool *cleanup)
{
	json_t *run = NULL;
	assert_ok(runs_get(D, C, id, &run, err));
	str_copy(dst, 32, str_of(run, "status"));
	if (cleanup)
		assert_int_equal(json_get_bool(run, "runtime_cleanup_pending", true, cleanup, NULL), 0);
	json_object_put(run);
}

static void assert_status(const char *id, const char *want)
{
	char s[32];
	run_status(id, s, NULL);
	assert_string_equal(s, want);
}

/* The janitor until nothing is left to do, at most about 5 s. */
static void settle(void)
{
	struct duties_clock clk = { 0 };
	for (int i = 0; i < 100; i++) {
		duties_step(D, &clk);
		if (i > 1 && stand_count(&st, "SELECT count(*) FROM runs WHERE cleanup_pending OR status = 'cancel_requested'") == 0)
			return;
	}
	fail_msg("clean-up does not come to an end");
}

static void test_life_of_a_run(void **state)
{
	(void)state;
	struct made m = make_run("life", true, 60000);
	assert_true(m.token[0]);
	assert_status(m.id, "running");
	struct command_started s = start(&m, m.token);
	assert_string_equal(s.run_id, m.id);
	assert_true(s.ticket[0]);
	stand_control(&st, "/end", "{\"any\":1,\"code\":3,\"stdout\":\"out \\u0000 \\u00e9\"}");
	assert_ok(reports_take(D, 1000, err));
	json_t *c = NULL;
	assert_ok(commands_get(D, C, s.id, &c, err));
	assert_string_equal(str_of(c, "status"), "exited");
	const char *out;
	size_t n = 0;
	assert_int_equal(json_get_mem(c, "stdout", true, &out, &n, NULL), 0);
	assert_int_equal(n, 8);
	assert_memory_equal(out, "out \0 \xc3\xa9", 8);
	json_object_put(c);
	json_t *run = NULL;
	struct run_finish f = { .lease_token = m.token, .status = "completed" };
	assert_ok(runs_finish(D, C, m.id, &f, &run, err));
	assert_string_equal(str_of(run, "status"), "completed");
	bool pending = false;
	assert_int_equal(json_get_bool(run, "runtime_cleanup_pending", true, &pending, NULL), 0);
	assert_true(pending);
	json_object_put(run);
	settle();
	char status[32];
	run_status(m.id, status, &pending);
	assert_string_equal(status, "completed");
	assert_false(pending);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances"), 0);
	assert_fails(runs_finish(D, C, m.id, &f, &run, err), "run_ended");
	assert_fails(commands_start(D, C, m.id, &(struct command_new){ .command = "x", .lease_token = m.token }, &s, err), "run_ended");
}

static void test_leases(void **state)
{
	(void)state;
	struct made m = make_run("leases", true, 60000), other = make_run("leases2", true, 60000);
	struct command_started s;
	json_t *o = NULL;
	assert_fails(commands_start(D, C, m.id, &(struct command_new){ .command = "x" }, &s, err), "lease_required");
	assert_fails(commands_start(D, C, m.id, &(struct command_new){ .command = "x", .lease_token = other.token }, &s, err), "lease_lost");
	assert_fails(runs_heartbeat(D, C, m.id, other.token, 0, &o, err), "lease_lost");
	assert_fails(runs_heartbeat(D, C, m.id, m.token, 1, &o, err), "bad_lease");
	assert_ok(runs_heartbeat(D, C, m.id, m.token, 100, &o, err));
	assert_non_null(str_of(o, "expires_at"));
	json_object_put(o);
	struct command_started started = start(&m, m.token);
	struct timespec ts = { .tv_nsec = 150000000 };
	nanosleep(&ts, NULL);
	assert_fails(runs_heartbeat(D, C, m.id, m.token, 0, &o, err), "lease_lost");
	settle();
	/* Offered again, its command over. */
	assert_status(m.id, "pending");
	assert_ok(commands_get(D, C, started.id, &o, err));
	assert_string_equal(str_of(o, "reason"), "cancelled");
	json_object_put(o);
	char token[LEASE_TOKEN_SIZE];
	err_t *e = NULL;
	assert_int_equal(runs_claim(D, C, &(struct run_claim){ .worker_id = "w2", .lease_ms = 100 }, "leases", &o, token, &e), 1);
	int64_t attempt = 0;
	assert_int_equal(json_get_i64(o, "attempt", true, 0, 9, &attempt, NULL), 0);
	assert_int_equal(attempt, 2);
	json_object_put(o);
	assert_fails(commands_start(D, C, m.id, &(struct command_new){ .command = "x", .lease_token = m.token }, &s, err), "lease_lost");
	nanosleep(&ts, NULL);
	settle();
	assert_status(m.id, "failed");
	char *code = stand_sql(&st, "SELECT error_code FROM runs WHERE thread_id = 'leases'");
	assert_string_equal(code, "lease_expired");
	free(code);
	assert_int_equal(runs_claim(D, C, &(struct run_claim){ .worker_id = "w2" }, "leases", &o, token, &e), 0);
}

static void test_thread_fence(void **state)
{
	(void)state;
	struct made a = make_run("fence", false, 0);
	struct command_started s = start(&a, NULL), s2;
	json_t *o = NULL;
	assert_status(a.id, "running");
	/* The executor will not hear of anything: the clean-up stays. */
	stand_control(&st, "", "{\"busy\":1000000}");
	assert_ok(runs_finish(D, C, a.id, &(struct run_finish){ .status = "failed", .error_message = "no" }, &o, err));
	json_object_put(o);
	struct made b = make_run("fence", true, 0);
	assert_string_equal(b.token, "");
	assert_status(b.id, "pending");
	assert_fails(commands_start(D, C, b.id, &(struct command_new){ .command = "x" }, &s2, err), "cleanup_pending");
	char token[LEASE_TOKEN_SIZE];
	err_t *e = NULL;
	assert_int_equal(runs_claim(D, C, &(struct run_claim){ .worker_id = "w" }, "fence", &o, token, &e), 0);
	assert_int_equal(cleanup_run(D, a.id, NULL), -1);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs WHERE thread_id = 'fence' AND cleanup_pending AND cleanup_tries > 0 AND cleanup_error IS NOT NULL"), 1);
	stand_control(&st, "", "{\"busy\":0}");
	settle();
	assert_int_equal(runs_claim(D, C, &(struct run_claim){ .worker_id = "w" }, "fence", &o, token, &e), 1);
	json_object_put(o);
	assert_ok(commands_get(D, C, s.id, &o, err));
	assert_string_equal(str_of(o, "status"), "exited");
	json_object_put(o);
}

static void test_cancel(void **state)
{
	(void)state;
	json_t *o = NULL;
	struct made idle = make_run("cancel1", false, 0), busy = make_run("cancel2", true, 0);
	struct command_started s = start(&busy, busy.token);
	assert_ok(runs_cancel(D, C, idle.id, &o, err));
	assert_string_equal(str_of(o, "status"), "cancelled");
	json_object_put(o);
	assert_ok(runs_cancel(D, C, busy.id, &o, err));
	assert_string_equal(str_of(o, "status"), "cancel_requested");
	json_object_put(o);
	assert_fails(runs_heartbeat(D, C, busy.id, busy.token, 0, &o, err), "run_ended");
	assert_ok(runs_cancel(D, C, busy.id, &o, err));
	json_object_put(o);
	settle();
	assert_status(busy.id, "cancelled");
	assert_ok(commands_get(D, C, s.id, &o, err));
	assert_string_equal(str_of(o, "reason"), "cancelled");
	json_object_put(o);
	struct made done = make_run("cancel3", true, 0);
	assert_ok(runs_finish(D, C, done.id, &(struct run_finish){ .lease_token = done.token, .status = "completed" }, &o, err));
	json_object_put(o);
	assert_fails(runs_cancel(D, C, done.id, &o, err), "run_ended");
}

static void test_execute(void **state)
{
	(void)state;
	struct command_started s, lost;
	json_t *o = NULL;
	assert_ok(execute_start(D, C, &(struct command_new){ .command = "exit 7", .view = COMMAND_VIEW_SSE }, &s, err));
	assert_status(s.run_id, "running");
	char end[128];
	snprintf(end, sizeof end, "{\"id\":\"%s\",\"code\":7}", s.id);
	stand_control(&st, "/end", end);
	settle();
	assert_ok(reports_take(D, 500, err));
	settle();
	assert_status(s.run_id, "completed");
	assert_ok(execute_start(D, C, &(struct command_new){ .command = "x", .view = COMMAND_VIEW_NONE, .background = true }, &lost, err));
	assert_string_equal(str_of(lost.command, "status"), "running");
	assert_string_equal(str_of(lost.command, "stdout"), "");
	json_object_put(lost.command);
	char *iid = stand_sql(&st, "SELECT id FROM instances ORDER BY created_at DESC LIMIT 1");
	snprintf(end, sizeof end, "{\"id\":\"%s\",\"state\":\"lost\"}", iid);
	free(iid);
	stand_control(&st, "/instance", end);
	assert_ok(reports_take(D, 1000, err));
	settle();
	assert_status(lost.run_id, "failed");
	assert_ok(commands_get(D, C, lost.id, &o, err));
	assert_string_equal(str_of(o, "status"), "lost");
	json_object_put(o);
}

static void test_executor_away(void **state)
{
	(void)state;
	struct command_started s;
	struct made m = make_run("away", true, 0);
	stand_executor_kill(&st);
	assert_fails(commands_start(D, C, m.id, &(struct command_new){ .command = "x", .lease_token = m.token }, &s, err), "executor_unavailable");
	assert_fails(execute_start(D, C, &(struct command_new){ .command = "never" }, &s, err), "executor_unavailable");
	stand_executor_start(&st);
	settle();
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands WHERE reason = 'not_started' AND error_code = 'executor_unavailable'"), 2);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs WHERE oneshot AND status = 'failed' AND error_code = 'command_not_started' AND NOT cleanup_pending"), 1);
	/* The Run goes on. */
	s = start(&m, m.token);
	json_t *o = NULL;
	assert_ok(runs_cancel(D, C, m.id, &o, err));
	json_object_put(o);
	settle();
}

static void test_lost_answers(void **state)
{
	(void)state;
	struct made m = make_run("lost-answers", true, 0);
	stand_control(&st, "", "{\"lose\":2}");
	struct command_started s = start(&m, m.token);
	stand_control(&st, "", "{\"lose\":100}");
	struct command_started s2;
	assert_fails(commands_start(D, C, m.id, &(struct command_new){ .command = "x", .lease_token = m.token, .view = COMMAND_VIEW_RESULT }, &s2, err), "outcome_unknown");
	stand_control(&st, "", "{\"lose\":0}");
	json_t *o = NULL, *state_now = stand_state(&st);
	const json_t *violations = NULL;
	assert_int_equal(json_get_arr(state_now, "violations", true, &violations, NULL), 0);
	assert_int_equal(json_object_array_length(violations), 0);
	json_object_put(state_now);
	/* It did start, and its end comes in. */
	assert_ok(runs_cancel(D, C, m.id, &o, err));
	json_object_put(o);
	settle();
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands c JOIN runs r ON r.id = c.run_id WHERE r.thread_id = 'lost-answers' AND reason = 'cancelled'"), 2);
	assert_true(s.ticket[0]);
}

static void test_idempotency(void **state)
{
	(void)state;
	char t1[LEASE_TOKEN_SIZE], t2[LEASE_TOKEN_SIZE];
	json_t *a = NULL, *b = NULL;
	struct run_claim cl = { .worker_id = "w" };
	struct run_new n = { .thread_id = "idem", .claim = &cl, .idempotency = { .key = "k1", .body = "{1}", .body_len = 3 } };
	json_t *input = json_parse("\"a\\u0000b\"", 10, 100, 5, NULL);
	n.input = input;
	assert_ok(runs_create(D, C, &n, &a, t1, err));
	assert_ok(runs_create(D, C, &n, &b, t2, err));
	assert_string_equal(json_text(a, NULL), json_text(b, NULL));
	assert_string_equal(t1, t2);
	n.idempotency.body = "{2}";
	assert_fails(runs_create(D, C, &n, &b, t2, err), "idempotency_mismatch");
	struct made m;
	str_copy(m.id, sizeof m.id, str_of(a, "id"));
	struct command_new cn = { .command = "x", .lease_token = t1, .view = COMMAND_VIEW_RESULT, .idempotency = { .key = "k1", .body = "b", .body_len = 1 } };
	struct command_started s1, s2;
	assert_ok(commands_start(D, C, m.id, &cn, &s1, err));
	assert_ok(commands_start(D, C, m.id, &cn, &s2, err));
	assert_string_equal(s1.id, s2.id);
	assert_true(s2.replayed);
	char end[128];
	snprintf(end, sizeof end, "{\"id\":\"%s\"}", s1.id);
	stand_control(&st, "/end", end);
	assert_ok(reports_take(D, 1000, err));
	assert_ok(commands_start(D, C, m.id, &cn, &s2, err));
	assert_string_equal(str_of(s2.command, "status"), "exited");
	json_object_put(s2.command);
	json_object_put(a);
	json_object_put(b);
	json_object_put(input);
	/* A refused start leaves its key free. */
	struct command_new again = { .command = "y", .lease_token = t1, .view = COMMAND_VIEW_RESULT, .idempotency = { .key = "k2", .body = "b", .body_len = 1 } };
	stand_control(&st, "", "{\"busy\":3}");
	assert_fails(commands_start(D, C, m.id, &again, &s1, err), "executor_unavailable");
	assert_ok(commands_start(D, C, m.id, &again, &s2, err));
	assert_false(s2.replayed);
}

static void test_limits(void **state)
{
	(void)state;
	struct made m = make_run("limits", true, 0);
	struct command_started s;
	for (int i = 0; i < 6; i++)
		start(&m, m.token);
	assert_fails(commands_start(D, C, m.id, &(struct command_new){ .command = "x", .lease_token = m.token }, &s, err), "too_many_commands");
	/* One that has ended, though it is not on record yet, makes room at once. */
	char *id = stand_sql(&st, "SELECT c.id FROM sandbox_commands c JOIN runs r ON r.id = c.run_id WHERE thread_id = 'limits' LIMIT 1");
	char end[128];
	snprintf(end, sizeof end, "{\"id\":\"%s\"}", id);
	free(id);
	stand_control(&st, "/end", end);
	start(&m, m.token);
	json_t *o = NULL;
	assert_ok(runs_cancel(D, C, m.id, &o, err));
	json_object_put(o);
	settle();
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands c JOIN runs r ON r.id = c.run_id WHERE thread_id = 'limits' AND c.ended_at IS NULL"), 0);
}

static void test_bad_values(void **state)
{
	(void)state;
	struct made m = make_run("bad", true, 0);
	struct command_started s;
	json_t *o = NULL, *argv = json_parse("[\"a\", 1]", 8, 100, 5, NULL), *env = json_parse("{\"1A\":\"x\"}", 10, 100, 5, NULL);
	char t[LEASE_TOKEN_SIZE];
	long before = stand_count(&st, "SELECT count(*) FROM sandbox_commands");
#define START(...) commands_start(D, C, m.id, &(struct command_new){ .lease_token = m.token, __VA_ARGS__ }, &s, err)
	assert_fails(START(.command = ""), "bad_command");
	assert_fails(START(.keep_stdin = true), "bad_field");
	assert_fails(START(.command = "x", .argv = argv), "bad_field");
	assert_fails(START(.argv = argv), "bad_field");
	assert_fails(START(.command = "x", .env = env), "bad_env");
	assert_fails(START(.command = "x", .cwd = "relative"), "bad_cwd");
	assert_fails(START(.command = "x", .cwd = "/a/../b"), "bad_cwd");
	assert_fails(START(.command = "x", .has_timeout = true, .timeout_ms = 0), "bad_timeout");
	assert_fails(START(.command = "x", .has_timeout = true, .timeout_ms = -1), "bad_timeout");
	assert_fails(START(.command = "x", .has_timeout = true, .timeout_ms = INT64_MAX), "bad_timeout");
	assert_fails(runs_create(D, C, &(struct run_new){ .thread_id = "" }, &o, t, err), "bad_thread_id");
	assert_fails(runs_create(D, C, &(struct run_new){ .thread_id = "x", .workdir = "/etc" }, &o, t, err), "bad_workdir");
	assert_fails(runs_create(D, C, &(struct run_new){ .thread_id = "x", .workdir = "/home/user/workspaceX" }, &o, t, err), "bad_workdir");
	assert_fails(runs_create(D, C, &(struct run_new){ .thread_id = "x", .idempotency = { .key = "" } }, &o, t, err), "bad_idempotency_key");
	assert_fails(runs_get(D, C, "not-an-id", &o, err), "not_found");
	assert_fails(commands_signal(D, C, m.id, "NOPE", err), "bad_signal");
	assert_fails(runs_finish(D, C, m.id, &(struct run_finish){ .lease_token = m.token, .status = "done" }, &o, err), "bad_status");
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands"), before);
	json_object_put(argv);
	json_object_put(env);
}

static void test_others_things(void **state)
{
	(void)state;
	struct caller bob = st.caller;
	json_t *o = NULL;
	struct made m = make_run("private", false, 0);
	struct command_started c = start(&m, NULL), s;
	assert_ok(users_create(D, C, "bob", true, &o, err));
	str_copy(bob.user_id, sizeof bob.user_id, str_of(o, "id"));
	str_copy(bob.user, sizeof bob.user, "bob");
	json_object_put(o);
	char t[TICKET_SIZE];
	assert_fails(runs_get(D, &bob, m.id, &o, err), "not_found");
	assert_fails(runs_cancel(D, &bob, m.id, &o, err), "not_found");
	assert_fails(commands_start(D, &bob, m.id, &(struct command_new){ .command = "x" }, &s, err), "not_found");
	assert_fails(commands_get(D, &bob, c.id, &o, err), "not_found");
	assert_fails(commands_list(D, &bob, m.id, &(struct command_list){ 0 }, &o, err), "not_found");
	assert_fails(commands_kill(D, &bob, c.id, err), "not_found");
	assert_fails(commands_ticket(D, &bob, c.id, COMMAND_VIEW_SSE, 0, false, t, err), "not_found");
	assert_ok(runs_cancel(D, C, m.id, &o, err));
	json_object_put(o);
	settle();
}

static void test_tokens(void **state)
{
	(void)state;
	struct caller c;
	char secret[TOKEN_SECRET_SIZE], bearer[256], id[TOKEN_ID_SIZE];
	struct auth_request rq = { .authorization = bearer };
	json_t *run = NULL;
	snprintf(bearer, sizeof bearer, "Bearer %s", st.token);
	assert_ok(auth_bearer(D, &rq, &c, err));
	assert_string_equal(c.user, "ann");
	bearer[strlen(bearer) - 1] ^= 1;
	assert_fails(auth_bearer(D, &rq, &c, err), "unauthorized");
	assert_fails(tokens_create(D, C, &(struct token_new){ .user = "ann", .kind = CALLER_ADMIN }, secret, err), "not_an_admin");
	assert_fails(tokens_create(D, C, &(struct token_new){ .user = "nobody" }, secret, err), "unknown_user");
	assert_ok(tokens_create(D, C, &(struct token_new){ .user = "bob", .kind = CALLER_SERVICE }, secret, err));
	snprintf(bearer, sizeof bearer, "Bearer %s", secret);
	assert_fails(auth_bearer(D, &rq, &c, err), "user_header_required");
	rq.act_for = "Nobody!";
	assert_fails(auth_bearer(D, &rq, &c, err), "unknown_user");
	rq.act_for = "ann";
	assert_ok(auth_bearer(D, &rq, &c, err));
	assert_string_equal(c.user, "ann");
	assert_string_equal(c.actor, "bob");
	struct made m = make_run("service", false, 0);
	assert_ok(auth_run_get(D, &rq, m.id, &c, &run, err));
	assert_string_equal(str_of(run, "thread_id"), "service");
	json_object_put(run);
	rq.act_for = "bob";
	assert_fails(auth_run_get(D, &rq, m.id, &c, &run, err), "not_found");
	memcpy(id, secret + 4, TOKEN_ID_SIZE - 1);
	id[TOKEN_ID_SIZE - 1] = 0;
	assert_ok(tokens_revoke(D, C, id, err));
	assert_fails(auth_bearer(D, &rq, &c, err), "unauthorized");
	assert_ok(tokens_create(D, C, &(struct token_new){ .user = "bob", .kind = CALLER_ADMIN, .lifetime_ms = 1 }, secret, err));
	snprintf(bearer, sizeof bearer, "Bearer %s", secret);
	struct timespec ts = { .tv_nsec = 5000000 };
	nanosleep(&ts, NULL);
	rq.act_for = NULL;
	assert_fails(auth_bearer(D, &rq, &c, err), "unauthorized");
	assert_ok(tokens_create(D, C, &(struct token_new){ .user = "bob", .kind = CALLER_E2B }, secret, err));
	snprintf(bearer, sizeof bearer, "Bearer %s", secret);
	assert_memory_equal(secret, "e2b_", 4);
	assert_fails(auth_bearer(D, &rq, &c, err), "forbidden");
}

static void test_lists(void **state)
{
	(void)state;
	json_t *page = NULL;
	const json_t *items = NULL;
	for (int i = 0; i < 5; i++)
		make_run("list", false, 0);
	assert_ok(runs_list(D, C, &(struct run_list){ .thread_id = "list", .limit = 3 }, &page, err));
	assert_int_equal(json_get_arr(page, "items", true, &items, NULL), 0);
	assert_int_equal(json_object_array_length(items), 3);
	char cursor[ID_SIZE];
	str_copy(cursor, sizeof cursor, str_of(page, "next_cursor"));
	json_object_put(page);
	assert_ok(runs_list(D, C, &(struct run_list){ .thread_id = "list", .limit = 3, .cursor = cursor, .status = "pending" }, &page, err));
	assert_int_equal(json_get_arr(page, "items", true, &items, NULL), 0);
	assert_int_equal(json_object_array_length(items), 2);
	assert_null(str_of(page, "next_cursor"));
	json_object_put(page);
	assert_fails(runs_list(D, C, &(struct run_list){ .limit = 201 }, &page, err), "bad_limit");
	assert_fails(runs_list(D, C, &(struct run_list){ .status = "odd" }, &page, err), "bad_status");
	assert_fails(runs_list(D, C, &(struct run_list){ .cursor = "odd" }, &page, err), "bad_cursor");
	struct made m = make_run("cmds", true, 0);
	assert_ok(commands_list(D, C, m.id, &(struct command_list){ 0 }, &page, err));
	assert_int_equal(json_get_arr(page, "items", true, &items, NULL), 0);
	assert_int_equal(json_object_array_length(items), 0);
	json_object_put(page);
	struct command_started s = start(&m, m.token);
	start(&m, m.token);
	assert_ok(commands_list(D, C, m.id, &(struct command_list){ .limit = 1 }, &page, err));
	assert_int_equal(json_get_arr(page, "items", true, &items, NULL), 0);
	assert_string_equal(str_of(json_object_array_get_idx(items, 0), "id"), s.id);
	assert_string_equal(str_of(json_object_array_get_idx(items, 0), "status"), "running");
	assert_string_equal(str_of(page, "next_cursor"), s.id);
	json_object_put(page);
}

static void test_ceiling(void **state)
{
	(void)state;
	json_t *o = NULL;
	char token[LEASE_TOKEN_SIZE], id[ID_SIZE];
	struct run_claim cl = { .worker_id = "w" };
	assert_fails(runs_create(D, C, &(struct run_new){ .thread_id = "ceiling", .has_timeout = true, .timeout_ms = INT64_MAX }, &o, token, err), "bad_timeout");
	assert_ok(runs_create(D, C, &(struct run_new){ .thread_id = "ceiling", .has_timeout = true, .timeout_ms = 300, .claim = &cl }, &o, token, err));
	str_copy(id, sizeof id, str_of(o, "id"));
	json_object_put(o);
	struct command_started s;
	assert_ok(commands_start(D, C, id, &(struct command_new){ .command = "x", .lease_token = token, .view = COMMAND_VIEW_RESULT }, &s, err));
	struct timespec ts = { .tv_nsec = 350000000 };
	nanosleep(&ts, NULL);
	settle();
	assert_status(id, "failed");
	assert_ok(commands_get(D, C, s.id, &o, err));
	assert_string_equal(str_of(o, "reason"), "timeout");
	json_object_put(o);
}

static void test_orphans(void **state)
{
	(void)state;
	struct made m = make_run("orphans", true, 0);
	struct command_started s = start(&m, m.token);
	json_t *o = NULL;
	char *iid = stand_sql(&st, "SELECT instance_id FROM runs WHERE thread_id = 'orphans'");
	/* An instance without a row: as after a restored backup. */
	free(stand_sql(&st, "BEGIN; DELETE FROM instances WHERE run_id IN (SELECT id FROM runs WHERE thread_id = 'orphans');"
		"UPDATE runs SET instance_id = NULL WHERE thread_id = 'orphans'; COMMIT"));
	assert_ok(orphans_instances(D, err));
	json_t *all = stand_state(&st);
	const json_t *list = NULL, *inst = NULL;
	assert_int_equal(json_get_obj(all, "instances", true, &list, NULL), 0);
	assert_int_equal(json_get_obj(list, iid, true, &inst, NULL), 0);
	assert_string_equal(str_of(inst, "state"), "gone");
	json_object_put(all);
	free(iid);
	/* A command that never reached the executor: as when a worker died in between. */
	settle();
	s = start(&m, m.token);
	char sql[512];
	snprintf(sql, sizeof sql, "INSERT INTO sandbox_commands (id, run_id, attempt, user_id, instance_id, command, cwd, timeout_ms, background, actor_id, created_at) "
		"SELECT gen_random_uuid(), run_id, attempt, user_id, instance_id, 'never', cwd, 1, false, actor_id, now() - interval '1 hour' FROM sandbox_commands WHERE id = '%s'", s.id);
	free(stand_sql(&st, sql));
	assert_ok(orphans_commands(D, err));
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands WHERE command = 'never' AND status = 'lost' AND ended_at IS NOT NULL"), 1);
	assert_ok(commands_get(D, C, s.id, &o, err));
	assert_string_equal(str_of(o, "status"), "running");
	json_object_put(o);
	/* The truth replaces 'lost' when it turns up; a command that runs although its row is final is killed. */
	snprintf(sql, sizeof sql, "UPDATE sandbox_commands SET status = 'lost', reason = 'lost', ended_at = now() WHERE id = '%s'", s.id);
	free(stand_sql(&st, sql));
	assert_ok(reports_take(D, 500, err));
	assert_ok(reports_take(D, 500, err));
	assert_ok(commands_get(D, C, s.id, &o, err));
	assert_string_equal(str_of(o, "reason"), "cancelled");
	json_object_put(o);
	assert_ok(runs_cancel(D, C, m.id, &o, err));
	json_object_put(o);
	settle();
}

static void test_health(void **state)
{
	(void)state;
	json_t *o = NULL;
	bool ready = false;
	struct buf b = BUF_INIT(65536);
	assert_ok(health_read(D, &o, &ready, err));
	assert_true(ready);
	assert_string_equal(str_of(o, "status"), "ok");
	json_object_put(o);
	assert_ok(health_metrics(D, &b, err));
	assert_non_null(strstr(buf_str(&b), "paddock_cleanups_pending "));
	buf_free(&b);
	stand_pg(&st, "halt");
	int64_t t = clock_boot_ms();
	assert_ok(health_read(D, &o, &ready, err));
	assert_false(ready);
	assert_string_equal(str_of(o, "status"), "unavailable");
	json_object_put(o);
	assert_fails(runs_get(D, C, "01900000-0000-7000-8000-000000000000", &o, err), "database_unavailable");
	assert_true(clock_boot_ms() - t < 2500);
	stand_pg(&st, "resume");
	struct timespec ts = { .tv_sec = 1, .tv_nsec = 100000000 };
	nanosleep(&ts, NULL);
	assert_fails(runs_get(D, C, "01900000-0000-7000-8000-000000000000", &o, err), "not_found");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_life_of_a_run), cmocka_unit_test(test_leases), cmocka_unit_test(test_thread_fence), cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_execute), cmocka_unit_test(test_executor_away), cmocka_unit_test(test_lost_answers), cmocka_unit_test(test_idempotency),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_bad_values), cmocka_unit_test(test_others_things), cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_lists), cmocka_unit_test(test_ceiling), cmocka_unit_test(test_orphans), cmocka_unit_test(test_health),
	};

	return cmocka_run_group_tests_name("domain", tests, up, down);
}
