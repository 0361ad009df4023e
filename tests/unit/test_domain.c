#include "domain_kit.h"

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

/* R2.1: only the holder goes on; an expired lease offers the Run again until no attempt is left. */
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

/* R2.2, R2.3: no first execution in a Thread with clean-up pending. */
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

/* R2.4: cancel kills through the executor, whoever asks. */
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

/* R2.1, R2.9: the ceiling. */
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
	assert_string_equal(str_of(o, "timeout"), "run");
	json_object_put(o);
}

/* R2.9: the answer says which timer fired, also when the executor was away at that time. */
static void test_timers(void **state)
{
	(void)state;
	static const struct {
		struct command_new n;
		const char *timer;
	} t[] = {
		{ { .command = "x", .has_timeout = true, .timeout_ms = 50 }, "command" },
		{ { .command = "x", .stage = "s", .has_stage_timeout = true, .stage_timeout_ms = 50, .has_timeout = true, .timeout_ms = 40 }, "command" },
		{ { .command = "x", .stage = "s", .has_stage_timeout = true, .stage_timeout_ms = 50 }, "stage" },
		{ { .command = "x" }, "stage" },
	};
	struct made m = make_run("timers", false, 0);
	char body[160], sql[256];
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		struct command_started s;
		json_t *o = NULL;
		assert_ok(commands_start(D, C, m.id, &t[i].n, &s, err));
		json_object_put(s.command);
		snprintf(body, sizeof body, "{\"id\":\"%s\",\"timeout\":true,\"stdout\":\"so far\"}", s.id);
		stand_control(&st, "/end", body);
		assert_ok(reports_take(D, 500, err));
		assert_ok(commands_get(D, C, s.id, &o, err));
		assert_string_equal(str_of(o, "reason"), "timeout");
		assert_string_equal(str_of(o, "timeout"), t[i].timer);
		assert_string_equal(str_of(o, "stdout"), "so far");
		json_object_put(o);
	}
	struct command_started s = start(&m, NULL);
	json_t *o = NULL;
	stand_executor_kill(&st);
	snprintf(sql, sizeof sql, "UPDATE runs SET deadline_at = now() WHERE id = '%s'", m.id);
	free(stand_sql(&st, sql));
	duties_step(D, &(struct duties_clock){ 0 });
	assert_status(m.id, "failed");
	stand_executor_start(&st);
	settle();
	assert_ok(commands_get(D, C, s.id, &o, err));
	assert_string_equal(str_of(o, "timeout"), "run");
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
		"UPDATE runs SET instance_id = NULL, scope_id = NULL WHERE thread_id = 'orphans'; COMMIT"));
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

/* Last: what cannot be recorded stays with the executor. */
static void test_unrecordable_reports(void **state)
{
	(void)state;
	char body[160];
	struct made m = make_run("poison", true, 0);
	struct command_started odd = start(&m, m.token), huge = start(&m, m.token), fine = start(&m, m.token);
	json_t *o = NULL;
	assert_ok(reports_take(D, 500, err));
	snprintf(body, sizeof body, "{\"id\":\"%s\",\"stdout\":[1]}", odd.id);
	stand_control(&st, "/end", body);
	snprintf(body, sizeof body, "{\"id\":\"%s\",\"code\":99999999999}", huge.id);
	stand_control(&st, "/end", body);
	snprintf(body, sizeof body, "{\"id\":\"%s\",\"code\":7}", fine.id);
	stand_control(&st, "/end", body);
	for (int i = 0; i < 2; i++)
		assert_fails(reports_take(D, 500, err), "internal");
	assert_ok(commands_get(D, C, fine.id, &o, err));
	assert_string_equal(str_of(o, "status"), "exited");
	json_object_put(o);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands c JOIN runs r ON r.id = c.run_id WHERE thread_id = 'poison' AND c.ended_at IS NULL"), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_life_of_a_run), cmocka_unit_test(test_leases), cmocka_unit_test(test_thread_fence),
		cmocka_unit_test(test_cancel), cmocka_unit_test(test_execute), cmocka_unit_test(test_executor_away),
		cmocka_unit_test(test_lost_answers), cmocka_unit_test(test_ceiling), cmocka_unit_test(test_timers), cmocka_unit_test(test_orphans),
		cmocka_unit_test(test_unrecordable_reports),
	};

	return cmocka_run_group_tests_name("domain", tests, up, down);
}
