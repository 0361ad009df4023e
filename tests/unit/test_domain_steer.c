/* Steer and redelivery (R2.1 to R2.4): an input is delivered, and once an attempt; nothing of a Thread begins before what was there is cleaned up. */
#include "domain_kit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "domain/steer.h"

/* A process of its own, with its own connections. What fails in it ends it, and nothing of it outlives the test: it must never go on as the test's twin. */
static pid_t child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(100);
		return 0;
	}
	assert_true(pid > 0);
	return pid;
}

static json_t *parse(const char *text)
{
	json_t *o = json_parse(text, strlen(text), 1000, 5, NULL);
	assert_non_null(o);
	return o;
}

/* The word of a refusal, or NULL and the successor's id. */
static int steer(struct domain *d, const char *run, const char *input, const char *key, char successor[ID_SIZE], err_t **err)
{
	json_t *in = parse(input), *o = NULL;
	const json_t *s = NULL;
	struct steer w = { .input = in, .idempotency = { .key = key, .body = input, .body_len = strlen(input) } };
	int rc = steer_run(d, C, run, &w, &o, err);
	if (rc == 0) {
		assert_int_equal(json_get_obj(o, "successor", true, &s, NULL), 0);
		str_copy(successor, ID_SIZE, str_of(s, "id"));
	}
	json_object_put(o);
	json_object_put(in);
	return rc;
}

/* The claimed Run's input as text, "" when there is nothing. */
static void claim(struct domain *d, const char *thread, struct made *ret, char input[64])
{
	json_t *run = NULL, *in = NULL;
	input[0] = 0;
	assert_ok(runs_claim(d, C, &(struct run_claim){ .worker_id = "w", .lease_ms = 60000 }, thread, &run, ret->token, err));
	if (!run)
		return;
	str_copy(ret->id, ID_SIZE, str_of(run, "id"));
	assert_true(json_object_object_get_ex(run, "input", &in));
	str_copy(input, 64, in ? json_text(in, NULL) : "null");
	json_object_put(run);
}

#define count(FMT, ARG) ({ \
	char sql_[512]; \
	assert_int_equal(str_fmt(sql_, sizeof sql_, FMT, ARG), 0); \
	stand_count(&st, sql_); \
})

static void test_steer(void **state)
{
	(void)state;
	struct run_claim cl = { .worker_id = "w1" };
	struct made m, next;
	char input[64];
	json_t *o = NULL, *meta = parse("{\"k\":\"v\"}"), *in = parse("{\"say\":\"a\\u0000b\"}");
	const json_t *run = NULL, *successor = NULL;
	int64_t ms = 0;
	assert_ok(runs_create(D, C, &(struct run_new){ .thread_id = "steer", .claim = &cl, .metadata = meta, .workdir = "~/workspace/p", .has_timeout = true, .timeout_ms = 70000 },
		&o, m.token, err));
	str_copy(m.id, sizeof m.id, str_of(o, "id"));
	json_object_put(o);
	struct command_started s = start(&m, m.token);
	assert_ok(steer_run(D, C, m.id, &(struct steer){ .input = in }, &o, err));
	assert_int_equal(json_get_obj(o, "run", true, &run, NULL), 0);
	assert_int_equal(json_get_obj(o, "successor", true, &successor, NULL), 0);
	assert_string_equal(str_of(run, "id"), m.id);
	assert_string_equal(str_of(run, "status"), "yielded");
	assert_string_equal(str_of(run, "successor_id"), str_of(successor, "id"));
	assert_string_equal(str_of(successor, "status"), "pending");
	assert_string_equal(str_of(successor, "thread_id"), "steer");
	assert_string_equal(str_of(successor, "workdir"), "/home/user/workspace/p");
	assert_int_equal(json_get_i64(successor, "timeout_ms", true, 0, INT64_MAX, &ms, NULL), 0);
	assert_int_equal(ms, 70000);
	const json_t *kept = NULL;
	assert_int_equal(json_get_obj(successor, "metadata", true, &kept, NULL), 0);
	assert_string_equal(str_of(kept, "k"), "v");
	json_object_put(o);
	/* The lease is lost, the command dies, the attempt says why it ended. */
	assert_fails(runs_heartbeat(D, C, m.id, m.token, 0, &o, err), "run_ended");
	assert_fails(commands_start(D, C, m.id, &(struct command_new){ .command = "x", .lease_token = m.token }, &s, err), "run_ended");
	settle();
	assert_ok(commands_get(D, C, s.id, &o, err));
	assert_string_equal(str_of(o, "reason"), "cancelled");
	json_object_put(o);
	assert_int_equal(count("SELECT count(*) FROM run_attempts WHERE run_id = '%s' AND end_reason = 'yielded'", m.id), 1);
	claim(D, "steer", &next, input);
	assert_string_equal(input, "{\"say\":\"a\\u0000b\"}");
	claim(D, "steer", &m, input);
	assert_string_equal(input, "");
	json_object_put(meta);
	json_object_put(in);
}

static void test_refusals(void **state)
{
	(void)state;
	char next[ID_SIZE];
	json_t *o = NULL, *in = parse("1");
	struct command_started s;
	struct made waiting = make_run("refused1", false, 0), busy = make_run("refused2", true, 0), done = make_run("refused3", true, 0);
	struct caller bob = st.caller;
	str_copy(bob.user_id, sizeof bob.user_id, "01900000-0000-7000-8000-000000000000");
	long before = stand_count(&st, "SELECT count(*) FROM runs");
	assert_fails(steer_run(D, &bob, busy.id, &(struct steer){ .input = in }, &o, err), "not_found");
	assert_fails(steer(D, "x", "1", NULL, next, err), "not_found");
	assert_fails(steer_run(D, C, busy.id, &(struct steer){ 0 }, &o, err), "bad_field");
	assert_fails(steer(D, waiting.id, "1", NULL, next, err), "not_running");
	assert_fails(steer(D, busy.id, "1", "", next, err), "bad_idempotency_key");
	start(&busy, busy.token);
	assert_ok(runs_cancel(D, C, busy.id, &o, err));
	json_object_put(o);
	assert_fails(steer(D, busy.id, "1", NULL, next, err), "run_ended");
	assert_ok(runs_finish(D, C, done.id, &(struct run_finish){ .lease_token = done.token, .status = "completed" }, &o, err));
	json_object_put(o);
	assert_fails(steer(D, done.id, "1", NULL, next, err), "run_ended");
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs"), before);
	assert_ok(execute_start(D, C, &(struct command_new){ .command = "x", .view = COMMAND_VIEW_RESULT }, &s, err));
	assert_fails(steer(D, s.run_id, "1", NULL, next, err), "not_steerable");
	assert_ok(runs_cancel(D, C, s.run_id, &o, err));
	json_object_put(o);
	/* Who comes second learns where it goes on. */
	struct made m = make_run("refused4", true, 0);
	assert_ok(steer(D, m.id, "1", NULL, next, err));
	err_t *e = NULL;
	assert_true(steer(D, m.id, "2", NULL, next, &e) < 0);
	assert_string_equal(err_detail(e), "run_ended");
	assert_non_null(strstr(err_message(e), next));
	err_free(e);
	settle();
	json_object_put(in);
}

static void test_idempotency(void **state)
{
	(void)state;
	char a[ID_SIZE], b[ID_SIZE];
	struct made m = make_run("steer-key", true, 0), other = make_run("steer-key2", true, 0);
	assert_ok(steer(D, m.id, "\"a\\u0000b\"", "k1", a, err));
	settle();
	json_t *in = parse("\"a\\u0000b\""), *o = NULL, *got = NULL;
	const json_t *run = NULL, *s = NULL;
	struct steer again = { .input = in, .idempotency = { .key = "k1", .body = "\"a\\u0000b\"", .body_len = 10 } };
	assert_ok(steer_run(D, C, m.id, &again, &o, err));
	assert_int_equal(json_get_obj(o, "run", true, &run, NULL), 0);
	assert_int_equal(json_get_obj(o, "successor", true, &s, NULL), 0);
	assert_string_equal(str_of(s, "id"), a);
	assert_string_equal(str_of(run, "status"), "yielded");
	assert_string_equal(str_of(run, "successor_id"), a);
	assert_true(json_object_object_get_ex(s, "input", &got));
	assert_string_equal(json_text(got, NULL), "\"a\\u0000b\"");
	json_object_put(o);
	json_object_put(in);
	assert_fails(steer(D, m.id, "2", "k1", b, err), "idempotency_mismatch");
	assert_fails(steer(D, other.id, "\"a\\u0000b\"", "k1", b, err), "idempotency_mismatch");
	assert_int_equal(count("SELECT count(*) FROM runs WHERE thread_id = '%s'", "steer-key"), 2);
	assert_status(other.id, "running");
}

/* While the old environment is not confirmed gone, nothing of the Thread begins, whoever asks in whatever way; what has its sandbox goes on. */
static void test_fence(void **state)
{
	(void)state;
	char next[ID_SIZE], input[64];
	struct command_started s;
	struct made m = make_run("steer-fence", true, 0), at_work = make_run("steer-fence", true, 0), idle = make_run("steer-fence", true, 0), none,
		pending = make_run("steer-fence", false, 0), elsewhere = make_run("steer-fence2", false, 0);
	start(&m, m.token);
	start(&at_work, at_work.token);
	stand_control(&st, "", "{\"busy\":1000000}");
	assert_ok(steer(D, m.id, "\"go\"", NULL, next, err));
	stand_control(&st, "", "{\"busy\":0,\"slow_gone\":1000000}");
	for (int i = 0; i < 3; i++) {
		(void)cleanup_run(D, m.id, NULL);
		claim(D, "steer-fence", &none, input);
		assert_string_equal(input, "");
		struct made created = make_run("steer-fence", true, 0);
		assert_string_equal(created.token, "");
		assert_status(created.id, "pending");
		assert_fails(commands_start(D, C, next, &(struct command_new){ .command = "x" }, &s, err), "cleanup_pending");
		assert_fails(commands_start(D, C, pending.id, &(struct command_new){ .command = "x" }, &s, err), "cleanup_pending");
		assert_fails(commands_start(D, C, idle.id, &(struct command_new){ .command = "x", .lease_token = idle.token }, &s, err), "cleanup_pending");
		start(&at_work, at_work.token);
		if (i == 1)
			stand_pg(&st, "restart");
		if (i == 1)
			usleep(1100000);
	}
	start(&elsewhere, NULL);
	char *iid = stand_sql(&st, "SELECT instance_id FROM runs WHERE thread_id = 'steer-fence' AND cleanup_pending");
	char gone[128];
	snprintf(gone, sizeof gone, "{\"id\":\"%s\",\"state\":\"gone\"}", iid);
	free(iid);
	stand_control(&st, "", "{\"slow_gone\":0}");
	stand_control(&st, "/instance", gone);
	settle();
	start(&idle, idle.token);
	long left = count("SELECT count(*) FROM runs WHERE thread_id = '%s' AND status = 'pending'", "steer-fence"), got = 0, gos = 0;
	for (claim(D, "steer-fence", &none, input); input[0]; claim(D, "steer-fence", &none, input)) {
		got++;
		gos += str_eq(input, "\"go\"");
	}
	assert_int_equal(got, left);
	assert_int_equal(gos, 1);
	free(stand_sql(&st, "UPDATE runs SET deadline_at = now() WHERE thread_id LIKE 'steer-fence%' AND ended_at IS NULL"));
	settle();
}

/* --- many at once --- */

#define RIVALS 6
#define ROUNDS 12

struct said {
	char what;               /* 's' steered, 'c' claimed */
	char input[32];
};

static void say(int fd, char what, const char *input)
{
	struct said s = { .what = what };
	str_copy(s.input, sizeof s.input, input);
	if (write(fd, &s, sizeof s) != (ssize_t)sizeof s)
		_exit(2);
}

/* Takes what is offered in the Thread and steers what runs in it. */
static void rival(int fd, int me)
{
	struct domain *d = stand_domain(&st);
	for (int i = 0; i < ROUNDS;) {
		struct made m;
		char input[64], mine[32], next[ID_SIZE];
		claim(d, "rivals", &m, input);
		if (input[0])
			say(fd, 'c', input);
		char *run = stand_sql(&st, "SELECT id FROM runs WHERE thread_id = 'rivals' AND status = 'running' LIMIT 1");
		err_t *e = NULL;
		snprintf(mine, sizeof mine, "\"%d.%d\"", me, i);
		if (run[0] && steer(d, run, mine, NULL, next, &e) == 0) {
			say(fd, 's', mine);
			i++;
		} else if (e && !str_eq(err_detail(e), "run_ended") && !str_eq(err_detail(e), "not_running")) {
			_exit(3);
		}
		err_free(e);
		free(run);
		usleep(1000);
	}
	_exit(0);
}

static void sweep_for_ever(void)
{
	struct domain *d = stand_domain(&st);
	struct duties_clock clk = { 0 };
	for (;;)
		duties_step(d, &clk);
}

/* Every input that was taken is delivered, and none twice; two janitors help. */
static void test_rivals(void **state)
{
	(void)state;
	struct made m = make_run("rivals", true, 60000);
	int p[2];
	pid_t pids[RIVALS], janitors[2];
	for (int i = 0; i < 2; i++) {
		janitors[i] = child();
		if (janitors[i] == 0)
			sweep_for_ever();
	}
	/* Now, so that it ends with the rivals: the janitors do not hold it. */
	assert_int_equal(pipe(p), 0);
	for (int i = 0; i < RIVALS; i++) {
		pids[i] = child();
		if (pids[i] == 0)
			rival(p[1], i);
	}
	close(p[1]);
	static struct said all[2 * RIVALS * ROUNDS + 1];
	size_t n = 0, steered = 0;
	while (n < UNIT_LEN(all) && read(p[0], &all[n], sizeof *all) == (ssize_t)sizeof *all)
		n++;
	close(p[0]);
	for (int i = 0; i < RIVALS; i++) {
		int status;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < 2; i++) {
		kill(janitors[i], SIGKILL);
		assert_int_equal(waitpid(janitors[i], NULL, 0), janitors[i]);
	}
	settle();
	char last[64];
	claim(D, "rivals", &m, last);
	for (size_t i = 0; i < n; i++) {
		if (all[i].what != 's')
			continue;
		int times = str_eq(all[i].input, last);
		for (size_t k = 0; k < n; k++)
			times += all[k].what == 'c' && str_eq(all[k].input, all[i].input);
		assert_int_equal(times, 1);
		steered++;
	}
	assert_int_equal(steered, RIVALS * ROUNDS);
	assert_int_equal(count("SELECT count(*) FROM runs WHERE thread_id = '%s'", "rivals"), RIVALS * ROUNDS + 1);
	assert_int_equal(count("SELECT count(*) FROM runs WHERE thread_id = '%s' AND status <> 'yielded'", "rivals"), 1);
	json_t *run = NULL;
	assert_ok(runs_finish(D, C, m.id, &(struct run_finish){ .lease_token = m.token, .status = "completed" }, &run, err));
	json_object_put(run);
	settle();
}

/* With one key, and all at the same moment: one successor, and all are told of it. */
static void test_one_key(void **state)
{
	(void)state;
	struct made m = make_run("one-key", true, 60000);
	int go[2], p[2];
	char first[ID_SIZE] = "", got[ID_SIZE];
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(p), 0);
	for (int i = 0; i < RIVALS; i++) {
		if (child() != 0)
			continue;
		struct domain *d = stand_domain(&st);
		close(go[1]);
		if (domain_check(d, NULL) < 0 || read(go[0], got, 1) != 0 || steer(d, m.id, "7", "same", got, NULL) < 0 || write(p[1], got, sizeof got) != sizeof got)
			_exit(1);
		_exit(0);
	}
	close(go[0]);
	close(go[1]);
	close(p[1]);
	for (int i = 0; i < RIVALS; i++) {
		assert_int_equal(read(p[0], got, sizeof got), sizeof got);
		if (i == 0)
			str_copy(first, sizeof first, got);
		assert_string_equal(got, first);
	}
	close(p[0]);
	for (int i = 0; i < RIVALS; i++) {
		int status;
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(count("SELECT count(*) FROM runs WHERE thread_id = '%s'", "one-key"), 2);
	settle();
}

/* --- crashes --- */

#ifdef PADDOCK_FAULTS
static void restart_all(void)
{
	stand_executor_kill(&st);
	stand_pg(&st, "restart");
	stand_executor_start(&st);
	usleep(1100000);
	assert_ok(domain_check(D, err));
}

/* What a process of its own does until it dies at the point; false: it did not come there. */
static bool dies_at(const char *point, void (*what)(struct domain *d, const void *arg), const void *arg)
{
	char spec[64];
	int status;
	snprintf(spec, sizeof spec, "%s=kill", point);
	pid_t pid = child();
	if (pid == 0) {
		setenv("PADDOCK_FAULT", spec, 1);
		what(stand_domain(&st), arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void do_steer(struct domain *d, const void *run)
{
	char next[ID_SIZE];
	(void)steer(d, run, "\"again\"", "crash", next, NULL);
}

static void do_claim(struct domain *d, const void *thread)
{
	struct made m;
	char input[64];
	claim(d, thread, &m, input);
}

static void do_duties(struct domain *d, const void *arg)
{
	struct duties_clock clk = { 0 };
	(void)arg;
	for (int i = 0; i < 10; i++)
		duties_step(d, &clk);
}

static const char *const steer_points[] = { "steer_before_row", "steer_after_row", "cleanup_before_call", "cleanup_after_call",
	"cleanup_before_row", "cleanup_after_row" };

/* Whoever dies where: the request repeated with its key finds what was done, or does it; the input is delivered once. */
static void test_steer_crashes(void **state)
{
	(void)state;
	for (size_t i = 0; i < UNIT_LEN(steer_points); i++) {
		char thread[64], next[ID_SIZE], input[64];
		struct made m, got;
		snprintf(thread, sizeof thread, "crash-%s", steer_points[i]);
		free(stand_sql(&st, "DELETE FROM idempotency_keys WHERE key = 'crash'"));
		m = make_run(thread, true, 60000);
		start(&m, m.token);
		assert_true(dies_at(steer_points[i], do_steer, m.id));
		if (i % 3 == 1)
			restart_all();
		bool done = count("SELECT count(*) FROM runs WHERE thread_id = '%s' AND status = 'yielded'", thread) == 1;
		assert_int_equal(done, i > 0);
		assert_int_equal(count("SELECT count(*) FROM runs WHERE thread_id = '%s'", thread), done ? 2 : 1);
		/* Not before what was there is gone. */
		claim(D, thread, &got, input);
		assert_string_equal(input, str_eq(steer_points[i], "cleanup_after_row") ? "\"again\"" : "");
		assert_ok(steer(D, m.id, "\"again\"", "crash", next, err));
		assert_int_equal(count("SELECT count(*) FROM runs WHERE thread_id = '%s'", thread), 2);
		settle();
		if (!input[0])
			claim(D, thread, &got, input);
		assert_string_equal(input, "\"again\"");
		assert_string_equal(got.id, next);
		claim(D, thread, &got, input);
		assert_string_equal(input, "");
	}
}

/* One janitor after the other dies at the next step of what a lost attempt needs, all else is restarted in between; then the Run is offered again, once. */
static void redeliver(const char *thread, const char *input_wanted)
{
	static const char *const janitor_points[] = { "cleanup_before_call", "cleanup_after_call", "cleanup_before_row", "cleanup_after_row" };
	struct made got;
	char input[64];
	for (size_t i = 0; i < UNIT_LEN(janitor_points); i++) {
		/* A janitor that died keeps the duty for its time. */
		free(stand_sql(&st, "UPDATE runs SET cleanup_next_at = now() WHERE cleanup_pending"));
		assert_true(dies_at(janitor_points[i], do_duties, NULL));
		if (i == 1)
			restart_all();
		if (i < UNIT_LEN(janitor_points) - 1) {
			claim(D, thread, &got, input);
			assert_string_equal(input, "");
		}
	}
	restart_all();
	assert_true(dies_at("claim_before_row", do_claim, thread));
	claim(D, thread, &got, input);
	assert_string_equal(input, input_wanted);
	claim(D, thread, &got, input);
	assert_string_equal(input, "");
}

static void test_redelivery(void **state)
{
	(void)state;
	char next[ID_SIZE], end[128];
	settle();
	struct made lost = make_run("again-lease", true, 60000);
	start(&lost, lost.token);
	free(stand_sql(&st, "UPDATE runs SET lease_expires_at = now() - interval '1 s' WHERE thread_id = 'again-lease'"));
	redeliver("again-lease", "null");
	assert_int_equal(count("SELECT attempt FROM runs WHERE thread_id = '%s'", "again-lease"), 2);
	/* A claim whose answer nobody got: its lease expires, and the next attempt gets the input. */
	struct made m = make_run("again-yielded", true, 60000);
	start(&m, m.token);
	stand_executor_kill(&st);
	assert_ok(steer(D, m.id, "\"more\"", NULL, next, err));
	stand_executor_start(&st);
	redeliver("again-yielded", "\"more\"");
	free(stand_sql(&st, "UPDATE runs SET lease_expires_at = now() - interval '1 s' WHERE thread_id = 'again-yielded' AND lease_owner IS NOT NULL"));
	settle();
	assert_true(dies_at("claim_after_row", do_claim, "again-yielded"));
	assert_int_equal(count("SELECT attempt FROM runs WHERE thread_id = '%s' AND status = 'running'", "again-yielded"), 2);
	struct made box = make_run("again-lost", true, 60000);
	start(&box, box.token);
	char *iid = stand_sql(&st, "SELECT instance_id FROM runs WHERE thread_id = 'again-lost'");
	snprintf(end, sizeof end, "{\"id\":\"%s\",\"state\":\"lost\"}", iid);
	free(iid);
	stand_control(&st, "/instance", end);
	redeliver("again-lost", "null");
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steer), cmocka_unit_test(test_refusals), cmocka_unit_test(test_idempotency), cmocka_unit_test(test_fence),
		cmocka_unit_test(test_rivals), cmocka_unit_test(test_one_key),
#ifdef PADDOCK_FAULTS
		cmocka_unit_test(test_steer_crashes), cmocka_unit_test(test_redelivery),
#endif
	};

	return cmocka_run_group_tests_name("domain_steer", tests, up, down);
}
