/* The parts of the agent that need no container: reading /proc, command lines, environments, standard input. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/exports.h"
#include "agent/feed.h"
#include "agent/launch.h"
#include "agent/poller.h"
#include "agent/proctab.h"
#include "agent/secret.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"

/* ---- proctab ---- */

static void stat_lines(void **state)
{
	static const struct {
		const char *line;
		pid_t pid, ppid;
		char st;
	} good[] = {
		{ "12 (bash) S 7 12 12 0", 12, 7, 'S' },
		{ "12 (a) Z 1 1 () R 7 12", 12, 7, 'R' },
		{ "12 (x) y) T 0 0", 12, 0, 'T' },
		{ "12 () D 3 1", 12, 3, 'D' },
	};
	static const char *const bad[] = { "", "12", "x (a) S 1", "12 (a)", "12 (a) S", "12 (a) S x", "12 (a)S 1", "0 (a) S 1" };
	struct proc p;

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(good); i++) {
		assert_int_equal(proctab_parse(good[i].line, &p), 0);
		assert_true(p.pid == good[i].pid && p.ppid == good[i].ppid && p.state == good[i].st && p.top == 0);
	}
	for (size_t i = 0; i < UNIT_LEN(bad); i++)
		assert_int_equal(proctab_parse(bad[i], &p), -1);
}

static void a_scan_finds_me(void **state)
{
	size_t n = 0;
	bool found = false;
	const struct proc *t = proctab_scan(&n);

	(void)state;
	assert_non_null(t);
	for (size_t i = 0; i < n; i++) {
		if (i)
			assert_true(t[i - 1].pid < t[i].pid);
		if (t[i].pid == getpid()) {
			found = true;
			assert_int_equal(t[i].ppid, getppid());
		}
	}
	assert_true(found || getpid() == 1);
	assert_true(proctab_count() >= n);
	assert_false(proctab_stop_pending(getpid()));
}

static void a_stop_waits_in_a_stopped_process_only(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		for (;;)
			pause();
	}
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_false(proctab_stop_pending(pid));
	kill(pid, SIGSTOP);
	assert_true(proctab_stop_pending(pid));
	kill(pid, SIGCONT);
	assert_false(proctab_stop_pending(pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- launch ---- */

static void short_text(void **state)
{
	char **v = launch_shell("echo 1");

	(void)state;
	assert_string_equal(v[0], "/bin/bash");
	assert_string_equal(v[1], "-c");
	assert_string_equal(v[2], "echo 1");
	assert_null(v[3]);
	free(v);
}

static void check_pieces(const char *text, size_t len)
{
	char **v = launch_shell(text);
	cleanup_buf struct buf joined = BUF_INIT(2 << 20), script = BUF_INIT(1024);
	size_t pieces = 0;

	assert_non_null(v);
	assert_string_equal(v[3], "/bin/bash");
	buf_adds(&script, "eval \"set --\n");
	for (char **p = v + 4; *p; p++) {
		assert_true(**p && strlen(*p) <= LAUNCH_PIECE);
		assert_true(((unsigned char)**p & 0xc0) != 0x80);
		buf_adds(&joined, *p);
		buf_addf(&script, "${%zu}", ++pieces);
	}
	buf_addc(&script, '"');
	assert_string_equal(v[2], buf_str(&script));
	assert_int_equal(joined.len, len);
	assert_memory_equal(joined.data, text, len);
	free(v);
}

static void long_text_in_pieces(void **state)
{
	static const size_t lens[] = { LAUNCH_PIECE, LAUNCH_PIECE + 1, 2 * LAUNCH_PIECE - 1, 2 * LAUNCH_PIECE, MSG_COMMAND_MAX };
	static char text[MSG_COMMAND_MAX + 1];
	static const char sign[] = "\xf0\x9f\x98\x80";

	(void)state;
	for (size_t shift = 0; shift < 4; shift++) {
		for (size_t i = 0; i < UNIT_LEN(lens); i++) {
			for (size_t at = 0; at < lens[i]; at++)
				text[at] = at < shift || lens[i] - at < 4 - (at - shift) % 4 ? 'x' : sign[(at - shift) % 4];
			text[lens[i]] = 0;
			check_pieces(text, lens[i]);
		}
	}
}

/* Bytes that look like the middle of characters only: pieces stay below the limit all the same. */
static void long_text_of_continuations(void **state)
{
	size_t len = 3 * LAUNCH_PIECE;
	char *text = malloc(len + 1);

	(void)state;
	memset(text, 0x80, len);
	text[len] = 0;
	char **v = launch_shell(text);
	size_t total = 0;
	for (char **p = v + 4; *p; p++) {
		assert_true(strlen(*p) <= LAUNCH_PIECE);
		total += strlen(*p);
	}
	assert_int_equal(total, len);
	free(v);
	free(text);
}

static void environment(void **state)
{
	static char a[] = "A=1", path[] = "PATH=/x", a2[] = "A=2", ab[] = "AB=3";
	char *given[] = { a, path, a2, ab, NULL };
	size_t own;
	char **v = launch_env(given, NULL, &own);
	static const char *const want[] = {
		"A=2", "PATH=/x", "AB=3", "HOME=/home/user", "USER=user", "LOGNAME=user", "SHELL=/bin/bash", "LANG=C.UTF-8", NULL,
	};

	(void)state;
	for (size_t i = 0; want[i]; i++)
		assert_string_equal(v[i], want[i]);
	assert_null(v[UNIT_LEN(want) - 1]);
	assert_int_equal(own, 3);
	free(v);
	v = launch_env(given, a, &own);
	assert_string_equal(v[0], "A=1");
	assert_int_equal(own, 3);
	free(v);
	v = launch_env(NULL, NULL, &own);
	assert_int_equal(own, 0);
	assert_string_equal(v[0], "PATH=/usr/local/bin:/usr/bin:/bin");
	assert_int_equal(strv_len(v), 6);
	free(v);
}

/* ---- exports ---- */

static char *const *merged(struct exports *x, const char *text, size_t n, char *const *env, size_t own)
{
	memcpy(exports_text(x), text, n);
	return exports_merge(x, n, env, own);
}

static void assert_merged(const char *text, size_t n, const char *want)
{
	static char mine[] = "MINE=1", path[] = "PATH=/bin", lang[] = "LANG=C";
	char *env[] = { mine, path, lang, NULL }, got[512] = "";
	cleanup_free struct exports *x = exports_new("s");

	assert_non_null(x);
	for (char *const *v = merged(x, text, n, env, 1); *v; v++) {
		strncat(got, *v, sizeof(got) - strlen(got) - 1);
		strncat(got, " ", sizeof(got) - strlen(got) - 1);
	}
	assert_string_equal(got, want);
}

static void exported_lines(void **state)
{
	static const char nul[] = "A=x\0y\nB=1";

	(void)state;
#define MERGED(text, want) assert_merged(text, sizeof(text) - 1, want)
	MERGED("A=1\n", "MINE=1 A=1 PATH=/bin LANG=C ");
	MERGED("A=1", "MINE=1 A=1 PATH=/bin LANG=C ");
	MERGED("A=1\nA=2\n", "MINE=1 A=2 PATH=/bin LANG=C ");
	MERGED("A=\nB==\n", "MINE=1 B== A= PATH=/bin LANG=C ");
	MERGED("PATH=/x\n", "MINE=1 PATH=/x LANG=C ");
	MERGED("MINE=2\n", "MINE=1 PATH=/bin LANG=C ");
	MERGED("\n\n\n", "MINE=1 PATH=/bin LANG=C ");
	MERGED("=1\nA\n A=1\nA =1\n1A=1\nA-B=1\nexport A=1\n\303\244=1\n", "MINE=1 PATH=/bin LANG=C ");
	MERGED("USER=a\nHOME=/\nLD_PRELOAD=x\nLD_LIBRARY_PATH=x\nPADDOCK_=1\nPADDOCK_ENV=/x\n", "MINE=1 PATH=/bin LANG=C ");
	MERGED("USERS=a\nHOM=/\nPADDOCK=1\n_=x\n", "MINE=1 _=x PADDOCK=1 HOM=/ USERS=a PATH=/bin LANG=C ");
	assert_merged(nul, sizeof(nul) - 1, "MINE=1 B=1 PATH=/bin LANG=C ");
}

static void exported_sizes(void **state)
{
	static char text[EXPORTS_BYTES_MAX + 1], none[] = "X=1";
	char *env[] = { none, NULL };
	cleanup_free struct exports *x = exports_new("s"), *y = exports_new("s"), *z = exports_new("s");

	(void)state;
	/* a name of 128 characters and one more */
	memset(text, 'N', 130);
	text[128] = text[129 + 129] = '=';
	text[129] = '\n';
	memset(text + 130, 'M', 129);
	text[259] = '=';
	char *const *v = merged(x, text, 260, env, 1);
	assert_int_equal(strlen(v[1]), 129);
	assert_null(v[2]);
	/* lines just short enough, and one too long; what does not fit beside the others is left out, the last come first */
	memset(text, 'v', sizeof(text));
	for (size_t i = 0; i < 9; i++) {
		size_t at = i * (EXPORTS_LINE_MAX - 1);
		if (at + 2 < EXPORTS_BYTES_MAX)
			memcpy(text + at, (char[]){ '\n', (char)('A' + i), '=' }, 3);
	}
	v = merged(y, text, EXPORTS_BYTES_MAX, env, 1);
	assert_int_equal(v[1][0], 'I');
	assert_int_equal(strv_len((char **)v), 9);   /* X, I to B: A does not fit */
	memcpy(text, "L=", 2);
	memset(text + 2, 'v', EXPORTS_LINE_MAX);
	text[EXPORTS_LINE_MAX] = '\n';
	v = merged(z, text, EXPORTS_LINE_MAX + 1, env, 1);
	assert_null(v[1]);
	/* a file that is too large is no file */
	assert_ptr_equal(exports_merge(z, EXPORTS_BYTES_MAX + 1, env, 1), env);
}

static void exported_many(void **state)
{
	static char text[EXPORTS_BYTES_MAX];
	static char none[] = "X=1";
	char *env[] = { none, NULL };
	cleanup_free struct exports *x = exports_new("s");
	size_t n = 0, count = 0;

	(void)state;
	for (unsigned i = 0; i < 5000; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "V%u=%u\n", i, i);
	char *const *v = merged(x, text, n, env, 1);
	while (v[count])
		count++;
	assert_int_equal(count, 4097);
	assert_string_equal(v[1], "V4999=4999");
}

static void token(void **state)
{
	char secret[] = "PADDOCK_AGENT_TOKEN=abc", other[] = "X=y";
	char *env[] = { other, secret, NULL }, *none[] = { NULL };
	static const char zero[sizeof(secret)];

	(void)state;
	assert_int_equal(secret_take(env), 0);
	assert_string_equal(secret_token(), "abc");
	assert_memory_equal(secret, zero, sizeof(secret));
	assert_null(env[0]);
	secret_wipe();
	assert_string_equal(secret_token(), "");
	assert_int_equal(secret_take(none), -1);
}

/* ---- feed ---- */

struct stdin_pipe {
	struct feed f;
	int rd;
};

static void open_feed(struct stdin_pipe *s)
{
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
	fcntl(p[0], F_SETPIPE_SZ, 4096);
	feed_init(&s->f);
	assert_int_equal(feed_open(&s->f, p[1]), 0);
	s->rd = p[0];
}

static int put(struct stdin_pipe *s, uint64_t at, const void *p, size_t n, bool eof)
{
	const struct msg_stdin m = { "i", at, eof, p, n };

	return feed_put(&s->f, &m);
}

static size_t drain_pipe(struct stdin_pipe *s, char *dst, size_t max)
{
	size_t n = 0;

	for (int turn = 0; turn < 1000; turn++) {
		ssize_t r = read(s->rd, dst + n, max - n);
		if (r == 0)
			break;
		if (r > 0)
			n += (size_t)r;
		poller_turn(clock_boot_us() + 100);
	}
	return n;
}

static void feed_by_offset(void **state)
{
	struct stdin_pipe s;
	char got[64];

	(void)state;
	open_feed(&s);
	assert_int_equal(put(&s, 0, "hello", 5, false), 0);
	assert_int_equal(put(&s, 0, "hello", 5, false), 0);
	assert_int_equal(put(&s, 3, "lo w", 4, false), 0);
	assert_true(s.f.taken == 7 && feed_window(&s.f) == MSG_STDIN_MAX);
	assert_int_equal(put(&s, 8, "x", 1, false), -1);
	assert_int_equal(put(&s, 2, "ll", 2, true), 0);   /* an old piece: its eof is not the end */
	assert_true(s.f.w.fd >= 0);
	assert_int_equal(put(&s, 7, "", 0, true), 0);
	assert_int_equal(s.f.w.fd, -1);
	assert_int_equal(drain_pipe(&s, got, sizeof(got)), 7);
	assert_memory_equal(got, "hello w", 7);
	close(s.rd);
}

static void feed_holds_up_to_its_window(void **state)
{
	static char data[MSG_STDIN_MAX + 4096], got[MSG_STDIN_MAX * 2 + 4096];
	struct stdin_pipe s;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7 + i / 251);
	open_feed(&s);
	assert_int_equal(put(&s, 0, data, MSG_STDIN_MAX, false), 0);
	assert_int_equal(feed_window(&s.f), 4096);
	assert_int_equal(put(&s, MSG_STDIN_MAX, data, 4097, false), -1);
	assert_int_equal(s.f.taken, MSG_STDIN_MAX);
	assert_int_equal(put(&s, MSG_STDIN_MAX, data + MSG_STDIN_MAX, 4096, true), 0);
	assert_int_equal(feed_window(&s.f), 0);
	assert_int_equal(drain_pipe(&s, got, sizeof(got)), sizeof(data));
	assert_memory_equal(got, data, sizeof(data));
	assert_int_equal(s.f.w.fd, -1);
	assert_null(s.f.held);
	close(s.rd);
}

static void feed_without_a_reader(void **state)
{
	struct stdin_pipe s;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	open_feed(&s);
	close(s.rd);
	s.f.news = false;
	poller_turn(clock_boot_us() + 1000);
	assert_int_equal(s.f.w.fd, -1);
	assert_true(s.f.news);
	assert_int_equal(put(&s, 0, "abc", 3, false), 0);
	assert_true(s.f.taken == 3 && feed_window(&s.f) == INT64_MAX);
	/* noticed at the write itself */
	open_feed(&s);
	close(s.rd);
	assert_int_equal(put(&s, 0, "abc", 3, false), 0);
	assert_true(s.f.taken == 3 && s.f.w.fd == -1);
}

static void timers_fire(void **state)
{
	int64_t began = clock_boot_us();

	(void)state;
	poller_turn(began + 20000);
	assert_true(clock_boot_us() - began >= 20000);
	poller_turn(began);
	poller_turn(0);
}

static int open_poller(void **state)
{
	(void)state;
	return poller_open();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_lines), cmocka_unit_test(a_scan_finds_me), cmocka_unit_test(a_stop_waits_in_a_stopped_process_only), cmocka_unit_test(short_text), cmocka_unit_test(long_text_in_pieces),
		cmocka_unit_test(long_text_of_continuations), cmocka_unit_test(environment), cmocka_unit_test(exported_lines), cmocka_unit_test(exported_sizes), cmocka_unit_test(exported_many),
		cmocka_unit_test(token), cmocka_unit_test(feed_by_offset),
		cmocka_unit_test(feed_holds_up_to_its_window), cmocka_unit_test(feed_without_a_reader), cmocka_unit_test(timers_fire),
	};

	return cmocka_run_group_tests_name("agent_parts", tests, open_poller, NULL);
}
