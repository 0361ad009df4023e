#include "unit.h"

#include "core/frame_msg.h"

#define ID63 "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

/* The payload of the only frame in b. */
static struct frame only_frame(const struct buf *b, enum msg_type type)
{
	struct frame f;
	size_t used;

	assert_int_equal(frame_next(b->data, b->len, &f, &used), 1);
	assert_int_equal(used, b->len);
	assert_int_equal(f.type, type);
	return f;
}

static void hello(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(FRAME_MAX);
	char token[MSG_TOKEN_MAX + 2];
	struct msg_hello m = { MSG_VERSION, 7, token }, r;

	(void)state;
	memset(token, 't', sizeof(token));
	token[MSG_TOKEN_MAX + 1] = 0;
	assert_int_equal(msg_put_hello(&b, &m), -1);
	assert_int_equal(b.len, 0);
	token[MSG_TOKEN_MAX] = 0;
	assert_int_equal(msg_put_hello(&b, &m), 0);
	struct frame f = only_frame(&b, MSG_HELLO);
	assert_int_equal(msg_get_hello(f.payload, f.len, &r), 0);
	assert_int_equal(r.version, MSG_VERSION);
	assert_int_equal(r.execs, 7);
	assert_string_equal(r.token, token);
	assert_int_equal(msg_get_hello(f.payload, f.len - 1, &r), -1);
}

static void ids(void **state)
{
	static const char *const good[] = { "a", ID63, "0e8f-1", "A.b_c" };
	static const char *const bad[] = { "", ID63 "x", "a/b", "a b", "\xc3\xa4", "a\n" };

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(good); i++)
		assert_true(msg_id_ok(good[i]));
	for (size_t i = 0; i < UNIT_LEN(bad); i++) {
		cleanup_buf struct buf b = BUF_INIT(FRAME_MAX);
		assert_false(msg_id_ok(bad[i]));
		assert_int_equal(msg_put_id(&b, MSG_KILL, bad[i]), -1);
		assert_int_equal(msg_put_id(&b, MSG_EXIT_ACK, bad[i]), -1);
	}
}

static void started(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(FRAME_MAX);
	const struct msg_started m = { ID63, true, INT32_MAX, INT64_MAX, UINT64_MAX };
	struct msg_started r;

	(void)state;
	assert_int_equal(msg_put_started(&b, &m), 0);
	struct frame f = only_frame(&b, MSG_STARTED);
	assert_int_equal(f.nfds, 2);
	assert_int_equal(msg_get_started(f.payload, f.len, &r), 0);
	assert_string_equal(r.id, m.id);
	assert_true(r.adopted);
	assert_int_equal(r.pgid, m.pgid);
	assert_true(r.started_wall_ms == m.started_wall_ms && r.stdin_taken == m.stdin_taken);
	for (size_t n = 0; n < f.len; n++)
		assert_int_equal(msg_get_started(f.payload, n, &r), -1);
	b.data[FRAME_HEADER + 4 + 63 + 1] = 2;   /* a bool */
	assert_int_equal(msg_get_started(f.payload, f.len, &r), -1);
}

static void exited(void **state)
{
	static const struct {
		struct msg_exited m;
		bool ok;
	} cases[] = {
		{ { "a", MSG_END_EXITED, MSG_WHY_NONE, MSG_STAGE_NONE, 0, 1 }, true },
		{ { "a", MSG_END_EXITED, MSG_WHY_KILLED, MSG_STAGE_NONE, 255, 1 }, true },
		{ { "a", MSG_END_EXITED, MSG_WHY_NONE, MSG_STAGE_NONE, 256, 1 }, false },
		{ { "a", MSG_END_EXITED, MSG_WHY_NONE, MSG_STAGE_NONE, -1, 1 }, false },
		{ { "a", MSG_END_EXITED, MSG_WHY_NONE, MSG_STAGE_CWD, 1, 1 }, false },
		{ { "a", MSG_END_SIGNALED, MSG_WHY_TIMEOUT, MSG_STAGE_NONE, 64, 1 }, true },
		{ { "a", MSG_END_SIGNALED, MSG_WHY_NONE, MSG_STAGE_NONE, 0, 1 }, false },
		{ { "a", MSG_END_SIGNALED, MSG_WHY_NONE, MSG_STAGE_NONE, 65, 1 }, false },
		{ { "a", MSG_END_NOT_STARTED, MSG_WHY_NONE, MSG_STAGE_EXEC, 4095, 1 }, true },
		{ { "a", MSG_END_NOT_STARTED, MSG_WHY_NONE, MSG_STAGE_EXEC, 0, 1 }, false },
		{ { "a", MSG_END_NOT_STARTED, MSG_WHY_NONE, MSG_STAGE_NONE, 2, 1 }, false },
		{ { "a", MSG_END_EXITED, MSG_WHY_NONE, MSG_STAGE_NONE, 0, -1 }, false },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(cases); i++) {
		cleanup_buf struct buf b = BUF_INIT(FRAME_MAX);
		struct msg_exited r;
		assert_int_equal(msg_put_exited(&b, &cases[i].m), cases[i].ok ? 0 : -1);
		if (!cases[i].ok)
			continue;
		struct frame f = only_frame(&b, MSG_EXITED);
		assert_int_equal(msg_get_exited(f.payload, f.len, &r), 0);
		assert_true(r.end == cases[i].m.end && r.why == cases[i].m.why && r.stage == cases[i].m.stage && r.code == cases[i].m.code);
		((uint8_t *)b.data)[FRAME_HEADER + 6] = 3;   /* no such end */
		assert_int_equal(msg_get_exited(f.payload, f.len, &r), -1);
	}
}

static void config(void **state)
{
	static const struct {
		int32_t nice, oom;
		bool ok;
	} cases[] = { { 0, 0, true }, { 19, 1000, true }, { 20, 0, false }, { -1, 0, false }, { 0, 1001, false }, { 0, -1, false } };

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(cases); i++) {
		cleanup_buf struct buf b = BUF_INIT(FRAME_MAX);
		const struct msg_config m = { MSG_VERSION, 1, UINT32_MAX, cases[i].nice, cases[i].oom };
		struct msg_config r;
		assert_int_equal(msg_put_config(&b, &m), cases[i].ok ? 0 : -1);
		if (!cases[i].ok)
			continue;
		struct frame f = only_frame(&b, MSG_CONFIG);
		assert_int_equal(msg_get_config(f.payload, f.len, &r), 0);
		assert_memory_equal(&r, &m, sizeof(m));
	}
}

static char one[] = "A=1", two[] = "B=", arg0[] = "echo", arg1[] = "";
static char *env[] = { one, two, NULL };
static char *args[] = { arg0, arg1, NULL };

static void exec_round_trip(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(FRAME_MAX);
	const struct msg_exec text = { .id = "i", .scope = "s", .command = "echo x", .cwd = "/", .stdin_open = true, .timeout_ms = 1, .env = env };
	const struct msg_exec words = { .id = "i", .scope = "t", .cwd = "/tmp", .make_cwd = true, .clean = true, .timeout_ms = MSG_TIMEOUT_MAX, .argv = args };
	struct msg_exec r;
	char **v;

	(void)state;
	assert_int_equal(msg_put_exec(&b, &text), 0);
	struct frame f = only_frame(&b, MSG_EXEC);
	assert_int_equal(msg_get_exec(f.payload, f.len, &r, &v), 0);
	assert_string_equal(r.command, "echo x");
	assert_null(r.argv);
	assert_string_equal(r.env[0], "A=1");
	assert_string_equal(r.env[1], "B=");
	assert_null(r.env[2]);
	assert_string_equal(r.scope, "s");
	assert_true(r.stdin_open && !r.make_cwd && !r.clean && r.timeout_ms == 1);
	free(v);
	for (size_t n = 0; n < f.len; n++) {
		assert_int_equal(msg_get_exec(f.payload, n, &r, &v), -1);
		assert_null(v);
	}
	buf_reset(&b);
	assert_int_equal(msg_put_exec(&b, &words), 0);
	f = only_frame(&b, MSG_EXEC);
	assert_int_equal(msg_get_exec(f.payload, f.len, &r, &v), 0);
	assert_null(r.command);
	assert_string_equal(r.argv[0], "echo");
	assert_string_equal(r.argv[1], "");
	assert_null(r.argv[2]);
	assert_null(r.env[0]);
	assert_string_equal(r.scope, "t");
	assert_true(r.make_cwd && r.clean && r.timeout_ms == MSG_TIMEOUT_MAX);
	free(v);
}

static void exec_refuses(void **state)
{
	static char bad_env[] = "NOVALUE", bad_name[] = "=x";
	static char *no_eq[] = { bad_env, NULL }, *no_name[] = { bad_name, NULL }, *none[] = { NULL }, *empty0[] = { arg1, NULL };
	const struct msg_exec good = { .id = "i", .scope = "s", .command = "x", .cwd = "/", .timeout_ms = 1 };
	struct msg_exec m[12];
	cleanup_buf struct buf b = BUF_INIT(FRAME_MAX);

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(m); i++)
		m[i] = good;
	m[0].cwd = "tmp";
	m[1].timeout_ms = 0;
	m[2].timeout_ms = MSG_TIMEOUT_MAX + 1;
	m[3].env = no_eq;
	m[4].env = no_name;
	m[5].argv = args;                      /* both */
	m[6].command = NULL;                   /* neither */
	m[7].command = NULL, m[7].argv = none;
	m[8].command = NULL, m[8].argv = empty0;
	m[9].scope = "";
	m[10].scope = "a/b";
	m[11].clean = true, m[11].env = env;
	for (size_t i = 0; i < UNIT_LEN(m); i++) {
		assert_int_equal(msg_put_exec(&b, &m[i]), -1);
		assert_int_equal(b.len, 0);
	}
	assert_int_equal(msg_put_exec(&b, &good), 0);
}

static void exec_sizes(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(FRAME_MAX + FRAME_HEADER);
	char *text = malloc(MSG_COMMAND_MAX + 2), *path = malloc(MSG_PATH_MAX + 2);
	struct msg_exec m = { .id = "i", .scope = "s", .command = text, .cwd = "/", .timeout_ms = 1 }, r;
	char **v, **many = calloc(MSG_ARGV_MAX + 2, sizeof(*many));

	(void)state;
	memset(text, 'x', MSG_COMMAND_MAX + 1);
	text[MSG_COMMAND_MAX + 1] = 0;
	assert_int_equal(msg_put_exec(&b, &m), -1);
	text[MSG_COMMAND_MAX] = 0;
	assert_int_equal(msg_put_exec(&b, &m), 0);
	struct frame f = only_frame(&b, MSG_EXEC);
	assert_int_equal(msg_get_exec(f.payload, f.len, &r, &v), 0);
	assert_int_equal(strlen(r.command), MSG_COMMAND_MAX);
	free(v);
	buf_reset(&b);
	memset(path, '/', MSG_PATH_MAX + 1);
	path[MSG_PATH_MAX + 1] = 0;
	m.cwd = path;
	assert_int_equal(msg_put_exec(&b, &m), -1);
	path[MSG_PATH_MAX] = 0;
	assert_int_equal(msg_put_exec(&b, &m), 0);
	buf_reset(&b);
	for (size_t i = 0; i <= MSG_ARGV_MAX; i++)
		many[i] = arg0;
	m.command = NULL;
	m.argv = many;
	assert_int_equal(msg_put_exec(&b, &m), -1);
	many[MSG_ARGV_MAX] = NULL;
	assert_int_equal(msg_put_exec(&b, &m), 0);
	f = only_frame(&b, MSG_EXEC);
	assert_int_equal(msg_get_exec(f.payload, f.len, &r, &v), 0);
	free(v);
	free(many);
	free(text);
	free(path);
}

static void standard_input(void **state)
{
	static uint8_t data[MSG_STDIN_MAX + 1];
	cleanup_buf struct buf b = BUF_INIT(FRAME_MAX);
	struct msg_stdin m = { "i", UINT64_MAX / 2, true, data, sizeof(data) }, r;

	(void)state;
	assert_int_equal(msg_put_stdin(&b, &m), -1);
	m.len = MSG_STDIN_MAX;
	m.offset++;
	assert_int_equal(msg_put_stdin(&b, &m), -1);
	m.offset--;
	assert_int_equal(msg_put_stdin(&b, &m), 0);
	struct frame f = only_frame(&b, MSG_STDIN);
	assert_int_equal(msg_get_stdin(f.payload, f.len, &r), 0);
	assert_true(r.offset == m.offset && r.eof && r.len == MSG_STDIN_MAX);
	assert_int_equal(msg_get_stdin(f.payload, f.len - 1, &r), -1);
	buf_reset(&b);
	m = (struct msg_stdin){ "i", 0, false, NULL, 0 };
	assert_int_equal(msg_put_stdin(&b, &m), 0);
	f = only_frame(&b, MSG_STDIN);
	assert_int_equal(msg_get_stdin(f.payload, f.len, &r), 0);
	assert_int_equal(r.len, 0);
}

static void the_small_ones(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(FRAME_MAX);
	struct msg_signal s = { "i", 64 }, sr;
	struct msg_not_running n = { "i", true }, nr;
	struct msg_stdin_taken t = { "i", 5, UINT64_MAX }, tr;
	const char *id;

	(void)state;
	assert_int_equal(msg_put_signal(&b, &s), 0);
	struct frame f = only_frame(&b, MSG_SIGNAL);
	assert_true(msg_get_signal(f.payload, f.len, &sr) == 0 && sr.signo == 64);
	s.signo = 65;
	assert_int_equal(msg_put_signal(&b, &s), -1);
	s.signo = 0;
	assert_int_equal(msg_put_signal(&b, &s), -1);
	buf_reset(&b);
	assert_int_equal(msg_put_not_running(&b, &n), 0);
	f = only_frame(&b, MSG_NOT_RUNNING);
	assert_true(msg_get_not_running(f.payload, f.len, &nr) == 0 && nr.known);
	buf_reset(&b);
	assert_int_equal(msg_put_stdin_taken(&b, &t), 0);
	f = only_frame(&b, MSG_STDIN_TAKEN);
	assert_true(msg_get_stdin_taken(f.payload, f.len, &tr) == 0 && tr.taken == 5 && tr.window == UINT64_MAX);
	buf_reset(&b);
	assert_int_equal(msg_put_id(&b, MSG_EXIT_ACK, "i"), 0);
	f = only_frame(&b, MSG_EXIT_ACK);
	assert_int_equal(msg_get_id(f.payload, f.len, &id), 0);
	assert_string_equal(id, "i");
	buf_reset(&b);
	assert_int_equal(msg_put_id(&b, MSG_SCOPE_END, "s"), 0);
	f = only_frame(&b, MSG_SCOPE_END);
	assert_int_equal(msg_get_id(f.payload, f.len, &id), 0);
	assert_string_equal(id, "s");
	buf_reset(&b);
	assert_int_equal(msg_put_id(&b, MSG_SCOPE_ENDED, "s"), 0);
	f = only_frame(&b, MSG_SCOPE_ENDED);
	assert_int_equal(msg_get_id(f.payload, f.len, &id), 0);
	assert_int_equal(msg_put_id(&b, MSG_SCOPE_END, ""), -1);
	buf_reset(&b);
	assert_int_equal(msg_put_synced(&b), 0);
	f = only_frame(&b, MSG_SYNCED);
	assert_int_equal(msg_get_synced(f.payload, f.len), 0);
	assert_int_equal(msg_get_synced("x", 1), -1);
}

static void strings_are_strict(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} bad[] = {
		{ "\1\0\0\0a", 5 },              /* no zero byte */
		{ "\1\0\0\0ab", 6 },             /* another byte in its place */
		{ "\2\0\0\0a\0\0", 7 },          /* a zero inside */
		{ "\377\377\377\377a\0", 6 },    /* length past the end */
		{ "\1\0\0\0a\0\0", 7 },          /* more after the end */
		{ "\1\0\0", 3 },
		{ "", 0 },
	};
	const char *id;

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(bad); i++)
		assert_int_equal(msg_get_id(bad[i].bytes, bad[i].n, &id), -1);
	assert_int_equal(msg_get_id("\1\0\0\0a\0", 6, &id), 0);
}

static void a_full_buffer_stays_as_it_was(void **state)
{
	const struct msg_exec m = { .id = "i", .scope = "s", .command = "echo", .cwd = "/", .timeout_ms = 1 };

	(void)state;
	for (size_t cap = 0; cap < 60; cap++) {
		cleanup_buf struct buf b = BUF_INIT(cap + 3);
		buf_adds(&b, "abc");
		if (msg_put_exec(&b, &m) == 0)
			return;
		assert_int_equal(b.len, 3);
		assert_false(buf_failed(&b));
		assert_string_equal(buf_str(&b), "abc");
	}
	fail();
}

static void stage_names(void **state)
{
	(void)state;
	assert_string_equal(msg_stage_name(MSG_STAGE_CWD), "cwd");
	assert_string_equal(msg_stage_name(MSG_STAGE_EXEC), "exec");
	assert_string_equal(msg_stage_name(MSG_STAGE_NONE), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello), cmocka_unit_test(ids), cmocka_unit_test(started), cmocka_unit_test(exited), cmocka_unit_test(config),
		cmocka_unit_test(exec_round_trip), cmocka_unit_test(exec_refuses), cmocka_unit_test(exec_sizes), cmocka_unit_test(standard_input),
		cmocka_unit_test(the_small_ones), cmocka_unit_test(strings_are_strict), cmocka_unit_test(a_full_buffer_stays_as_it_was),
		cmocka_unit_test(stage_names),
	};

	return cmocka_run_group_tests_name("frame_msg", tests, NULL, NULL);
}
