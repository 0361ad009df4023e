#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "executor/steps.h"

#define IID "01900000-0000-7000-8000-000000000001"
#define CID "01900000-0000-7000-8000-000000000002"

static const char record[] = "{\"id\":\"x\",\"command\":\"echo \\n\"}";

static int scratch(void)
{
	char path[] = "/tmp/paddock-unit-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
	return fd;
}

static struct steps sample(void)
{
	struct steps s = { .timeout_ms = 60000, .timer = TIMER_STAGE, .accepted_ms = 1000, .stdin_open = true, .caps = { 10, 20, 30 } };

	assert_int_equal(str_copy(s.instance, sizeof s.instance, IID), 0);
	assert_int_equal(str_copy(s.cid, sizeof s.cid, CID), 0);
	assert_int_equal(str_copy(s.run_id, sizeof s.run_id, "run \"1\""), 0);
	return s;
}

static size_t slurp(int fd, char *dst, size_t n)
{
	ssize_t got = pread(fd, dst, n, 0);

	assert_true(got >= 0);
	return (size_t)got;
}

static int whole_life(void)
{
	int fd = scratch();
	struct steps s = sample();
	struct outcome o = { .reason = REASON_TIMEOUT, .timer = TIMER_STAGE, .exit_code = -1, .signal = 9, .ended_ms = 3000, .bytes = { 5, 6 }, .truncated = { true, false } };

	assert_int_equal(steps_create(fd, &s, record, strlen(record), NULL), 0);
	assert_int_equal(steps_handed(fd, &s, NULL), 0);
	assert_int_equal(steps_started(fd, &s, 2000, 42, NULL), 0);
	assert_int_equal(steps_stdin_eof(fd, &s, NULL), 0);
	assert_int_equal(steps_kill(fd, &s, REASON_CANCELLED, NULL), 0);
	assert_int_equal(steps_end(fd, &s, &o, NULL), 0);
	return fd;
}

static void written_and_read(void **state)
{
	char text[4096];
	int fd = whole_life();
	size_t n = slurp(fd, text, sizeof text);
	struct steps s;

	(void)state;
	assert_int_equal(steps_parse(text, n, &s, NULL), 0);
	assert_string_equal(s.instance, IID);
	assert_string_equal(s.cid, CID);
	assert_string_equal(s.run_id, "run \"1\"");
	assert_true(s.timeout_ms == 60000 && s.timer == TIMER_STAGE && s.end.timer == TIMER_STAGE && s.accepted_ms == 1000 && s.handed_ms > 0 && s.started_ms == 2000 && s.process_group == 42);
	assert_true(s.stdin_open && s.stdin_eof && s.kill == REASON_CANCELLED && s.ended);
	assert_true(s.end.reason == REASON_TIMEOUT && s.end.signal == 9 && s.end.exit_code == -1 && s.end.bytes[1] == 6 && s.end.truncated[0]);
	assert_true(s.caps.head == 10 && s.caps.tail == 20 && s.caps.index_records == 30);
	assert_int_equal(s.record_len, strlen(record));
	assert_memory_equal(text + s.record_off, record, strlen(record));
	close(fd);
}

/* Where blocks are of 4 KiB, and whatever the record's length: what is written later takes no further one. */
static void the_end_has_its_room(void **state)
{
	static const struct outcome longest = { .reason = REASON_OUTPUT_LIMIT, .error = START_EXECUTOR_RESTARTED, .timer = TIMER_COMMAND, .exit_code = -1, .signal = 64,
		.ended_ms = INT64_MAX, .bytes = { INT64_MAX, INT64_MAX } };
	static char text[16384], long_record[4200];

	(void)state;
	memset(long_record, '1', sizeof long_record);
	for (size_t n = 1; n <= sizeof long_record; n += 7) {
		struct steps s = sample(), back;
		int fd = scratch();

		assert_int_equal(steps_create(fd, &s, long_record, n, NULL), 0);
		size_t blocks = (slurp(fd, text, sizeof text) + 4095) / 4096;
		assert_int_equal(steps_handed(fd, &s, NULL), 0);
		assert_int_equal(steps_started(fd, &s, INT64_MAX, INT32_MAX, NULL), 0);
		assert_int_equal(steps_stdin_eof(fd, &s, NULL), 0);
		assert_int_equal(steps_kill(fd, &s, REASON_OUTPUT_LIMIT, NULL), 0);
		assert_int_equal(steps_end(fd, &s, &longest, NULL), 0);
		size_t len = slurp(fd, text, sizeof text);
		assert_int_equal((len + 4095) / 4096, blocks);
		assert_int_equal(steps_parse(text, len, &back, NULL), 0);
		assert_true(back.ended && back.record_len == n && back.record_off == s.record_off);
		close(fd);
	}
}

/* A log that ends anywhere: nothing, or exactly the steps whose lines are whole. */
static void cut_at_every_byte(void **state)
{
	char text[4096];
	int fd = whole_life();
	size_t n = slurp(fd, text, sizeof text);

	(void)state;
	for (size_t cut = 0; cut <= n; cut++) {
		struct steps s;
		int lines = 0;

		for (size_t i = 0; i < cut; i++)
			lines += text[i] == '\n';
		assert_int_equal(steps_parse(text, cut, &s, NULL), lines < 2 ? -1 : 0);
		if (lines < 2)
			continue;
		assert_int_equal(s.handed_ms > 0, lines > 2);
		assert_int_equal(s.started_ms > 0, lines > 3);
		assert_int_equal(s.stdin_eof, lines > 4);
		assert_int_equal(s.kill != REASON_NONE, lines > 5);
		assert_int_equal(s.ended, lines > 6);
	}
	close(fd);
}

static void a_torn_line_is_cut_off(void **state)
{
	char text[4096];
	struct steps s = sample(), back;
	int fd = scratch();
	size_t n;

	(void)state;
	assert_int_equal(steps_create(fd, &s, record, strlen(record), NULL), 0);
	n = slurp(fd, text, sizeof text);
	assert_int_equal(write(fd, "{\"handed\":12", 12), 12);
	steps_repair(fd);
	assert_int_equal(slurp(fd, text, sizeof text), n);
	steps_repair(fd);
	assert_int_equal(slurp(fd, text, sizeof text), n);
	assert_int_equal(steps_started(fd, &s, 5, 6, NULL), 0);
	n = slurp(fd, text, sizeof text);
	assert_int_equal(steps_parse(text, n, &back, NULL), 0);
	assert_int_equal(back.started_ms, 5);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(write(fd, "torn", 4), 4);
	steps_repair(fd);
	assert_int_equal(slurp(fd, text, sizeof text), 0);
	close(fd);
}

/* A line that is longer than a block of the search for it. */
static void a_long_record(void **state)
{
	static char big[100000], text[110000];
	struct steps s = sample(), back;
	int fd = scratch();
	size_t n;

	(void)state;
	memset(big, 'x', sizeof big);
	memcpy(big, "{\"command\":\"", 12);
	memcpy(big + sizeof big - 2, "\"}", 2);
	s.handed_ms = 7;
	assert_int_equal(steps_create(fd, &s, big, sizeof big, NULL), 0);
	assert_int_equal(ftruncate(fd, 60000), 0);
	steps_repair(fd);
	n = slurp(fd, text, sizeof text);
	assert_true(n > 0 && n < 1000 && text[n - 1] == '\n');
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(steps_create(fd, &s, big, sizeof big, NULL), 0);
	n = slurp(fd, text, sizeof text);
	assert_int_equal(steps_parse(text, n, &back, NULL), 0);
	assert_int_equal(back.handed_ms, 7);
	assert_int_equal(back.record_len, sizeof big);
	close(fd);
}

static void reasons(void **state)
{
	static const struct {
		struct exec_exited e;
		enum reason asked;
		bool doomed;
		enum reason want;
		enum start_error error;
		enum timer timer;
	} t[] = {
		{ { .end = EXEC_EXITED, .code = 3 }, REASON_NONE, false, REASON_EXITED, START_OK, TIMER_NONE },
		{ { .end = EXEC_EXITED, .code = 3 }, REASON_CANCELLED, true, REASON_EXITED, START_OK, TIMER_NONE },
		{ { .end = EXEC_SIGNALED, .code = 11 }, REASON_NONE, false, REASON_SIGNALED, START_OK, TIMER_NONE },
		{ { .end = EXEC_SIGNALED, .code = 9 }, REASON_NONE, true, REASON_CANCELLED, START_OK, TIMER_NONE },
		{ { .end = EXEC_SIGNALED, .why = EXEC_WHY_TIMEOUT, .code = 9 }, REASON_NONE, false, REASON_TIMEOUT, START_OK, TIMER_STAGE },
		{ { .end = EXEC_SIGNALED, .why = EXEC_WHY_TIMEOUT, .code = 9 }, REASON_TIMEOUT, false, REASON_TIMEOUT, START_OK, TIMER_STAGE },
		{ { .end = EXEC_SIGNALED, .why = EXEC_WHY_KILLED, .code = 9 }, REASON_TIMEOUT, false, REASON_TIMEOUT, START_OK, TIMER_RUN },
		{ { .end = EXEC_SIGNALED, .code = 9 }, REASON_TIMEOUT, true, REASON_TIMEOUT, START_OK, TIMER_RUN },
		{ { .end = EXEC_SIGNALED, .why = EXEC_WHY_KILLED, .code = 9 }, REASON_OUTPUT_LIMIT, false, REASON_OUTPUT_LIMIT, START_OK, TIMER_NONE },
		{ { .end = EXEC_SIGNALED, .why = EXEC_WHY_KILLED, .code = 9 }, REASON_NONE, false, REASON_CANCELLED, START_OK, TIMER_NONE },
		{ { .end = EXEC_SIGNALED, .why = EXEC_WHY_OOM, .code = 9 }, REASON_NONE, false, REASON_OOM, START_OK, TIMER_NONE },
		{ { .end = EXEC_LOST }, REASON_NONE, false, REASON_LOST, START_OK, TIMER_NONE },
		{ { .end = EXEC_NOT_STARTED, .error = 2, .stage = "cwd" }, REASON_NONE, false, REASON_NOT_STARTED, START_CWD_NOT_FOUND, TIMER_NONE },
		{ { .end = EXEC_NOT_STARTED, .error = 13, .stage = "cwd" }, REASON_NONE, false, REASON_NOT_STARTED, START_CWD_FORBIDDEN, TIMER_NONE },
		{ { .end = EXEC_NOT_STARTED, .error = 2, .stage = "exec" }, REASON_NONE, false, REASON_NOT_STARTED, START_EXEC_NOT_FOUND, TIMER_NONE },
		{ { .end = EXEC_NOT_STARTED, .error = 13, .stage = "exec" }, REASON_NONE, false, REASON_NOT_STARTED, START_EXEC_FORBIDDEN, TIMER_NONE },
		{ { .end = EXEC_NOT_STARTED, .error = 12, .stage = "fork" }, REASON_NONE, false, REASON_NOT_STARTED, START_EXEC_FAILED, TIMER_NONE },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		struct outcome o;

		outcome_of_exit(&t[i].e, t[i].asked, t[i].doomed, TIMER_STAGE, &o);
		assert_int_equal(o.reason, t[i].want);
		assert_int_equal(o.error, t[i].error);
		assert_int_equal(o.timer, t[i].timer);
		assert_int_equal(o.exit_code, t[i].e.end == EXEC_EXITED ? 3 : -1);
		assert_string_equal(reason_name(reason_parse(reason_name(o.reason))), reason_name(o.reason));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_and_read), cmocka_unit_test(the_end_has_its_room), cmocka_unit_test(cut_at_every_byte), cmocka_unit_test(a_torn_line_is_cut_off),
		cmocka_unit_test(a_long_record), cmocka_unit_test(reasons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
