#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static int reader, writer;

/* The line that was written, without its time stamp; "" for none. */
static const char *line(void)
{
	static char text[2 * LOG_LINE_MAX];
	ssize_t n = read(reader, text, sizeof text - 1);
	char *after;

	text[n > 0 ? n : 0] = '\0';
	if (!text[0])
		return text;
	assert_memory_equal(text, "ts=20", 5);
	after = strchr(text, ' ');
	assert_non_null(after);
	return after + 1;
}

static void plain_and_quoted(void **state)
{
	static const struct {
		const char *value, *shown;
	} t[] = {
		{ "abc-1.2_3/x:y@z+,%~", "abc-1.2_3/x:y@z+,%~" }, { "", "\"\"" }, { NULL, "-" }, { "a b", "\"a b\"" }, { "a=b", "\"a=b\"" },
		{ "a\"b\\c", "\"a\\\"b\\\\c\"" }, { "a\nb", "\"a\\x0ab\"" }, { "\x1b[31m", "\"\\x1b[31m\"" }, { "\x7f", "\"\\x7f\"" },
		{ "\xc2\x9b", "\"\\xc2\\x9b\"" }, { "\xff", "\"\\xff\"" }, { "\xe2\x82", "\"\\xe2\\x82\"" },
		{ "\xe2\x82\xac", "\"\xe2\x82\xac\"" }, { "\xe2\x80\xa8", "\"\\xe2\\x80\\xa8\"" }, { "\xe2\x80\xae", "\"\\xe2\\x80\\xae\"" },
		{ "\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"" }, { "\xf0\x9f\x98", "\"\\xf0\\x9f\\x98\"" }, { "\xed\xa0\x80", "\"\\xed\\xa0\\x80\"" },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		char want[256];

		log_kv(LOG_INFO, "e", "k", t[i].value, NULL);
		snprintf(want, sizeof want, "lvl=info proc=unit event=e k=%s\n", t[i].shown);
		assert_string_equal(line(), want);
	}
}

static void levels(void **state)
{
	enum log_level l;

	(void)state;
	log_kv(LOG_DEBUG, "hidden", NULL);
	assert_string_equal(line(), "");
	log_kv(LOG_ERROR, "shown", "a", "1", "b", "2", NULL);
	assert_string_equal(line(), "lvl=error proc=unit event=shown a=1 b=2\n");
	assert_int_equal(log_level_parse("warn", &l), 0);
	assert_int_equal(l, LOG_WARN);
	assert_int_equal(log_level_parse("WARN", &l), -1);
	assert_int_equal(log_level_parse("", &l), -1);
}

/* At every length around the limit: one newline, at its end; never longer than the limit; quotes closed. */
static void long_lines_are_cut(void **state)
{
	static char big[3 * LOG_LINE_MAX];

	(void)state;
	for (size_t n = LOG_LINE_MAX - 100; n < LOG_LINE_MAX + 20; n++) {
		for (int quoted = 0; quoted < 2; quoted++) {
			const char *got;
			size_t len;

			memset(big, 'x', n);
			big[n] = '\0';
			big[0] = quoted ? ' ' : 'x';
			log_kv(LOG_INFO, "e", "k", big, "after", "1", NULL);
			got = line();
			len = strlen(got);
			assert_true(len + strlen("ts=2026-01-01T00:00:00.000Z ") <= LOG_LINE_MAX);
			assert_ptr_equal(strchr(got, '\n'), got + len - 1);
			if (!strstr(got, " after=1") && strstr(got, "..."))
				assert_string_equal(got + len - 5, "...\"\n");
		}
	}
}

static void errno_is_kept(void **state)
{
	(void)state;
	errno = EXDEV;
	log_set_fd(-1);
	log_kv(LOG_ERROR, "nowhere", NULL);
	log_set_fd(writer);
	assert_int_equal(errno, EXDEV);
}

/* A disk that is full stops the logger; it must not stop whoever logs. */
static void nobody_waits_for_the_reader(void **state)
{
	int fds[2];
	static char big[2 * LOG_LINE_MAX], all[128 << 10];
	int64_t from = clock_boot_ms();

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	log_set_fd(fds[1]);
	memset(big, 'x', 1000);
	for (int i = 0; i < 1000; i++)
		log_kv(LOG_INFO, "e", "k", big, NULL);
	assert_true(clock_boot_ms() - from < 5000);
	assert_true(read(fds[0], all, sizeof(all)) > 32 << 10);
	log_kv(LOG_INFO, "after", NULL);
	ssize_t n = read(fds[0], all, sizeof(all) - 1);
	assert_true(n > 0);
	all[n] = '\0';
	assert_non_null(strstr(all, "event=log_lines_dropped lines=9"));
	assert_non_null(strstr(all, "event=after\n"));
	log_set_fd(writer);
	close(fds[0]);
	close(fds[1]);
}

static void read_all(char *dst, size_t size)
{
	ssize_t n = read(reader, dst, size - 1);

	assert_true(n > 0);
	dst[n] = '\0';
}

static void assert_in_order(const char *text, const char *one, const char *other)
{
	const char *a = strstr(text, one);

	assert_non_null(a);
	assert_non_null(strstr(a, other));
}

/* One write for many lines: none before, all in order, and at once with a line that matters. */
static void held_lines_go_out_together(void **state)
{
	static char all[16 << 10], big[1500];
	const char *at = all;

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	log_hold();
	log_kv(LOG_INFO, "first", NULL);
	log_kv(LOG_INFO, "second", NULL);
	assert_true(read(reader, all, sizeof(all)) < 0);
	log_flush();
	read_all(all, sizeof(all));
	assert_in_order(all, "event=first\n", "event=second\n");
	log_flush();
	assert_true(read(reader, all, sizeof(all)) < 0);
	log_kv(LOG_INFO, "third", NULL);
	log_kv(LOG_WARN, "fourth", NULL);
	read_all(all, sizeof(all));
	assert_in_order(all, "event=third\n", "event=fourth\n");
	for (int i = 0; i < 5; i++)
		log_kv(LOG_INFO, "long", "k", big, NULL);
	log_flush();
	read_all(all, sizeof(all));
	for (int i = 0; i < 5; i++, at++)
		assert_non_null(at = strstr(at, "event=long"));
	assert_null(strstr(at, "event=long"));
}

static int setup(void **state)
{
	int fds[2];

	(void)state;
	if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0)
		return -1;
	reader = fds[0];
	writer = fds[1];
	log_init("unit", LOG_INFO);
	log_set_fd(writer);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(reader);
	return close(writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_and_quoted), cmocka_unit_test(levels), cmocka_unit_test(long_lines_are_cut), cmocka_unit_test(errno_is_kept),
		cmocka_unit_test(nobody_waits_for_the_reader), cmocka_unit_test(held_lines_go_out_together),
	};

	return cmocka_run_group_tests_name("log", tests, setup, teardown);
}
