/* provider_commands.c - the suite's tests of commands, kills, scopes and file operations. */
#include "provider_words.h"

#include <errno.h>
#include <signal.h>

#include "base/cleanup.h"
#include "base/str.h"

/* --- commands --- */

static void ends_and_streams(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];

	make(b, iid, "w");
	assert_string_equal(run(b, iid, iid, "echo out; echo err >&2; exit 3", 3), "out\n");
	begin_in(b, iid, iid, cid, "printf 'a\\nb'; echo err >&2; exit 255");
	(void)pgid_of(b, iid, cid);
	assert_int_equal(end_of(b, iid, cid).code, 255);
	assert_string_equal(bench_text(b, cid, 0), "a\nb");
	assert_string_equal(bench_text(b, cid, 1), "err\n");
	begin_in(b, iid, iid, cid, "kill -TERM $$; sleep 60");
	struct exec_exited x = end_of(b, iid, cid);
	assert_int_equal(x.end, EXEC_SIGNALED);
	assert_int_equal(x.code, SIGTERM);
	assert_int_equal(x.why, EXEC_WHY_NONE);
}

static void many_bytes(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];

	make(b, iid, "w");
	begin_in(b, iid, iid, cid, "head -c 1000000 /dev/zero; echo end");
	assert_int_equal(end_of(b, iid, cid).code, 0);
	assert_string_equal(bench_text(b, cid, 0) + 1000000, "end\n");
	assert_int_equal(bench_output(b, cid)->s[0].bytes.len, 1000004);
}

static void standard_input(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];
	size_t n = 300000;
	cleanup_free char *data = malloc(n);

	make(b, iid, "w");
	for (size_t i = 0; i < n; i++)
		data[i] = (char)(i * 7 + i / 256);
	id_v4(cid);
	struct exec_spec s = bench_exec_spec(cid, iid);
	s.stdin_open = true;
	assert_int_equal(bench_exec(b, iid, &s, "cat; exit 4", NULL), 0);
	(void)pgid_of(b, iid, cid);
	feed(b, iid, cid, data, n);
	assert_int_equal(end_of(b, iid, cid).code, 4);
	(void)bench_text(b, cid, 0);
	assert_int_equal(bench_output(b, cid)->s[0].bytes.len, n);
	assert_memory_equal(bench_output(b, cid)->s[0].bytes.data, data, n);
	assert_string_equal(run(b, iid, iid, "cat; echo empty", 0), "empty\n");   /* not open: /dev/null */
}

/* Bytes that it had are not given twice, those that it had not are asked for. */
static void standard_input_after_a_restart(void **state)
{
	static const char data[] = "before the restart, and after it";
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];
	size_t n = sizeof(data) - 1, half = 18;

	make(b, iid, "w");
	id_v4(cid);
	struct exec_spec s = bench_exec_spec(cid, iid);
	s.stdin_open = true;
	assert_int_equal(bench_exec(b, iid, &s, "cat; exit 2", NULL), 0);
	(void)pgid_of(b, iid, cid);
	assert_int_equal(call(b, exec_stdin, iid, cid, 0, data, half, false, NULL), 0);
	while (strlen(bench_text(b, cid, 0)) < half)
		bench_turn(b, 10);
	restart(b);
	adopt(b, iid, INSTANCE_WAS_READY);
	assert_int_equal(told(b, iid, MADE), INSTANCE_READY);
	struct event *e = bench_take(b, TOLD_STARTED, iid, cid);
	assert_non_null(e);
	uint64_t from = e->started.stdin_taken;
	assert_in_range(from, 0, half);
	e = bench_take(b, TOLD_STDIN, iid, cid);
	assert_non_null(e);
	assert_true(e->window >= n);
	assert_int_equal(call(b, exec_stdin, iid, cid, from, data + from, n - from, true, NULL), 0);
	assert_int_equal(end_of(b, iid, cid).code, 2);
	assert_string_equal(bench_text(b, cid, 0), data);
}

static void many_at_once(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cids[20][ID_SIZE], text[64];

	make(b, iid, "w");
	for (unsigned i = 0; i < UNIT_LEN(cids); i++) {
		str_fmt(text, sizeof(text), "echo %u; sleep 0.3; exit %u", i, i);
		begin_in(b, iid, iid, cids[i], text);
	}
	for (unsigned i = UNIT_LEN(cids); i-- > 0;) {
		str_fmt(text, sizeof(text), "%u\n", i);
		assert_int_equal(end_of(b, iid, cids[i]).code, i);
		assert_string_equal(bench_text(b, cids[i], 0), text);
		ack(b, iid, cids[i]);
	}
}

static void time_outs(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];

	make(b, iid, "w");
	id_v4(cid);
	struct exec_spec s = bench_exec_spec(cid, iid);
	s.timeout_ms = 200;
	assert_int_equal(bench_exec(b, iid, &s, "echo begun; sleep 60", NULL), 0);
	struct exec_exited x = end_of(b, iid, cid);
	assert_int_equal(x.end, EXEC_SIGNALED);
	assert_int_equal(x.why, EXEC_WHY_TIMEOUT);
	assert_string_equal(bench_text(b, cid, 0), "begun\n");
}

static void what_cannot_start_says_why(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];
	char *argv[] = { "no-such-program-here", NULL };

	make(b, iid, "w");
	id_v4(cid);
	struct exec_spec s = bench_exec_spec(cid, iid);
	s.argv = argv;
	assert_int_equal(call(b, exec, iid, &s, NULL), 0);
	struct exec_exited x = end_of(b, iid, cid);
	assert_int_equal(x.end, EXEC_NOT_STARTED);
	assert_int_equal(x.error, ENOENT);
	assert_string_equal(x.stage, "exec");
	assert_int_equal(bench_count(b, TOLD_STARTED, iid, cid), 0);
	id_v4(cid);
	s = bench_exec_spec(cid, iid);
	s.cwd = BENCH_HOME "/none/such";
	assert_int_equal(bench_exec(b, iid, &s, "true", NULL), 0);
	x = end_of(b, iid, cid);
	assert_int_equal(x.end, EXEC_NOT_STARTED);
	assert_string_equal(x.stage, "cwd");
	id_v4(cid);
	s = bench_exec_spec(cid, iid);
	s.cwd = BENCH_HOME "/run of it/1";
	s.make_cwd = true;
	assert_string_equal(run_spec(b, iid, &s, "pwd", 0), BENCH_HOME "/run of it/1\n");
}

static void has_line(const char *text, const char *line, bool is_there)
{
	cleanup_free char *all = str_dupf("\n%s", text), *one = str_dupf("\n%s\n", line);

	if ((strstr(all, one) != NULL) != is_there)
		fail_msg("\"%s\" is %s in:\n%s", line, is_there ? "not" : "there", text);
}

static void environments(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];
	char *env[] = { "MINE=a b'c", "HOME=/tmp", NULL };
	char *argv[] = { "env", NULL };

	make(b, iid, "w");
	id_v4(cid);
	struct exec_spec s = bench_exec_spec(cid, iid);
	s.env = env;
	s.argv = argv;
	const char *all = run_spec(b, iid, &s, NULL, 0);
	has_line(all, "MINE=a b'c", true);
	has_line(all, "USER=user", true);
	has_line(all, "LANG=C.UTF-8", true);
	assert_string_equal(run(b, iid, iid, "printenv MINE", 1), "");
}

/* What one command leaves in $PADDOCK_ENV reaches the later ones of its scope, and nobody else. */
static void what_a_scope_exports(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], scope[ID_SIZE], other[ID_SIZE], cid[ID_SIZE];
	char *argv[] = { "env", NULL };

	make(b, iid, "w");
	id_v4(scope);
	id_v4(other);
	run(b, iid, scope, "share FROM_BEFORE=1", 0);
	assert_string_equal(run(b, iid, scope, "printenv FROM_BEFORE", 0), "1\n");
	assert_string_equal(run(b, iid, other, "printenv FROM_BEFORE", 1), "");
	id_v4(cid);
	struct exec_spec s = bench_exec_spec(cid, scope);
	s.kind = EXEC_FILE;
	s.argv = argv;
	const char *all = run_spec(b, iid, &s, NULL, 0);
	has_line(all, "FROM_BEFORE=1", false);
	has_line(all, "USER=user", true);
	assert_null(strstr(all, "PADDOCK_ENV"));
}

static void the_same_command_starts_once(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];

	make(b, iid, "w");
	id_v4(cid);
	struct exec_spec s = bench_exec_spec(cid, iid);
	assert_int_equal(bench_exec(b, iid, &s, "echo x; sleep 0.5; exit 6", NULL), 0);
	(void)pgid_of(b, iid, cid);
	assert_int_equal(bench_exec(b, iid, &s, "echo x; sleep 0.5; exit 6", NULL), 0);
	assert_int_equal(end_of(b, iid, cid).code, 6);
	assert_string_equal(bench_text(b, cid, 0), "x\n");
}

/* --- kills --- */

static void a_kill_takes_the_whole_tree(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];

	make(b, iid, "w");
	begin_in(b, iid, iid, cid, "bg 987.25; trap '' TERM; echo up; sleep 60");
	const struct exec_ref x = { cid, pgid_of(b, iid, cid) };
	while (!strstr(bench_text(b, cid, 0), "up\n"))
		bench_turn(b, 10);
	assert_string_equal(run(b, iid, iid, "alive 987.25", 0), "yes\n");
	assert_int_equal(call(b, exec_kill, iid, &x, NULL), 0);
	struct exec_exited e = end_of(b, iid, cid);
	assert_int_equal(e.end, EXEC_SIGNALED);
	assert_int_equal(e.why, EXEC_WHY_KILLED);
	assert_string_equal(run(b, iid, iid, "alive 987.25", 0), "no\n");
	(void)call(b, exec_kill, iid, &x, NULL);   /* of one that has ended */
	run(b, iid, iid, "true", 0);
}

static void signals_go_to_the_group(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];

	make(b, iid, "w");
	begin_in(b, iid, iid, cid, "sleep 60");
	struct exec_ref x = { cid, pgid_of(b, iid, cid) };
	assert_int_equal(call(b, exec_signal, iid, &x, SIGCONT, NULL), 0);
	x.pgid++;
	(void)call(b, exec_signal, iid, &x, SIGTERM, NULL);   /* of another group: touches nothing */
	bench_turn(b, BENCH_QUIET_MS);
	assert_null(bench_peek(b, TOLD_EXITED, iid, cid));
	x.pgid--;
	assert_int_equal(call(b, exec_signal, iid, &x, SIGHUP, NULL), 0);
	struct exec_exited e = end_of(b, iid, cid);
	assert_int_equal(e.end, EXEC_SIGNALED);
	assert_int_equal(e.code, SIGHUP);
	assert_int_equal(e.why, EXEC_WHY_NONE);
}

static void a_wrong_name_touches_nothing(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], other[ID_SIZE], cid[ID_SIZE], stranger[ID_SIZE];

	make(b, iid, "w");
	make(b, other, "x");
	id_v4(stranger);
	begin_in(b, iid, iid, cid, "sleep 0.8; exit 9");
	int32_t pgid = pgid_of(b, iid, cid);
	const struct exec_ref right = { cid, pgid }, group = { cid, pgid + 1 }, none = { stranger, pgid };
	(void)call(b, exec_kill, other, &right, NULL);
	(void)call(b, exec_signal, other, &right, SIGKILL, NULL);
	(void)call(b, exec_kill, iid, &group, NULL);
	(void)call(b, exec_kill, iid, &none, NULL);
	(void)call(b, exec_signal, iid, &none, SIGKILL, NULL);
	end_scope(b, other, iid);
	struct exec_exited x = end_of(b, iid, cid);
	assert_int_equal(x.end, EXEC_EXITED);
	assert_int_equal(x.code, 9);
}

static void the_end_of_a_scope(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], scope[ID_SIZE], other[ID_SIZE], cid[ID_SIZE], stays[ID_SIZE];

	make(b, iid, "w");
	id_v4(scope);
	id_v4(other);
	run(b, iid, scope, "bg 986.25", 0);
	run(b, iid, other, "bg 986.75", 0);
	begin_in(b, iid, scope, cid, "trap '' TERM; sleep 60");
	(void)pgid_of(b, iid, cid);
	begin_in(b, iid, other, stays, "sleep 1; exit 8");
	(void)pgid_of(b, iid, stays);
	assert_string_equal(run(b, iid, other, "alive 986.25", 0), "yes\n");
	end_scope(b, iid, scope);
	assert_int_equal(end_of(b, iid, cid).end, EXEC_SIGNALED);
	assert_string_equal(run(b, iid, other, "alive 986.25", 0), "no\n");
	assert_string_equal(run(b, iid, other, "alive 986.75", 0), "yes\n");
	starts_nothing(b, iid, scope);
	end_scope(b, iid, scope);
	starts_nothing(b, iid, scope);
	assert_int_equal(end_of(b, iid, stays).code, 8);
	id_v4(scope);
	end_scope(b, iid, scope);      /* of which nobody has heard */
	starts_nothing(b, iid, scope);
	run(b, iid, other, "true", 0);
}

/* Ended before the restart, ended after it. */
static void an_ended_scope_stays_ended(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], scope[ID_SIZE], other[ID_SIZE];

	make(b, iid, "w");
	id_v4(scope);
	id_v4(other);
	run(b, iid, other, "bg 985.5", 0);
	end_scope(b, iid, scope);
	restart(b);
	adopt(b, iid, INSTANCE_WAS_READY);
	assert_int_equal(told(b, iid, MADE), INSTANCE_READY);
	starts_nothing(b, iid, scope);
	end_scope(b, iid, other);
	assert_string_equal(run(b, iid, iid, "alive 985.5", 0), "no\n");
}

/* --- files --- */

static void files_byte_for_byte(void **state)
{
	static char odd[] = "two\nlines and \xff\xfe, no UTF-8", moved[] = "-rf";
	static const char data[] = "a\0b\r\n\xff end";
	struct bench *b = *state;
	char iid[ID_SIZE];
	char *cat[] = { "cat", "--", odd, NULL }, *stat[] = { "stat", "-c", "%s", "--", odd, NULL }, *ls[] = { "ls", "-A", "--zero", NULL };
	char *mv[] = { "mv", "-T", "--", odd, moved, NULL }, *rm[] = { "rm", "--", moved, NULL };
	size_t n;

	make(b, iid, "w");
	write_file(b, iid, FILES, odd, "old and longer than the new one", 31);
	write_file(b, iid, FILES, odd, data, sizeof(data));
	const char *text = file_op(b, iid, FILES, cat, 0, &n);
	assert_int_equal(n, sizeof(data));
	assert_memory_equal(text, data, sizeof(data));
	assert_string_equal(file_op(b, iid, FILES, stat, 0, &n), "11\n");
	text = file_op(b, iid, FILES, ls, 0, &n);
	assert_int_equal(n, sizeof(odd));
	assert_memory_equal(text, odd, sizeof(odd));
	file_op(b, iid, FILES, mv, 0, &n);
	text = file_op(b, iid, FILES, ls, 0, &n);
	assert_int_equal(n, sizeof(moved));
	assert_memory_equal(text, moved, sizeof(moved));
	file_op(b, iid, FILES, rm, 0, &n);
	file_op(b, iid, FILES, ls, 0, &n);
	assert_int_equal(n, 0);
}

/* What replaces an instance finds the workspace and an empty home. */
static void a_workspace_outlives_its_instance(void **state)
{
	static char name[] = "kept over", dir[] = BENCH_HOME "/workspace/suite";
	struct bench *b = *state;
	char iid[ID_SIZE];
	char *cat[] = { "cat", "--", name, NULL }, *rm[] = { "rm", "--", name, NULL };
	size_t n;

	make(b, iid, "w");
	write_file(b, iid, dir, name, "work", 4);
	write_file(b, iid, FILES, name, "home", 4);
	destroy(b, iid);
	make(b, iid, "w");
	assert_string_equal(file_op(b, iid, dir, cat, 0, &n), "work");
	file_op(b, iid, FILES, cat, 1, &n);
	assert_int_equal(n, 0);
	file_op(b, iid, dir, rm, 0, &n);
}

const struct CMUnitTest command_tests[] = {
	cmocka_unit_test(ends_and_streams),
	cmocka_unit_test(many_bytes),
	cmocka_unit_test(standard_input),
	cmocka_unit_test(standard_input_after_a_restart),
	cmocka_unit_test(many_at_once),
	cmocka_unit_test(time_outs),
	cmocka_unit_test(what_cannot_start_says_why),
	cmocka_unit_test(environments),
	cmocka_unit_test(what_a_scope_exports),
	cmocka_unit_test(the_same_command_starts_once),
	cmocka_unit_test(a_kill_takes_the_whole_tree),
	cmocka_unit_test(signals_go_to_the_group),
	cmocka_unit_test(a_wrong_name_touches_nothing),
	cmocka_unit_test(the_end_of_a_scope),
	cmocka_unit_test(an_ended_scope_stays_ended),
	cmocka_unit_test(files_byte_for_byte),
};
const size_t command_tests_n = UNIT_LEN(command_tests);

const struct CMUnitTest mount_tests[] = { cmocka_unit_test(a_workspace_outlives_its_instance) };
const size_t mount_tests_n = UNIT_LEN(mount_tests);
