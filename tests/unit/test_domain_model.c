/* Random walks over Runs, leases, commands and clean-up, with an executor that is late, loses answers, forgets acknowledgements and dies, a database
 * that crashes, and workers and janitors that are killed at their fault points (--enable-fault). PADDOCK_MODEL_SEED and PADDOCK_MODEL_STEPS choose another walk.
 *
 * Whatever happened, afterwards: no command was started twice, no instance of a Run was alive beside another of it, every command has an end that does
 * not contradict the executor's, no instance is left, no duty is forgotten.
 *
 * PADDOCK_MODEL_MUTATION names a rule to be broken first: the walk must find that out (tests/unit/test_domain_model_control). */
#include "unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/str.h"
#include "domain/cleanup.h"
#include "domain/commands.h"
#include "domain/duties.h"
#include "domain/execute.h"
#include "domain/orphans.h"
#include "domain/reports.h"
#include "domain/runs.h"
#include "domain/steer.h"
#include "lib/stand.h"

#define RUNS_MAX 400
#define THREADS 5

static struct stand st;
#define D st.domain
#define C (&st.caller)

static struct known {
	char id[ID_SIZE];
	char token[LEASE_TOKEN_SIZE];
} runs[RUNS_MAX];
static int n_runs;
static int64_t steps = 500;
static uint64_t rng = 0x9e3779b97f4a7c15u;

static uint32_t dice(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 32) % n;
}

static void nap(int ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
	nanosleep(&ts, NULL);
}

/* A failure is fine when it is one that the rules allow; a fault of ours is not. */
static void forgive(err_t *e)
{
	if (e && (err_code(e) == ERR_INTERNAL || err_code(e) == ERR_INVALID))
		fail_msg("%s: %s", err_detail(e), err_message(e));
	err_free(e);
}

static void remember(const json_t *run, const char *token)
{
	const char *id = NULL;
	assert_int_equal(json_get_str(run, "id", true, &id, NULL), 0);
	struct known *k = NULL;
	for (int i = 0; i < n_runs; i++)
		if (str_eq(runs[i].id, id))
			k = &runs[i];
	if (!k && n_runs < RUNS_MAX)
		k = &runs[n_runs++];
	if (!k)
		return;
	str_copy(k->id, sizeof k->id, id);
	str_copy(k->token, sizeof k->token, token);
}

static struct known *any_run(void)
{
	static struct known none = { .id = "01900000-0000-7000-8000-000000000000" };
	return n_runs ? &runs[n_runs > 12 && dice(4) ? (uint32_t)n_runs - 1 - dice(12) : dice((uint32_t)n_runs)] : &none;
}

static void op_create(struct domain *d)
{
	char thread[16], token[LEASE_TOKEN_SIZE] = "";
	json_t *run = NULL;
	err_t *e = NULL;
	struct run_claim cl = { .worker_id = "w", .lease_ms = dice(3) ? 60000 : 150 };
	snprintf(thread, sizeof thread, "t%u", dice(THREADS));
	struct run_new n = { .thread_id = thread, .claim = dice(2) ? &cl : NULL, .has_timeout = dice(8) == 0, .timeout_ms = 400 };
	if (runs_create(d, C, &n, &run, token, &e) == 0)
		remember(run, token);
	json_object_put(run);
	forgive(e);
}

static void op_claim(struct domain *d)
{
	char token[LEASE_TOKEN_SIZE];
	json_t *run = NULL;
	err_t *e = NULL;
	if (runs_claim(d, C, &(struct run_claim){ .worker_id = "w", .lease_ms = dice(3) ? 60000 : 150 }, NULL, &run, token, &e) == 1)
		remember(run, token);
	json_object_put(run);
	forgive(e);
}

static void op_start(struct domain *d)
{
	struct known *k = any_run();
	struct command_started s = { 0 };
	err_t *e = NULL;
	char key[16];
	snprintf(key, sizeof key, "k%u", dice(40));
	struct command_new n = { .command = "x", .lease_token = k->token[0] ? k->token : NULL, .view = COMMAND_VIEW_RESULT,
		.idempotency = { .key = dice(3) ? NULL : key, .body = k->id, .body_len = strlen(k->id) } };
	(void)commands_start(d, C, k->id, &n, &s, &e);
	json_object_put(s.command);
	forgive(e);
}

static void op_execute(struct domain *d)
{
	struct command_started s = { 0 };
	err_t *e = NULL;
	if (execute_start(d, C, &(struct command_new){ .command = "once", .view = COMMAND_VIEW_SSE }, &s, &e) == 0 && n_runs < RUNS_MAX) {
		str_copy(runs[n_runs].id, ID_SIZE, s.run_id);
		runs[n_runs++].token[0] = 0;
	}
	forgive(e);
}

static void op_finish(struct domain *d)
{
	struct known *k = any_run();
	json_t *run = NULL;
	err_t *e = NULL;
	(void)runs_finish(d, C, k->id, &(struct run_finish){ .lease_token = k->token[0] ? k->token : NULL, .status = dice(2) ? "completed" : "failed" }, &run, &e);
	json_object_put(run);
	forgive(e);
}

static void op_cancel(struct domain *d)
{
	json_t *run = NULL;
	err_t *e = NULL;
	(void)runs_cancel(d, C, any_run()->id, &run, &e);
	json_object_put(run);
	forgive(e);
}

static void op_steer(struct domain *d)
{
	struct known *k = any_run();
	json_t *o = NULL, *input = json_object_new_string(k->id);
	const json_t *next = NULL;
	err_t *e = NULL;
	char key[16];
	snprintf(key, sizeof key, "s%u", dice(20));
	if (steer_run(d, C, k->id, &(struct steer){ .input = input, .idempotency = { .key = dice(2) ? NULL : key, .body = k->id, .body_len = strlen(k->id) } }, &o, &e) == 0 &&
			json_get_obj(o, "successor", true, &next, NULL) == 0)
		remember(next, "");
	json_object_put(o);
	json_object_put(input);
	forgive(e);
}

static void op_heartbeat(struct domain *d)
{
	struct known *k = any_run();
	json_t *o = NULL;
	err_t *e = NULL;
	(void)runs_heartbeat(d, C, k->id, k->token, dice(2) ? 150 : 60000, &o, &e);
	json_object_put(o);
	forgive(e);
}

static void op_reports(struct domain *d)
{
	err_t *e = NULL;
	(void)reports_take(d, 0, &e);
	forgive(e);
}

static void op_duty(struct domain *d)
{
	err_t *e = NULL;
	(void)duties[dice((uint32_t)duties_count)].run(d, &e);
	forgive(e);
}

static void op_get(struct domain *d)
{
	json_t *o = NULL;
	err_t *e = NULL;
	(void)commands_list(d, C, any_run()->id, &(struct command_list){ .limit = 5 }, &o, &e);
	json_object_put(o);
	forgive(e);
}

static void (*const ops[])(struct domain *) = { op_create, op_create, op_claim, op_start, op_start, op_start, op_execute, op_finish, op_cancel, op_steer, op_heartbeat,
	op_reports, op_reports, op_duty, op_duty, op_get };

/* What befalls the others. */
static void fate(void)
{
	static const char *const faults[] = { "{\"lose\":1}", "{\"lose\":2}", "{\"refuse\":1}", "{\"busy\":2}", "{\"deaf\":2}",
		"{\"slow_gone\":2}", "{\"late_ms\":3}", "{\"late_ms\":0}", "{\"forget\":true}" };
	uint32_t roll = dice(200);
	if (roll < 90)
		stand_control(&st, "/end", dice(2) ? "{\"any\":1,\"code\":0,\"stdout\":\"hi\"}" : "{\"any\":1,\"code\":9}");
	else if (roll < 120)
		stand_control(&st, "", faults[dice(UNIT_LEN(faults))]);
	else if (roll < 124)
		stand_control(&st, "/instance", dice(2) ? "{\"any\":1,\"state\":\"lost\"}" : "{\"any\":1,\"state\":\"failed\"}");
	else if (roll == 124) {
		stand_executor_kill(&st);
		if (dice(2))
			ops[dice(UNIT_LEN(ops))](D);
		stand_executor_start(&st);
	} else if (roll == 125)
		stand_pg(&st, "restart");
}

#ifdef PADDOCK_FAULTS
static const char *const points[] = { "create_before_row", "create_after_row", "claim_after_row", "finish_before_row", "finish_after_row", "steer_before_row", "steer_after_row",
	"cancel_after_row", "cancel_before_call", "start_before_row", "start_after_row", "start_before_call", "start_after_call", "execute_after_row", "ends_before_row", "ends_after_row", "reports_before_call",
	"cleanup_before_call", "cleanup_after_call", "cleanup_before_row", "cleanup_after_row" };

/* A process of its own does a few things and dies at a chosen point, if it comes there. */
static void mortal(void)
{
	char spec[64];
	snprintf(spec, sizeof spec, "%s=kill", points[dice(UNIT_LEN(points))]);
	uint32_t first[4];
	for (size_t i = 0; i < UNIT_LEN(first); i++)
		first[i] = dice(UNIT_LEN(ops));
	pid_t pid = fork();
	if (pid == 0) {
		setenv("PADDOCK_FAULT", spec, 1);
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		struct domain *d = stand_domain(&st);
		for (size_t i = 0; i < UNIT_LEN(first); i++)
			ops[first[i]](d);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
}
#else
static void mortal(void)
{
	op_get(D);
}
#endif

/* All is well again: every Run is cancelled, and the janitor comes to rest. */
static void calm(void)
{
	struct duties_clock clk = { 0 };
	stand_control(&st, "", "{\"lose\":0,\"refuse\":0,\"busy\":0,\"deaf\":0,\"slow_gone\":0,\"late_ms\":0}");
	nap(1100);
	/* Also those that a killed worker has made, which nobody here knows of. */
	free(stand_sql(&st, "UPDATE runs SET deadline_at = now(), started_at = coalesce(started_at, now()) WHERE ended_at IS NULL"));
	for (int i = 0; i < 200; i++) {
		duties_step(D, &clk);
		if (i > 3 && stand_count(&st, "SELECT count(*) FROM runs WHERE ended_at IS NULL OR cleanup_pending") == 0)
			break;
	}
	err_t *e = NULL;
	assert_true(orphans_instances(D, &e) >= 0);
	for (int i = 0; i < 20 && reports_take(D, 0, &e) > 0; i++)
		;
	forgive(e);
}

static void check_commands(const json_t *mine)
{
	const json_t *commands = NULL;
	assert_int_equal(json_get_obj(mine, "commands", true, &commands, NULL), 0);
	json_object_object_foreach((json_t *)commands, id, c) {
		const json_t *view = NULL;
		const char *reason = NULL;
		char sql[256];
		assert_int_equal(json_get_obj(c, "view", true, &view, NULL), 0);
		assert_int_equal(json_get_str(view, "reason", true, &reason, NULL), 0);
		snprintf(sql, sizeof sql, "SELECT reason FROM sandbox_commands WHERE id = '%s'", id);
		char *row = stand_sql(&st, sql);
		if (!str_eq(row, reason))
			fail_msg("command %s: the executor says %s, the row says %s", id, reason, row);
		free(row);
	}
}

static void check_instances(const json_t *mine)
{
	const json_t *instances = NULL;
	assert_int_equal(json_get_obj(mine, "instances", true, &instances, NULL), 0);
	json_object_object_foreach((json_t *)instances, id, i) {
		const char *state = NULL;
		assert_int_equal(json_get_str(i, "state", true, &state, NULL), 0);
		if (!str_eq(state, "gone"))
			fail_msg("instance %s is left %s", id, state);
	}
}

#define ROWS(WHICH) "(SELECT count(*) FROM audit a WHERE a.object = r.id::text AND " WHICH ")"

/* What moved a Run is on record, once. */
static void check_audit(void)
{
	static const char *const wrong[] = {
		ROWS("action = 'run.create'") " <> 1",
		ROWS("action = 'run.claim'") " <> (SELECT count(*) FROM run_attempts t WHERE t.run_id = r.id AND t.worker_id IS NOT NULL)",
		ROWS("action NOT IN ('run.create', 'run.claim', 'run.cleanup') AND result NOT IN ('pending', 'requested')") " <> 1",
		/* A Run that ends while an attempt of it is being cleaned up has one clean-up for both. */
		ROWS("action = 'run.cleanup' AND result = 'ok'") " NOT BETWEEN 1 AND 1 + " ROWS("result = 'pending'"),
	};
	char sql[512];
	for (size_t i = 0; i < UNIT_LEN(wrong); i++) {
		assert_int_equal(str_fmt(sql, sizeof sql, "SELECT count(*) FROM runs r WHERE NOT oneshot AND %s", wrong[i]), 0);
		if (stand_count(&st, sql) != 0)
			fail_msg("%s", sql);
	}
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM audit WHERE actor_id IS NULL AND actor IS NULL"), 0);
}

static void check(void)
{
	json_t *mine = stand_state(&st);
	const json_t *violations = NULL;
	assert_int_equal(json_get_arr(mine, "violations", true, &violations, NULL), 0);
	if (json_object_array_length(violations))
		fail_msg("%s", json_text((json_t *)violations, NULL));
	check_instances(mine);
	check_commands(mine);
	json_object_put(mine);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs WHERE ended_at IS NULL OR cleanup_pending"), 0);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM instances"), 0);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM sandbox_commands WHERE ended_at IS NULL"), 0);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM run_attempts WHERE ended_at IS NULL"), 0);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs WHERE attempt > max_attempts"), 0);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs r WHERE (status = 'yielded') <> (successor_id IS NOT NULL) "
		"OR (SELECT count(*) FROM runs p WHERE p.successor_id = r.id) > 1"), 0);
	check_audit();
}

static void test_walk(void **state)
{
	(void)state;
	for (int64_t i = 0; i < steps; i++) {
		ops[dice(UNIT_LEN(ops))](D);
		if (dice(2))
			fate();
		if (dice(12) == 0)
			mortal();
	}
	calm();
	check();
	fprintf(stderr, "# runs %ld, commands %ld, attempts %ld\n", stand_count(&st, "SELECT count(*) FROM runs"), stand_count(&st, "SELECT count(*) FROM sandbox_commands"),
		stand_count(&st, "SELECT count(*) FROM run_attempts"));
}

static const struct mutation {
	const char *name, *function, *from, *to;
} mutations[] = {
	{ "ledger_keeps_what_is_gone", "cleanup_confirm(uuid,uuid,uuid,bigint)", "DELETE FROM instances WHERE id = p_instance AND run_id = p_run RETURNING usage_ms INTO v_reported;", "" },
	{ "ends_are_not_taken", "commands_record(json,bytea[],bytea[])", "x.status IN (''exited'', ''lost'')", "x.status = ''lost''" },
	{ "end_without_its_attempt", "run_end(uuid,text,text,text)", "AND attempt = r.attempt AND ended_at IS NULL", "AND false" },
	{ "end_without_clean_up", "run_end(uuid,text,text,text)", "cleanup_pending = true, cleanup_next_at = v_now,", "" },
};

/* Replaces a piece of a rule's text in the database, as if somebody had written it so. */
static void mutate(const char *name)
{
	char sql[1024];
	for (size_t i = 0; i < UNIT_LEN(mutations); i++) {
		const struct mutation *m = &mutations[i];
		if (!str_eq(m->name, name))
			continue;
		assert_int_equal(str_fmt(sql, sizeof sql, "SELECT count(*) FROM pg_get_functiondef('%s'::regprocedure) f WHERE strpos(f, '%s') > 0", m->function, m->from), 0);
		assert_int_equal(stand_count(&st, sql), 1);
		assert_int_equal(str_fmt(sql, sizeof sql, "DO $m$ BEGIN EXECUTE replace(pg_get_functiondef('%s'::regprocedure), '%s', '%s'); END $m$", m->function, m->from, m->to), 0);
		free(stand_sql(&st, sql));
		return;
	}
	fail_msg("there is no mutation %s", name);
}

static int up(void **state)
{
	const char *name = getenv("PADDOCK_MODEL_MUTATION");
	(void)state;
	stand_up(&st);
	if (name)
		mutate(name);
	return 0;
}

static int down(void **state)
{
	(void)state;
	stand_down(&st);
	return 0;
}

int main(void)
{
	const char *seed = getenv("PADDOCK_MODEL_SEED"), *n = getenv("PADDOCK_MODEL_STEPS");
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_walk) };

	if (seed && num_u64(seed, UINT64_MAX, &rng) < 0)
		return 2;
	if (n && num_i64(n, 1, 1000000, &steps) < 0)
		return 2;
	fprintf(stderr, "# PADDOCK_MODEL_SEED=%llu PADDOCK_MODEL_STEPS=%lld\n", (unsigned long long)rng, (long long)steps);
	for (int i = 0; i < 20; i++)
		(void)dice(2);
	return cmocka_run_group_tests_name("domain_model", tests, up, down);
}
