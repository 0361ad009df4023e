/* R5.5: every change leaves one row: who, for whom, what, from where, with what result. A repeated request leaves none. */
#include "domain_kit.h"

#include "domain/audit.h"
#include "domain/steer.h"

/* The rows about something, oldest first: "actor/user/token/source action result" in one line each; actor by name, else as it stands. */
static char *rows(const char *object)
{
	char sql[1024];
	snprintf(sql, sizeof sql, "SELECT coalesce(string_agg(coalesce(a.actor, u.name, '-') || ' for ' || coalesce(f.name, '-') || ' ' || "
		"CASE WHEN a.token_id IS NULL THEN '-' ELSE 'token' END || ' ' || coalesce(a.request_id, '-') || ' ' || coalesce(a.source, '-') || ' ' || a.action || ' ' || a.result, "
		"E'\\n' ORDER BY a.id), '') FROM audit a LEFT JOIN users u ON u.id = a.actor_id LEFT JOIN users f ON f.id = a.user_id WHERE a.object = '%s'", object);
	return stand_sql(&st, sql);
}

#define ANN "ann for ann token req-1 192.0.2.1 "
#define OWN "janitor for ann - - janitor "
#define assert_rows(OBJECT, WANT) do { \
	char *rows_ = rows(OBJECT); \
	assert_string_equal(rows_, WANT); \
	free(rows_); \
} while (0)

static void sql(const char *text)
{
	free(stand_sql(&st, text));
}

static void test_accounts(void **state)
{
	(void)state;
	struct caller by;
	json_t *o = NULL;
	char secret[TOKEN_SECRET_SIZE], id[TOKEN_ID_SIZE];
	audit_operator(&by, "test");
	assert_ok(users_create(D, &by, "eve", true, &o, err));
	json_object_put(o);
	char want[256];
	snprintf(want, sizeof want, "%s for eve - - test user.create_admin ok", by.actor);
	assert_rows("eve", want);
	assert_fails(users_create(D, &by, "eve", false, &o, err), "user_exists");
	assert_rows("eve", want);
	struct token_new n = { .user = "ann", .idempotency = { .key = "t", .body = "{}", .body_len = 2 } };
	for (int i = 0; i < 2; i++)
		assert_ok(tokens_create(D, C, &n, secret, err));
	memcpy(id, secret + 4, TOKEN_ID_SIZE - 1);
	id[TOKEN_ID_SIZE - 1] = 0;
	assert_rows(id, ANN "token.create ok");
	for (int i = 0; i < 2; i++)
		assert_ok(tokens_revoke_own(D, C, id, err));
	assert_rows(id, ANN "token.create ok\n" ANN "token.revoke ok");
	assert_fails(tokens_revoke(D, C, "000000000000", err), "not_found");
	assert_rows("000000000000", "");
}

static void test_runs(void **state)
{
	(void)state;
	json_t *o = NULL, *in = json_parse("1", 1, 10, 2, NULL);
	char token[LEASE_TOKEN_SIZE], id[ID_SIZE], next[ID_SIZE];
	const json_t *s = NULL;
	struct run_new n = { .thread_id = "audit", .idempotency = { .key = "r", .body = "b", .body_len = 1 } };
	for (int i = 0; i < 2; i++) {
		assert_ok(runs_create(D, C, &n, &o, token, err));
		str_copy(id, sizeof id, str_of(o, "id"));
		json_object_put(o);
	}
	assert_rows(id, ANN "run.create ok");
	assert_ok(runs_claim(D, C, &(struct run_claim){ .worker_id = "w" }, "audit", &o, token, err));
	json_object_put(o);
	assert_rows(id, ANN "run.create ok\n" ANN "run.claim ok");
	/* A lease that is only renewed changes nothing that the Run's row does not show. */
	assert_ok(runs_heartbeat(D, C, id, token, 0, &o, err));
	json_object_put(o);
	struct steer st_ = { .input = in, .idempotency = { .key = "s", .body = "1", .body_len = 1 } };
	for (int i = 0; i < 2; i++) {
		assert_ok(steer_run(D, C, id, &st_, &o, err));
		assert_int_equal(json_get_obj(o, "successor", true, &s, NULL), 0);
		str_copy(next, sizeof next, str_of(s, "id"));
		json_object_put(o);
	}
	settle();
	assert_rows(id, ANN "run.create ok\n" ANN "run.claim ok\n" ANN "run.steer yielded\n" OWN "run.cleanup ok");
	assert_rows(next, ANN "run.create ok");
	for (int i = 0; i < 2; i++) {
		assert_ok(runs_cancel(D, C, next, &o, err));
		json_object_put(o);
	}
	settle();
	assert_rows(next, ANN "run.create ok\n" ANN "run.cancel cancelled\n" OWN "run.cleanup ok");
	json_object_put(in);
}

/* A refused request changes nothing. */
static void test_refusals(void **state)
{
	(void)state;
	json_t *o = NULL;
	struct made m = make_run("refused", true, 0);
	assert_fails(runs_finish(D, C, m.id, &(struct run_finish){ .lease_token = "lt_0", .status = "completed" }, &o, err), "lease_lost");
	assert_fails(runs_finish(D, C, m.id, &(struct run_finish){ .status = "completed" }, &o, err), "lease_required");
	assert_rows(m.id, ANN "run.create ok\n" ANN "run.claim ok");
	assert_ok(runs_finish(D, C, m.id, &(struct run_finish){ .lease_token = m.token, .status = "completed" }, &o, err));
	json_object_put(o);
	assert_fails(runs_cancel(D, C, m.id, &o, err), "run_ended");
	settle();
	assert_rows(m.id, ANN "run.create ok\n" ANN "run.claim ok\n" ANN "run.finish completed\n" OWN "run.cleanup ok");
}

/* What the service does by its rules. */
static void test_own_acts(void **state)
{
	(void)state;
	char body[160];
	json_t *o = NULL;
	struct made lease = make_run("own1", true, 0), ceiling = make_run("own2", true, 0), lost = make_run("own3", true, 0), cancelled = make_run("own4", true, 0);
	start(&lost, lost.token);
	start(&cancelled, cancelled.token);
	sql("UPDATE runs SET lease_expires_at = now() WHERE thread_id = 'own1'");
	sql("UPDATE runs SET deadline_at = now() WHERE thread_id = 'own2'");
	char *iid = stand_sql(&st, "SELECT instance_id FROM runs WHERE thread_id = 'own3'");
	snprintf(body, sizeof body, "{\"id\":\"%s\",\"state\":\"lost\"}", iid);
	free(iid);
	stand_control(&st, "/instance", body);
	assert_ok(runs_cancel(D, C, cancelled.id, &o, err));
	json_object_put(o);
	settle();
	for (int i = 0; i < 5 && stand_count(&st, "SELECT count(*) FROM runs WHERE thread_id = 'own3' AND status = 'running'"); i++)
		assert_ok(reports_take(D, 500, err));
	settle();
#define MADE ANN "run.create ok\n" ANN "run.claim ok\n"
	assert_rows(lease.id, MADE OWN "run.lease_expired pending\n" OWN "run.cleanup ok");
	assert_rows(ceiling.id, MADE OWN "run.run_timeout failed\n" OWN "run.cleanup ok");
	assert_rows(lost.id, MADE OWN "run.sandbox_lost pending\n" OWN "run.cleanup ok");
	assert_rows(cancelled.id, MADE ANN "run.cancel requested\n" OWN "run.cancelled ok\n" OWN "run.cleanup ok");
	sql("UPDATE runs SET deadline_at = now(), started_at = now() WHERE ended_at IS NULL");
	settle();
}

static long waits_s(const struct made *m)
{
	char q[160];
	snprintf(q, sizeof q, "SELECT round(extract(epoch FROM cleanup_next_at - clock_timestamp())) FROM runs WHERE id = '%s'", m->id);
	return stand_count(&st, q);
}

/* The first failure of a clean-up, not each; and that it came to its end. It is tried again, each time later, within bounds. */
static void test_cleanup(void **state)
{
	(void)state;
	json_t *o = NULL;
	struct made m = make_run("cleanup", true, 0);
	start(&m, m.token);
	stand_control(&st, "", "{\"busy\":1000000}");
	assert_ok(runs_finish(D, C, m.id, &(struct run_finish){ .lease_token = m.token, .status = "completed" }, &o, err));
	json_object_put(o);
	const struct domain_limits limits = D->limits;
	D->limits.backoff_min_ms = 1000000;
	D->limits.backoff_max_ms = 5000000;
	static const long want[] = { 2000, 4000, 5000 };
	for (size_t i = 0; i < UNIT_LEN(want); i++) {
		assert_int_equal(cleanup_run(D, m.id, NULL), -1);
		assert_in_range(waits_s(&m), want[i] - 60, want[i]);
	}
	D->limits = limits;
	sql("UPDATE runs SET cleanup_next_at = now() WHERE cleanup_pending");
	stand_control(&st, "", "{\"busy\":0}");
	settle();
	assert_rows(m.id, MADE ANN "run.finish completed\n" OWN "run.cleanup failed\n" OWN "run.cleanup ok");
}

/* The hot path: a one-shot Run that went well is on record by its command alone. */
static void test_oneshot(void **state)
{
	(void)state;
	char end[128], want[256];
	struct command_started s;
	long before = stand_count(&st, "SELECT count(*) FROM audit");
	assert_ok(execute_start(D, C, &(struct command_new){ .command = "x", .view = COMMAND_VIEW_RESULT }, &s, err));
	snprintf(end, sizeof end, "{\"id\":\"%s\",\"code\":0}", s.id);
	stand_control(&st, "/end", end);
	assert_ok(reports_take(D, 1000, err));
	settle();
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM audit"), before);
	snprintf(want, sizeof want, "SELECT count(*) FROM audit_log WHERE action = 'command.start' AND object = '%s' AND actor = 'ann' AND source = '192.0.2.1' AND result = 'exited'", s.id);
	assert_int_equal(stand_count(&st, want), 1);
}

/* Instances of nobody, commands without a row. */
static void test_strays(void **state)
{
	(void)state;
	struct made m = make_run("stray", true, 0);
	struct command_started s = start(&m, m.token);
	char text[256];
	assert_ok(reports_take(D, 500, err));
	snprintf(text, sizeof text, "UPDATE sandbox_commands SET status = 'lost', reason = 'lost', ended_at = now() WHERE id = '%s'", s.id);
	free(stand_sql(&st, text));
	char *iid = stand_sql(&st, "SELECT instance_id FROM runs WHERE thread_id = 'stray'");
	free(stand_sql(&st, "BEGIN; DELETE FROM instances WHERE run_id IN (SELECT id FROM runs WHERE thread_id = 'stray');"
		"UPDATE runs SET instance_id = NULL WHERE thread_id = 'stray'; COMMIT"));
	assert_int_equal(orphans_instances(D, NULL), 1);
	assert_rows(iid, "janitor for - - - janitor instance.destroy_orphan ready");
	free(iid);
	assert_ok(commands_kill(D, C, start(&m, m.token).id, err));
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM audit WHERE action = 'command.kill' AND result = 'ok' AND request_id = 'req-1'"), 1);
	free(stand_sql(&st, "UPDATE runs SET deadline_at = now() WHERE ended_at IS NULL"));
	settle();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accounts), cmocka_unit_test(test_runs), cmocka_unit_test(test_refusals), cmocka_unit_test(test_own_acts),
		cmocka_unit_test(test_cleanup), cmocka_unit_test(test_oneshot), cmocka_unit_test(test_strays),
	};

	return cmocka_run_group_tests_name("domain_audit", tests, up, down);
}
