#include "domain_kit.h"

#include <sys/wait.h>
#include <unistd.h>

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

/* Whoever repeats a request does not know what became of the first: the executor may have the command, also when it cannot be asked now. */
static void test_a_repetition_refuses_nothing(void **state)
{
	(void)state;
	struct made m = make_run("repeated", true, 0);
	struct command_started s1, s2;
	struct command_new cn = { .command = "x", .lease_token = m.token, .view = COMMAND_VIEW_RESULT, .idempotency = { .key = "rep1", .body = "b", .body_len = 1 } };
	struct command_new one = { .command = "x", .view = COMMAND_VIEW_RESULT, .idempotency = { .key = "rep2", .body = "b", .body_len = 1 } };
	assert_ok(commands_start(D, C, m.id, &cn, &s1, err));
	stand_executor_kill(&st);
	assert_fails(commands_start(D, C, m.id, &cn, &s2, err), "outcome_unknown");
	stand_executor_start(&st);
	stand_control(&st, "", "{\"busy\":3}");
	assert_fails(commands_start(D, C, m.id, &cn, &s2, err), "outcome_unknown");
	assert_ok(commands_start(D, C, m.id, &cn, &s2, err));
	assert_true(s2.replayed);
	assert_string_equal(s1.id, s2.id);
	stand_control(&st, "", "{\"lose\":100}");
	assert_fails(execute_start(D, C, &one, &s1, err), "outcome_unknown");
	stand_control(&st, "", "{\"lose\":0,\"busy\":3}");
	assert_fails(execute_start(D, C, &one, &s2, err), "outcome_unknown");
	assert_ok(execute_start(D, C, &one, &s2, err));
	assert_true(s2.replayed);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands WHERE ended_at IS NULL AND (run_id IN (SELECT id FROM runs WHERE thread_id = 'repeated') "
		"OR id = (SELECT command_id FROM idempotency_keys WHERE key = 'rep2'))"), 2);
}

/* R2.10: the limit of a Run; an end that was only reported makes room. */
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
	/* The same Idempotency-Key gives the same token, and another body is refused; keys are the user's own. */
	char again[TOKEN_SECRET_SIZE];
	struct token_new keyed = { .user = "ann", .idempotency = { .key = "k", .body = "{}", .body_len = 2 } };
	int before = stand_count(&st, "SELECT count(*) FROM tokens");
	assert_ok(tokens_create(D, C, &keyed, secret, err));
	assert_ok(tokens_create(D, C, &keyed, again, err));
	assert_string_equal(secret, again);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM tokens"), before + 1);
	keyed.idempotency.body_len = 1;
	assert_fails(tokens_create(D, C, &keyed, again, err), "idempotency_mismatch");
	keyed.user = "bob";
	assert_ok(tokens_create(D, C, &keyed, again, err));
	assert_memory_not_equal(secret, again, 4 + TOKEN_ID_SIZE - 1);
	assert_ok(tokens_create(D, C, &(struct token_new){ .user = "bob", .kind = CALLER_E2B }, secret, err));
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

#define RIVALS 12
#define PLACES 3

/* A process of its own that wants a sandbox as soon as `go` is closed: 0 it has one, 1 it was refused, 2 anything else. */
static pid_t rival(const int go[2], int64_t most)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	char c;
	struct command_started s;
	err_t *e = NULL;
	struct domain *d = stand_domain(&st);
	d->limits.user_instances = most;
	close(go[1]);
	if (domain_check(d, NULL) < 0 || read(go[0], &c, 1) != 0)
		_exit(2);
	if (execute_start(d, C, &(struct command_new){ .command = "x" }, &s, &e) == 0)
		_exit(0);
	_exit(str_eq(err_detail(e), "too_many_instances") && err_code(e) == ERR_LIMIT ? 1 : 2);
}

/* However many start at the same moment, the limit on sandboxes is exact, and a refused one leaves nothing. */
static void test_instances(void **state)
{
	(void)state;
	settle();
	long before = stand_count(&st, "SELECT count(*) FROM instances"), runs_before = stand_count(&st, "SELECT count(*) FROM runs");
	int go[2], n[3] = { 0 };
	pid_t pids[RIVALS];
	assert_int_equal(pipe(go), 0);
	for (int i = 0; i < RIVALS; i++) {
		pids[i] = rival(go, before + PLACES);
		assert_true(pids[i] > 0);
	}
	close(go[0]);
	close(go[1]);
	for (int i = 0; i < RIVALS; i++) {
		int status;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 3);
		n[WEXITSTATUS(status)]++;
	}
	assert_int_equal(n[0], PLACES);
	assert_int_equal(n[1], RIVALS - PLACES);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances"), before + PLACES);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs"), runs_before + PLACES);
	D->limits.all_instances = before + PLACES;
	assert_fails(execute_start(D, C, &(struct command_new){ .command = "x" }, &(struct command_started){ 0 }, err), "too_many_instances");
	D->limits.all_instances = 256;
	free(stand_sql(&st, "UPDATE runs SET deadline_at = now() WHERE oneshot AND ended_at IS NULL"));
	settle();
	struct command_started s = { 0 };
	assert_ok(execute_start(D, C, &(struct command_new){ .command = "x" }, &s, err));
	json_object_put(s.command);
}

static int duty_once(const char *name)
{
	for (size_t i = 0; i < duties_count; i++) {
		if (!str_eq(duties[i].name, name))
			continue;
		err_t *e = NULL;
		int n = duties[i].run(D, &e);
		if (n < 0)
			fail_msg("%s: %s", name, err_message(e));
		return n;
	}
	fail_msg("there is no duty %s", name);
	return -1;
}

/* Until it has nothing to do: one call ends after its slice of time. */
static int duty(const char *name)
{
	int all = 0;
	for (int n = duty_once(name); n > 0; n = duty_once(name))
		all += n;
	return all;
}

/* What is over is forgotten after its time, output first, the audit last; what clean-up needs is not. */
static void test_retention(void **state)
{
	(void)state;
	char end[1024];
	struct command_started s[4];
	for (int i = 0; i < 4; i++) {
		assert_ok(execute_start(D, C, &(struct command_new){ .command = "old", .view = COMMAND_VIEW_RESULT }, &s[i], err));
		snprintf(end, sizeof end, "{\"id\":\"%s\",\"stdout\":\"hi\"}", s[i].id);
		stand_control(&st, "/end", end);
	}
	settle();
#define OLD "(SELECT run_id FROM sandbox_commands WHERE command = 'old')"
#define AGE(days) "UPDATE runs SET ended_at = now() - interval '" days "' WHERE id IN " OLD "; UPDATE sandbox_commands SET ended_at = now() - interval '" days "' WHERE command = 'old'"
	free(stand_sql(&st, AGE("31 days")));
	D->limits.output_days = 0;
	assert_int_equal(duty("outputs"), 0);
	D->limits.output_days = 30;
	D->limits.batch = 1;
	assert_int_equal(duty("outputs"), 4);
	assert_int_equal(duty("outputs"), 0);
	json_t *o = NULL;
	bool cut = false;
	assert_ok(commands_get(D, C, s[0].id, &o, err));
	assert_string_equal(str_of(o, "stdout"), "");
	assert_int_equal(json_get_bool(o, "stdout_truncated", true, &cut, NULL), 0);
	assert_true(cut);
	json_object_put(o);
	assert_int_equal(duty("runs"), 0);
	free(stand_sql(&st, AGE("91 days")));
	char sql[1024];
	snprintf(sql, sizeof sql, "UPDATE runs SET cleanup_pending = true, cleanup_next_at = now() + interval '1 day' WHERE id = '%s'", s[3].run_id);
	free(stand_sql(&st, sql));
	D->limits.run_days = 0;
	assert_int_equal(duty("runs"), 0);
	D->limits.run_days = 90;
	assert_int_equal(duty("runs"), 6);   /* three Runs, three commands */
	assert_fails(runs_get(D, C, s[0].run_id, &o, err), "not_found");
	assert_fails(commands_get(D, C, s[0].id, &o, err), "not_found");
	assert_status(s[3].run_id, "completed");
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM audit WHERE action = 'command.start' AND result = 'exited'"), 3);
	free(stand_sql(&st, "UPDATE audit SET at = now() - interval '731 days' WHERE action = 'command.start'"));
	D->limits.audit_days = 0;
	assert_int_equal(duty("audit"), 0);
	D->limits.audit_days = 730;
	assert_int_equal(duty("audit"), 3);
	snprintf(sql, sizeof sql, "UPDATE runs SET cleanup_next_at = now() WHERE id = '%s'", s[3].run_id);
	free(stand_sql(&st, sql));
	D->limits.batch = 100;
	settle();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idempotency), cmocka_unit_test(test_a_repetition_refuses_nothing), cmocka_unit_test(test_limits), cmocka_unit_test(test_bad_values),
		cmocka_unit_test(test_others_things), cmocka_unit_test(test_tokens), cmocka_unit_test(test_lists), cmocka_unit_test(test_health), cmocka_unit_test(test_instances),
		cmocka_unit_test(test_retention),
	};

	return cmocka_run_group_tests_name("domain_access", tests, up, down);
}
