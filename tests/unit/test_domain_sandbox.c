/* A user's own sandbox, by the rules: made once, woken, paused, cleaned up without being touched, lost out loud, replaced when asked for. */
#include "domain_kit.h"

#include "base/log.h"
#include "db/db_sandbox.h"
#include "domain/audit.h"
#include "domain/sandbox.h"
#include "domain/sandbox_ask.h"
#include "domain/sandbox_duties.h"
#include "provider/provider.h"

static void persistent(struct domain *d)
{
	assert_int_equal(str_copy(d->backend, sizeof d->backend, "host"), 0);
	d->caps = provider_caps("host");
}

static int up_persistent(void **state)
{
	up(state);
	persistent(D);
	return 0;
}

static void assert_sql(const char *sql, const char *want)
{
	char *got = stand_sql(&st, sql);
	assert_string_equal(got ? got : "", want);
	free(got);
}

#define assert_sandbox(want) assert_sql("SELECT state || ' ' || generation FROM user_sandboxes", want)

static char *instance(void)
{
	return stand_sql(&st, "SELECT instance_id FROM user_sandboxes");
}

static void set_instance(const char *state)
{
	char *iid = instance(), json[160];
	snprintf(json, sizeof json, "{\"id\": \"%s\", \"state\": \"%s\"}", iid, state);
	stand_control(&st, "/instance", json);
	free(iid);
}

static void finish_run(const struct made *m)
{
	json_t *run = NULL;
	assert_ok(runs_finish(D, C, m->id, &(struct run_finish){ .status = "completed" }, &run, err));
	json_object_put(run);
}

static void take_reports(void)
{
	for (int i = 0; i < 3; i++)
		assert_ok(reports_take(D, 50, err));
}

static void end_command(const char *id)
{
	char json[128];
	snprintf(json, sizeof json, "{\"id\": \"%s\", \"code\": 0}", id);
	stand_control(&st, "/end", json);
	take_reports();
}

static void age(const char *what)
{
	char sql[256];
	snprintf(sql, sizeof sql, "UPDATE user_sandboxes SET op_at = op_at - interval '%s', last_activity_at = last_activity_at - interval '%s', "
		"kept_at = kept_at - interval '%s'", what, what, what);
	free(stand_sql(&st, sql));
}

static void assert_no_violation(void)
{
	json_t *all = stand_state(&st);
	const json_t *list = NULL;
	assert_int_equal(json_get_arr(all, "violations", true, &list, NULL), 0);
	if (json_object_array_length(list))
		fail_msg("%s", json_text((json_t *)list, NULL));
	json_object_put(all);
}

/* How often the executor was asked to keep one alive. */
static int64_t keepalives(void)
{
	json_t *all = stand_state(&st);
	int64_t n = 0;
	assert_int_equal(json_get_i64(all, "kept", true, 0, INT64_MAX, &n, NULL), 0);
	json_object_put(all);
	return n;
}

/* Two Runs, one sandbox; clean-up of a Run leaves it alone; it is paused when idle and woken by the next command. */
static void test_life(void **state)
{
	(void)state;
	struct made a = make_run("a", false, 0), b = make_run("b", false, 0);
	struct command_started x = start(&a, NULL), y = start(&b, NULL);
	take_reports();
	assert_sandbox("ready 1");
	assert_int_equal(stand_count(&st, "SELECT count(DISTINCT instance_id) FROM sandbox_commands"), 1);
	assert_int_equal(stand_count(&st, "SELECT count(DISTINCT scope_id) FROM sandbox_commands"), 2);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM user_sandboxes WHERE last_activity_at IS NOT NULL"), 1);
	end_command(x.id);
	finish_run(&a);
	settle();
	assert_sandbox("ready 1");
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances"), 1);
	json_t *o = NULL;
	assert_ok(commands_get(D, C, y.id, &o, err));
	assert_string_equal(str_of(o, "status"), "running");
	json_object_put(o);
	/* The other Run is active: kept alive, not paused. */
	age("10 minutes");
	int64_t before = keepalives();
	assert_ok(sandboxes_keep(D, err));
	assert_int_equal(keepalives(), before + 1);
	assert_ok(sandboxes_keep(D, err));
	assert_int_equal(keepalives(), before + 1);   /* not before its time */
	assert_ok(sandboxes_pause_idle(D, err));
	assert_sandbox("ready 1");
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM user_sandboxes WHERE last_activity_at > now() - interval '1 minute'"), 1);
	finish_run(&b);
	settle();
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands WHERE reason = 'cancelled'"), 1);
	assert_ok(sandboxes_pause_idle(D, err));
	assert_sandbox("ready 1");
	age("10 minutes");
	assert_ok(sandboxes_keep(D, err));
	assert_int_equal(keepalives(), before + 1);   /* of no use to a Run any more */
	assert_ok(sandboxes_pause_idle(D, err));
	assert_sandbox("paused 1");
	struct made c = make_run("c", false, 0);
	x = start(&c, NULL);
	take_reports();
	assert_sandbox("ready 1");
	end_command(x.id);
	finish_run(&c);
	settle();
	assert_no_violation();
	/* For longer than the executor can be asked at once. */
	json_t *kept = NULL;
	assert_ok(sandbox_keep_alive(D, C, SANDBOX_KEEP_MAX_MS, &kept, err));
	json_object_put(kept);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM user_sandboxes WHERE keep_until > now() + interval '6 days'"), 1);
}

/* A command whose Run has ended does not start any more, although the sandbox is there. */
static void test_late_command(void **state)
{
	(void)state;
	struct made a = make_run("late", false, 0);
	struct command_started s;
	struct command_new n = { .command = "true", .view = COMMAND_VIEW_RESULT };
	stand_control(&st, "", "{\"busy\": 9}");
	assert_fails(commands_start(D, C, a.id, &n, &s, err), "executor_unavailable");
	stand_control(&st, "", "{\"busy\": 0}");
	finish_run(&a);
	settle();
	char *scope = stand_sql(&st, "SELECT scope_id FROM run_attempts WHERE run_id = (SELECT id FROM runs WHERE thread_id = 'late')");
	json_t *all = stand_state(&st);
	const json_t *scopes = NULL;
	bool ended = false;
	assert_int_equal(json_get_arr(all, "scopes", true, &scopes, NULL), 0);
	for (size_t i = 0; i < json_object_array_length(scopes); i++)
		ended |= str_eq(json_object_get_string(json_object_array_get_idx(scopes, i)), scope);
	assert_true(ended);
	json_object_put(all);
	free(scope);
}

/* An attempt comes to nothing: what it ran is ended, the sandbox stays, and the next attempt works in it under a scope of its own. */
static void test_next_attempt(void **state)
{
	(void)state;
	json_t *run = NULL;
	err_t *e = NULL;
	char *was = stand_sql(&st, "SELECT instance_id FROM user_sandboxes");
	struct made a = make_run("next", true, 0);
	struct command_started x = start(&a, a.token);
	take_reports();
	free(stand_sql(&st, "UPDATE runs SET lease_expires_at = now() WHERE thread_id = 'next'"));
	settle();
	assert_sql("SELECT status || ' ' || attempt FROM runs WHERE thread_id = 'next'", "pending 1");
	assert_ok(commands_get(D, C, x.id, &run, err));
	assert_string_equal(str_of(run, "reason"), "cancelled");
	json_object_put(run);
	assert_int_equal(runs_claim(D, C, &(struct run_claim){ .worker_id = "w2" }, "next", &run, a.token, &e), 1);
	json_object_put(run);
	x = start(&a, a.token);
	end_command(x.id);
	assert_sql("SELECT status || ' ' || attempt || ' ' || exit_code FROM sandbox_commands ORDER BY id DESC LIMIT 1", "exited 2 0");
	assert_sql("SELECT count(DISTINCT scope_id) || ' ' || count(DISTINCT instance_id) FROM sandbox_commands WHERE run_id = (SELECT id FROM runs WHERE thread_id = 'next')", "2 1");
	assert_sql("SELECT instance_id FROM user_sandboxes", was);
	free(was);
	assert_ok(runs_finish(D, C, a.id, &(struct run_finish){ .lease_token = a.token, .status = "completed" }, &run, err));
	json_object_put(run);
	settle();
	assert_no_violation();
}

/* What is killed or signalled is named with the instance of its row, whoever asks (R2.5). */
static void assert_hit(const char *what, const char *id)
{
	json_t *all = stand_state(&st), *want = json_object_new_array();
	const json_t *hits = NULL;
	char *iid = instance();
	assert_int_equal(json_get_arr(all, "hits", true, &hits, NULL), 0);
	const char *const words[] = { what, id, iid };
	for (size_t i = 0; i < UNIT_LEN(words); i++)
		json_object_array_add(want, json_object_new_string(words[i]));
	assert_true(json_object_array_length(hits) > 0);
	assert_string_equal(json_text(json_object_array_get_idx(hits, json_object_array_length(hits) - 1), NULL), json_text(want, NULL));
	json_object_put(want);
	json_object_put(all);
	free(iid);
}

static void test_aim(void **state)
{
	(void)state;
	json_t *run = NULL;
	struct made a = make_run("aim", false, 0);
	struct command_started x = start(&a, NULL), y = start(&a, NULL);
	take_reports();
	assert_ok(commands_signal(D, C, x.id, "TERM", err));
	assert_hit("signal", x.id);
	assert_ok(commands_kill(D, C, x.id, err));
	assert_hit("kill", x.id);
	assert_ok(runs_cancel(D, C, a.id, &run, err));
	json_object_put(run);
	assert_hit("kill", y.id);
	take_reports();
	settle();
	assert_status(a.id, "cancelled");
}

/* An operation on files has the base environment alone: the executor takes none with it. */
static void test_file_operation(void **state)
{
	(void)state;
	struct command_started s;
	struct command_new n = { .command = "true", .view = COMMAND_VIEW_RESULT, .kind = COMMAND_KIND_FILE };
	assert_ok(execute_start(D, C, &n, &s, err));
	end_command(s.id);
	settle();
	assert_sql("SELECT kind || ' ' || reason FROM sandbox_commands ORDER BY id DESC LIMIT 1", "file exited");
}

/* What is over, but not on record yet, stands against nothing. */
static void test_caught_up(void **state)
{
	(void)state;
	static int (*const calls[])(struct domain *, const struct caller *, json_t **, json_t **, err_t **) = { sandbox_pause, sandbox_release, sandbox_rebuild };
	struct command_new n = { .command = "true", .view = COMMAND_VIEW_RESULT };
	for (size_t i = 0; i < UNIT_LEN(calls); i++) {
		struct command_started s;
		json_t *o = NULL, *blockers = NULL;
		char end[128];
		assert_ok(execute_start(D, C, &n, &s, err));
		take_reports();
		assert_fails(calls[i](D, C, &o, &blockers, err), "sandbox_busy");
		assert_non_null(blockers);
		json_object_put(blockers);
		snprintf(end, sizeof end, "{\"id\": \"%s\", \"code\": 0}", s.id);
		stand_control(&st, "/end", end);
		assert_ok(calls[i](D, C, &o, &blockers, err));
		json_object_put(o);
		take_reports();
	}
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	assert_no_violation();
}

/* Activity is what the provider did for the user: neither looks nor what came to nothing. */
static void test_activity(void **state)
{
	(void)state;
	struct made a = make_run("activity", false, 0);
	struct command_started s = start(&a, NULL);
	end_command(s.id);
	char *was = stand_sql(&st, "SELECT last_activity_at FROM user_sandboxes");
	assert_true(*was != 0);
	json_t *o = NULL;
	assert_ok(sandbox_get(D, C, &o, err));
	json_object_put(o);
	assert_ok(commands_list(D, C, a.id, &(struct command_list){ .limit = 50 }, &o, err));
	json_object_put(o);
	assert_ok(orphans_instances(D, err));
	set_instance("ready");
	take_reports();
	assert_sql("SELECT last_activity_at FROM user_sandboxes", was);
	set_instance("lost");
	struct command_new n = { .command = "true", .view = COMMAND_VIEW_RESULT };
	assert_ok(commands_start(D, C, a.id, &n, &s, err));
	take_reports();
	assert_sql("SELECT reason FROM sandbox_commands ORDER BY id DESC LIMIT 1", "not_started");
	assert_sql("SELECT last_activity_at FROM user_sandboxes", was);
	free(was);
	finish_run(&a);
	settle();
	assert_no_violation();
	json_t *blockers = NULL;
	assert_ok(sandbox_rebuild(D, C, &o, &blockers, err));
	json_object_put(o);
	take_reports();
	assert_sql("SELECT state FROM user_sandboxes", "ready");
}

/* with_sandbox is for a sandbox that is no more: any other reason why a command was not started is its caller's. */
static void test_another_error(void **state)
{
	(void)state;
	struct command_started s;
	struct command_new n = { .command = "true", .view = COMMAND_VIEW_RESULT, .cwd = "/nowhere", .with_sandbox = true };
	char *was = stand_sql(&st, "SELECT instance_id || ' ' || generation FROM user_sandboxes");
	long rows = stand_count(&st, "SELECT count(*) FROM sandbox_commands");
	assert_ok(execute_start(D, C, &n, &s, err));
	take_reports();
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands"), rows + 1);
	assert_sql("SELECT reason || ' ' || error_code FROM sandbox_commands ORDER BY id DESC LIMIT 1", "not_started cwd_not_found");
	assert_sql("SELECT instance_id || ' ' || generation FROM user_sandboxes", was);
	free(was);
	settle();
}

/* Lost is an error; only who asks for another gets one. */
static void test_lost(void **state)
{
	(void)state;
	struct made a = make_run("lost", false, 0);
	struct command_started s = start(&a, NULL);
	end_command(s.id);
	assert_sandbox("ready 1");
	set_instance("lost");
	take_reports();
	assert_sandbox("error 1");
	struct command_new n = { .command = "true", .view = COMMAND_VIEW_RESULT };
	assert_fails(commands_start(D, C, a.id, &n, &s, err), "sandbox_not_found");
	assert_status(a.id, "running");
	n.with_sandbox = true;
	assert_ok(commands_start(D, C, a.id, &n, &s, err));
	take_reports();
	assert_sandbox("ready 2");
	end_command(s.id);
	/* It vanishes behind everybody's back: found out by the command, which is then started once more. */
	set_instance("missing");
	assert_ok(commands_start(D, C, a.id, &n, &s, err));
	take_reports();
	assert_sandbox("ready 3");
	assert_sql("SELECT string_agg(reason || ':' || coalesce(error_code, '') || ':' || generation, ' ' ORDER BY id) FROM sandbox_commands WHERE generation = 2 AND reason = 'not_started'",
		"not_started:sandbox_not_found:2");
	end_command(s.id);
	set_instance("missing");
	n.with_sandbox = false;
	assert_ok(commands_start(D, C, a.id, &n, &s, err));
	take_reports();
	assert_sandbox("error 3");
	assert_sql("SELECT reason || ' ' || error_code FROM sandbox_commands ORDER BY id DESC LIMIT 1", "not_started sandbox_not_found");
	assert_fails(commands_start(D, C, a.id, &n, &s, err), "sandbox_not_found");
	n.with_sandbox = true;
	assert_ok(commands_start(D, C, a.id, &n, &s, err));
	end_command(s.id);
	assert_sandbox("ready 4");
	/* The executor has destroyed it, as after a restored backup: no more than one that vanished, for either caller. */
	set_instance("gone");
	n.with_sandbox = false;
	assert_fails(commands_start(D, C, a.id, &n, &s, err), "sandbox_not_found");
	assert_sandbox("error 4");
	n.with_sandbox = true;
	assert_ok(commands_start(D, C, a.id, &n, &s, err));
	end_command(s.id);
	assert_sandbox("ready 5");
	set_instance("gone");
	assert_ok(commands_start(D, C, a.id, &n, &s, err));
	end_command(s.id);
	assert_sandbox("ready 6");
	finish_run(&a);
	settle();
	for (int i = 0; i < 20 && stand_count(&st, "SELECT count(*) FROM instances WHERE retired_at IS NOT NULL"); i++) {
		free(stand_sql(&st, "UPDATE instances SET destroy_next_at = now() WHERE retired_at IS NOT NULL"));
		assert_ok(sandboxes_retire(D, err));
	}
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances"), 1);
	D->caps = provider_caps("container");
	assert_fails(commands_start(D, C, a.id, &n, &s, err), "with_sandbox_unsupported");
	persistent(D);
	assert_no_violation();
}

static int lines_with(FILE *f, const char *word)
{
	char line[LOG_LINE_MAX];
	int n = 0;
	rewind(f);
	while (fgets(line, sizeof line, f))
		n += strstr(line, word) != NULL;
	return n;
}

static void forget_instance(int64_t running_ms)
{
	char *iid = instance(), json[160];
	snprintf(json, sizeof json, "{\"id\": \"%s\", \"state\": \"ready\", \"running_ms\": %lld}", iid, (long long)running_ms);
	stand_control(&st, "/instance", json);
	free(iid);
	take_reports();
	set_instance("forgotten");
}

static bool scope_is_over(const char *scope)
{
	json_t *all = stand_state(&st);
	const json_t *scopes = NULL;
	bool over = false;
	assert_int_equal(json_get_arr(all, "scopes", true, &scopes, NULL), 0);
	for (size_t i = 0; i < json_object_array_length(scopes); i++)
		over |= str_eq(json_object_get_string(json_object_array_get_idx(scopes, i)), scope);
	json_object_put(all);
	return over;
}

/* The executor's books are lost, the sandbox lives: it is the same afterwards, whoever finds out; nothing is made, nothing given up. */
static void test_lost_books(void **state)
{
	(void)state;
	struct command_new n = { .command = "true", .view = COMMAND_VIEW_RESULT };
	struct made a = make_run("books", false, 0);
	struct command_started s = start(&a, NULL);
	json_t *o = NULL, *blockers = NULL;
	end_command(s.id);
	char *was = stand_sql(&st, "SELECT instance_id || ' ' || generation FROM user_sandboxes");
	D->limits.orphan_grace_ms = 0;
	/* the sweep */
	forget_instance(5000);
	assert_ok(orphans_instances(D, err));
	take_reports();
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	assert_sql("SELECT usage_ms FROM instances", "5000");
	/* the same when it had been given up */
	set_instance("lost");
	take_reports();
	assert_sql("SELECT state FROM user_sandboxes", "error");
	set_instance("forgotten");
	assert_ok(orphans_instances(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	/* a command, with and without leave to make another sandbox */
	for (int i = 0; i < 2; i++) {
		n.with_sandbox = i == 1;
		forget_instance(6000 + i);
		assert_ok(commands_start(D, C, a.id, &n, &s, err));
		end_command(s.id);
		assert_sql("SELECT reason FROM sandbox_commands ORDER BY id DESC LIMIT 1", "exited");
	}
	/* kept alive */
	forget_instance(7000);
	assert_ok(sandbox_keep_alive(D, C, 1000, &o, err));
	json_object_put(o);
	free(stand_sql(&st, "UPDATE user_sandboxes SET keep_until = NULL"));
	finish_run(&a);
	settle();
	/* paused, and forgotten while it is; woken by the next command */
	forget_instance(8000);
	assert_ok(sandbox_pause(D, C, &o, &blockers, err));
	json_object_put(o);
	assert_sql("SELECT state FROM user_sandboxes", "paused");
	set_instance("forgotten");
	assert_ok(orphans_instances(D, err));
	take_reports();
	assert_sql("SELECT state FROM user_sandboxes", "paused");
	set_instance("forgotten");
	assert_ok(execute_start(D, C, &n, &s, err));
	end_command(s.id);
	settle();
	/* to be woken, but the executor never heard */
	set_instance("paused");
	take_reports();
	set_instance("forgotten");
	free(stand_sql(&st, "UPDATE user_sandboxes SET state = 'waking', op_id = gen_random_uuid(), op_at = now() - interval '5 s', lock_version = lock_version + 1"));
	assert_ok(sandboxes_go_on(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	assert_sql("SELECT instance_id || ' ' || generation FROM user_sandboxes", was);
	assert_sql("SELECT usage_ms FROM instances", "8000");
	free(was);
	assert_no_violation();
}

/* A command that is on record as started is not started again by whoever repeats its key. */
static void test_lost_books_and_a_repetition(void **state)
{
	(void)state;
	struct command_new n = { .command = "true", .view = COMMAND_VIEW_RESULT, .idempotency = { .key = "again", .body = "b", .body_len = 1 } };
	struct made a = make_run("repeated", false, 0);
	struct command_started s;
	assert_ok(commands_start(D, C, a.id, &n, &s, err));
	take_reports();
	set_instance("forgotten");
	assert_fails(commands_start(D, C, a.id, &n, &s, err), "outcome_unknown");
	assert_ok(orphans_instances(D, err));
	assert_fails(commands_start(D, C, a.id, &n, &s, err), "outcome_unknown");
	finish_run(&a);
	settle();
	assert_ok(commands_start(D, C, a.id, &n, &s, err));
	assert_string_equal(str_of(s.command, "status"), "lost");
	json_object_put(s.command);
	assert_no_violation();
}

/* Nothing but the executor's word that knows the instance, or that the ledger has it no more, clears a Run's clean-up. */
static void test_lost_books_and_a_clean_up(void **state)
{
	(void)state;
	static const char *const found[] = { "forgotten", "missing" };
	for (size_t i = 0; i < UNIT_LEN(found); i++) {
		struct made a = make_run(found[i], false, 0);
		start(&a, NULL);
		take_reports();
		char *scope = stand_sql(&st, "SELECT scope_id FROM runs WHERE ended_at IS NULL");
		set_instance(found[i]);
		finish_run(&a);
		assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs WHERE cleanup_pending"), 1);
		assert_false(scope_is_over(scope));
		settle();
		assert_true(scope_is_over(scope));
		assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands WHERE ended_at IS NULL"), 0);
		assert_sql("SELECT state FROM user_sandboxes", i == 0 ? "ready" : "error");
		free(scope);
	}
	/* Of one that is to be destroyed nothing is released before it is gone. */
	json_t *o = NULL, *blockers = NULL;
	assert_ok(sandbox_rebuild(D, C, &o, &blockers, err));
	json_object_put(o);
	take_reports();
	struct made a = make_run("retired", false, 0);
	struct command_started s = start(&a, NULL);
	end_command(s.id);
	set_instance("forgotten");
	free(stand_sql(&st, "WITH i AS (UPDATE instances SET retired_at = now(), destroy_next_at = 'infinity' WHERE retired_at IS NULL RETURNING id) "
		"UPDATE user_sandboxes SET state = 'none', instance_id = NULL, previous_id = i.id FROM i"));
	finish_run(&a);
	assert_int_equal(cleanup_run(D, a.id, NULL), 0);
	free(stand_sql(&st, "DELETE FROM instances WHERE retired_at IS NOT NULL"));
	assert_int_equal(cleanup_run(D, a.id, NULL), 1);
	/* Under another provider's executor it waits. */
	a = make_run("elsewhere", false, 0);
	s = start(&a, NULL);
	end_command(s.id);
	set_instance("forgotten");
	free(stand_sql(&st, "UPDATE instances SET provider = 'e2b'; UPDATE user_sandboxes SET provider = 'e2b'"));
	finish_run(&a);
	assert_int_equal(cleanup_run(D, a.id, NULL), 0);
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	free(stand_sql(&st, "UPDATE instances SET provider = 'host'; UPDATE user_sandboxes SET provider = 'host'"));
	settle();
	assert_no_violation();
}

/* The row says what is wanted; whoever comes next makes it so. */
static void test_forgotten(void **state)
{
	(void)state;
	struct made a = make_run("forgotten", false, 0);
	struct command_started s = start(&a, NULL);
	end_command(s.id);
	finish_run(&a);
	settle();
	/* The pause was decided, the executor never heard. */
	free(stand_sql(&st, "UPDATE user_sandboxes SET state = 'pausing', op_id = gen_random_uuid(), op_at = now() - interval '5 s', lock_version = lock_version + 1"));
	assert_ok(sandboxes_go_on(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "paused");
	/* It was to be woken. */
	free(stand_sql(&st, "UPDATE user_sandboxes SET state = 'waking', op_id = gen_random_uuid(), op_at = now() - interval '5 s', lock_version = lock_version + 1"));
	assert_ok(sandboxes_go_on(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	/* An operation in doubt: the next command asks first. While nobody can be asked, that is an error. */
	free(stand_sql(&st, "UPDATE user_sandboxes SET state = 'pausing', op_id = gen_random_uuid(), op_at = now() - interval '1 hour', lock_version = lock_version + 1"));
	struct made b = make_run("forgotten", false, 0);
	struct command_new n = { .command = "true", .view = COMMAND_VIEW_RESULT };
	long version = stand_count(&st, "SELECT lock_version FROM user_sandboxes");
	char *iid = instance();
	FILE *said = tmpfile();
	assert_non_null(said);
	log_set_fd(fileno(said));
	stand_control(&st, "", "{\"busy\": 20}");
	assert_fails(commands_start(D, C, b.id, &n, &s, err), "control_plane_unavailable");
	assert_ok(sandbox_unstick(D, iid, err));   /* whoever comes next finds it renewed: nothing to ask, nothing to say */
	log_set_fd(2);
	assert_int_equal(lines_with(said, "event=sandbox_stale"), 1);
	fclose(said);
	free(iid);
	assert_sql("SELECT state FROM user_sandboxes", "pausing");
	assert_int_equal(stand_count(&st, "SELECT lock_version FROM user_sandboxes"), version + 1);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM user_sandboxes WHERE op_at > now() - interval '1 minute'"), 1);   /* who comes first resets it */
	free(stand_sql(&st, "UPDATE user_sandboxes SET op_at = now() - interval '1 hour'"));
	stand_control(&st, "", "{\"busy\": 0}");
	s = start(&b, NULL);
	take_reports();
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	end_command(s.id);
	finish_run(&b);
	settle();
	assert_no_violation();
}

static void assert_refused(const char *code)
{
	json_t *o = NULL, *blockers = NULL;
	assert_fails(sandbox_rebuild(D, C, &o, &blockers, err), code);
	assert_fails(sandbox_pause(D, C, &o, &blockers, err), code);
	assert_fails(sandbox_release(D, C, &o, &blockers, err), code);
}

/* The provider alone says that it is away; no name of a part means it, and no part that is merely not well. */
static void test_provider_away(void **state)
{
	(void)state;
	json_t *o = NULL, *blockers = NULL;
	struct made a = make_run("away", false, 0);
	struct command_started s = start(&a, NULL);
	end_command(s.id);
	finish_run(&a);
	settle();
	char *was = stand_sql(&st, "SELECT state || ' ' || generation || ' ' || lock_version FROM user_sandboxes");
	stand_control(&st, "", "{\"parts\": [{\"name\": \"network\", \"ok\": true, \"hint\": \"\"}, {\"name\": \"whatever\", \"ok\": false, \"hint\": \"\", \"away\": true}]}");
	assert_refused("control_plane_unavailable");
	assert_sql("SELECT state || ' ' || generation || ' ' || lock_version FROM user_sandboxes", was);
	free(was);
	stand_control(&st, "", "{\"parts\": [{\"name\": \"engine\", \"ok\": false, \"hint\": \"\"}, {\"name\": \"launcher\", \"ok\": true, \"hint\": \"\", \"away\": false}]}");
	assert_ok(sandbox_pause(D, C, &o, &blockers, err));
	json_object_put(o);
	settle();
	assert_sql("SELECT state FROM user_sandboxes", "paused");
	stand_control(&st, "", "{\"parts\": []}");
	assert_no_violation();
}

/* What cannot be destroyed is put aside and shown; an instance without a row is put aside, not destroyed. */
static void test_quarantine(void **state)
{
	(void)state;
	char *iid = instance();
	struct caller op = { 0 };
	audit_operator(&op, "test");
	stand_control(&st, "", "{\"stuck\": 1}");
	assert_ok(sandbox_quarantine(D, "ann", &op, err));
	assert_sql("SELECT state FROM user_sandboxes", "none");
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances WHERE quarantined_at IS NOT NULL"), 1);
	stand_control(&st, "", "{\"stuck\": 0}");
	assert_fails(sandbox_retire(D, "00000000-0000-7000-8000-000000000000", &op, err), "not_found");
	assert_ok(sandbox_retire(D, iid, &op, err));
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances"), 0);
	free(iid);
	struct made a = make_run("stranger", false, 0);
	struct command_started s = start(&a, NULL);
	end_command(s.id);
	finish_run(&a);
	settle();
	free(stand_sql(&st, "BEGIN; DELETE FROM user_sandboxes; DELETE FROM instances; COMMIT"));
	D->limits.orphan_grace_ms = 0;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = 5000000 }, NULL);
	assert_ok(orphans_instances(D, err));
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances WHERE quarantined_at IS NOT NULL AND destroy_error = 'no row knows it'"), 1);
	free(stand_sql(&st, "UPDATE instances SET destroy_next_at = now()"));
	assert_ok(sandboxes_retire(D, err));
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances"), 0);
	assert_no_violation();
}

/* Reports may be written down in the wrong order, and databases restored: what the row says is compared with what is. Only an executor of the sandbox's
 * own provider can say that it is no more. */
static void test_contradiction(void **state)
{
	(void)state;
	struct made a = make_run("contradiction", false, 0);
	struct command_started s = start(&a, NULL);
	end_command(s.id);
	finish_run(&a);
	settle();
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	D->limits.orphan_grace_ms = 0;
	free(stand_sql(&st, "UPDATE user_sandboxes SET state = 'paused'"));
	assert_ok(orphans_instances(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	free(stand_sql(&st, "UPDATE user_sandboxes SET state = 'error'"));
	assert_ok(orphans_instances(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "ready");
	set_instance("paused");
	take_reports();
	free(stand_sql(&st, "UPDATE user_sandboxes SET state = 'ready'"));
	assert_ok(orphans_instances(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "paused");
	char *version = stand_sql(&st, "SELECT lock_version FROM user_sandboxes");
	assert_ok(orphans_instances(D, err));
	assert_sql("SELECT lock_version FROM user_sandboxes", version);
	free(version);
	set_instance("missing");
	free(stand_sql(&st, "INSERT INTO instances (id, user_id, workspace, generation, provider, retired_at, destroy_next_at) "
		"SELECT '00000000-0000-7000-8000-0000000000aa', id, name, 1, 'host', now(), now() FROM users WHERE name = 'ann'"));
	assert_int_equal(str_copy(D->backend, sizeof D->backend, "container"), 0);
	D->caps = provider_caps("container");
	assert_ok(orphans_instances(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "paused");
	assert_ok(sandboxes_retire(D, err));
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances WHERE retired_at IS NOT NULL AND destroy_next_at <= clock_timestamp()"), 1);
	persistent(D);
	free(stand_sql(&st, "UPDATE user_sandboxes SET provider = 'e2b', state = 'waking', op_id = gen_random_uuid(), op_at = now() - interval '5 s'"));
	assert_ok(sandboxes_go_on(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "waking");
	free(stand_sql(&st, "UPDATE user_sandboxes SET provider = 'host', state = 'paused', op_id = NULL"));
	assert_ok(orphans_instances(D, err));
	assert_sql("SELECT state FROM user_sandboxes", "error");
	assert_ok(sandboxes_retire(D, err));
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances WHERE retired_at IS NOT NULL"), 0);
	assert_no_violation();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_life), cmocka_unit_test(test_late_command), cmocka_unit_test(test_aim), cmocka_unit_test(test_next_attempt), cmocka_unit_test(test_file_operation), cmocka_unit_test(test_lost), cmocka_unit_test(test_forgotten),
		cmocka_unit_test(test_caught_up), cmocka_unit_test(test_activity), cmocka_unit_test(test_another_error), cmocka_unit_test(test_provider_away),
		cmocka_unit_test(test_quarantine), cmocka_unit_test(test_lost_books), cmocka_unit_test(test_lost_books_and_a_repetition), cmocka_unit_test(test_lost_books_and_a_clean_up), cmocka_unit_test(test_contradiction),
	};

	return cmocka_run_group_tests_name("domain_sandbox", tests, up_persistent, down);
}
