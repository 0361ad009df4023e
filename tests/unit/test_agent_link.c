/* The executor's end, against a peer that can be told to misbehave: the other end of the socket, written by hand. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "core/frame_msg.h"
#include "core/unixsock.h"
#include "provider/agent_link.h"

struct stand {
	char dir[128], path[160];
	struct loop *loop;
	struct loop_timer *tick;
	struct agent_link *link;
	int peer;                 /* the agent's end */
	struct buf told;          /* the callbacks, as words */
	int out, err;             /* of the last started() */
};

static int on_token(void *arg, const char *token)
{
	(void)arg;
	return str_eq(token, "right") ? 0 : -1;
}

static void on_connected(void *arg)
{
	buf_adds(&((struct stand *)arg)->told, "connected ");
}

static void on_ready(void *arg)
{
	buf_adds(&((struct stand *)arg)->told, "ready ");
}

static void on_lost(void *arg)
{
	buf_adds(&((struct stand *)arg)->told, "lost ");
}

static void on_started(void *arg, const char *id, const struct exec_started *e, int out, int err)
{
	struct stand *s = arg;

	buf_addf(&s->told, "started:%s:%d:%d ", id, e->pgid, e->adopted);
	s->out = out;
	s->err = err;
}

static void on_exited(void *arg, const char *id, const struct exec_exited *e)
{
	buf_addf(&((struct stand *)arg)->told, "exited:%s:%d:%d:%d:%d:%s ", id, e->end, e->why, e->code, e->error, e->stage ? e->stage : "-");
}

static void on_taken(void *arg, const char *id, uint64_t taken, uint64_t window)
{
	buf_addf(&((struct stand *)arg)->told, "taken:%s:%llu:%llu ", id, (unsigned long long)taken, (unsigned long long)window);
}

static void on_not_running(void *arg, const char *id, bool known)
{
	buf_addf(&((struct stand *)arg)->told, "not_running:%s:%d ", id, known);
}

static void on_scope_ended(void *arg, const char *scope)
{
	buf_addf(&((struct stand *)arg)->told, "scope_ended:%s ", scope);
}

static const struct agent_link_events events = {
	on_token, on_connected, on_ready, on_lost, on_started, on_exited, on_taken, on_not_running, on_scope_ended,
};

static void stop(void *arg)
{
	loop_stop(arg);
}

static void turn(struct stand *s)
{
	loop_timer_set(s->tick, 20);
	assert_int_equal(loop_run(s->loop, NULL), 0);
}

/* What was told since the last call. */
static void assert_told(struct stand *s, const char *want)
{
	turn(s);
	assert_string_equal(buf_str(&s->told), want);
	buf_reset(&s->told);
}

static int set_up(void **state)
{
	static struct stand s;
	const struct agent_link_limits limits = { 1024, 100, 5, 500 };

	s = (struct stand){ .peer = -1, .out = -1, .err = -1 };
	buf_init(&s.told, 65536);
	unit_tmpdir(s.dir);
	str_fmt(s.path, sizeof(s.path), "%s/i", s.dir);
	s.loop = loop_new(NULL);
	s.tick = loop_timer_new(s.loop, stop, s.loop);
	s.link = agent_link_new(s.loop, s.path, &limits, &events, &s, NULL);
	assert_non_null(s.link);
	str_fmt(s.path, sizeof(s.path), "%s/i/s", s.dir);
	*state = &s;
	return 0;
}

static int tear_down(void **state)
{
	struct stand *s = *state;

	agent_link_free(s->link, true);
	assert_int_equal(access(s->path, F_OK), -1);
	loop_timer_free(s->tick);
	loop_free(s->loop);
	if (s->peer >= 0)
		close(s->peer);
	buf_free(&s->told);
	str_fmt(s->path, sizeof(s->path), "%s/i", s->dir);
	rmdir(s->path);
	rmdir(s->dir);
	return 0;
}

static void dial(struct stand *s)
{
	if (s->peer >= 0)
		close(s->peer);
	s->peer = unix_connect(s->path, NULL);
	assert_true(s->peer >= 0);
}

/* Sends and empties b, with n copies of fd. */
static void send_frames(struct stand *s, struct buf *b, int fd, size_t n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(16 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { b->data, b->len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		for (size_t i = 0; i < n; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
	}
	assert_int_equal(sendmsg(s->peer, &m, MSG_NOSIGNAL), b->len);
	buf_reset(b);
}

static void greet_as(struct stand *s, const char *token, uint32_t version)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	const struct msg_hello m = { version, 0, token };

	msg_put_hello(&b, &m);
	send_frames(s, &b, -1, 0);
}

static void greet(struct stand *s, const char *token)
{
	greet_as(s, token, MSG_VERSION);
}

static void sync_up(struct stand *s)
{
	cleanup_buf struct buf b = BUF_INIT(65536);

	dial(s);
	agent_link_expect(s->link, (uid_t)-1, (pid_t)-1);
	greet(s, "right");
	msg_put_synced(&b);
	send_frames(s, &b, -1, 0);
	assert_told(s, "connected ready ");
	assert_true(agent_link_ready(s->link));
}

/* The old connection is replaced. */
static void sync_up_again(struct stand *s)
{
	dial(s);
	turn(s);
	buf_reset(&s->told);
	sync_up(s);
}

static void greet_of_the_future(struct stand *s)
{
	dial(s);
	greet_as(s, "right", MSG_VERSION + 1);
	assert_told(s, "");
}

/* The next frame that the link has sent. */
static struct frame receive(struct stand *s, struct buf *b)
{
	struct frame f;
	size_t used;

	while (frame_next(b->data ? b->data : "", b->len, &f, &used) == 0) {
		char c;
		assert_int_equal(recv(s->peer, &c, 1, MSG_DONTWAIT), 1);
		buf_addc(b, c);
	}
	return f;
}

static void waits_until_it_knows_whom_to_expect(void **state)
{
	struct stand *s = *state;

	dial(s);
	greet(s, "right");
	assert_told(s, "");
	agent_link_expect(s->link, getuid(), getpid());
	assert_told(s, "connected ");
	assert_false(agent_link_ready(s->link));
	cleanup_buf struct buf b = BUF_INIT(4096);
	struct frame f = receive(s, &b);
	struct msg_config c;
	assert_int_equal(msg_get_config(f.payload, f.len, &c), 0);
	assert_true(c.nofile == 1024 && c.nproc == 100 && c.nice == 5 && c.oom_score_adj == 500);
}

static void modes_are_as_documented(void **state)
{
	struct stand *s = *state;
	struct stat st;
	char dir[160];

	str_fmt(dir, sizeof(dir), "%s/i", s->dir);
	assert_true(stat(dir, &st) == 0 && (st.st_mode & 07777) == 0711);
	assert_true(stat(s->path, &st) == 0 && (st.st_mode & 07777) == 0666);
}

static void refuses_another_process(void **state)
{
	struct stand *s = *state;
	char c;

	agent_link_expect(s->link, getuid(), getpid() + 1);
	dial(s);
	greet(s, "right");
	assert_told(s, "");
	assert_true(recv(s->peer, &c, 1, 0) <= 0);
	agent_link_expect(s->link, getuid() + 1, getpid());
	dial(s);
	assert_told(s, "");
	assert_true(recv(s->peer, &c, 1, 0) <= 0);
}

static void refuses_a_wrong_token(void **state)
{
	struct stand *s = *state;
	char c;

	agent_link_expect(s->link, getuid(), getpid());
	dial(s);
	greet(s, "wrong");
	assert_told(s, "");
	assert_true(recv(s->peer, &c, 1, 0) <= 0);
	sync_up(s);
}

static void takes_started_with_its_pipes(void **state)
{
	struct stand *s = *state;
	cleanup_buf struct buf b = BUF_INIT(65536);
	const struct msg_started m = { "e1", true, 42, 1, 0 };
	int p[2];

	sync_up(s);
	assert_int_equal(pipe(p), 0);
	msg_put_started(&b, &m);
	send_frames(s, &b, p[0], 2);
	assert_told(s, "started:e1:42:1 ");
	assert_true(fcntl(s->out, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(s->out, F_GETFD) & FD_CLOEXEC);
	close(s->out);
	close(s->err);
	close(p[0]);
	close(p[1]);
}

static void byte_by_byte(void **state)
{
	struct stand *s = *state;
	cleanup_buf struct buf b = BUF_INIT(65536), part = BUF_INIT(64);
	const struct msg_started m = { "e1", false, 42, 1, 0 };
	int p[2];

	sync_up(s);
	assert_int_equal(pipe(p), 0);
	msg_put_started(&b, &m);
	for (size_t i = 0; i < b.len; i++) {
		buf_addc(&part, b.data[i]);
		send_frames(s, &part, p[0], i == 0 ? 2 : 0);
		turn(s);
	}
	assert_told(s, "started:e1:42:0 ");
	close(s->out);
	close(s->err);
	close(p[0]);
	close(p[1]);
}

static size_t open_fds(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Each of these ends the connection, tells nothing else, and leaves no descriptor behind. */
static void refuses_what_is_not_the_protocol(void **state)
{
	struct stand *s = *state;
	cleanup_buf struct buf b = BUF_INIT(65536);
	const struct msg_started started = { "e1", false, 42, 1, 0 };
	const struct msg_hello again = { MSG_VERSION, 0, "right" };
	int p[2], file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	size_t before = 0;

	assert_int_equal(pipe(p), 0);
	for (int i = 0; i < 11; i++) {
		int fd = -1;
		size_t n = 0;
		sync_up(s);
		switch (i) {
		case 0: msg_put_hello(&b, &again); break;
		case 1: msg_put_synced(&b); break;
		case 2: msg_put_id(&b, MSG_KILL, "e1"); break;
		case 3: msg_put_started(&b, &started); break;
		case 4: msg_put_started(&b, &started); fd = p[0]; n = 1; break;
		case 5: msg_put_started(&b, &started); fd = p[0]; n = 3; break;
		case 6: msg_put_started(&b, &started); fd = p[1]; n = 2; break;
		case 7: msg_put_started(&b, &started); fd = file; n = 2; break;
		case 8: buf_add(&b, "\0\0\0\0\377\0\0\0", 8); break;
		case 9: buf_add(&b, "\0\0\20\0\1\0\0\0", 8); break;
		case 10: buf_add(&b, "\1\20\0\0\1\0\0\0", 8); for (int k = 0; k < 0x1001; k++) buf_addc(&b, 0); break;
		}
		send_frames(s, &b, fd, n);
		assert_told(s, "lost ");
		assert_false(agent_link_ready(s->link));
		if (i == 0)
			before = open_fds();
		assert_int_equal(open_fds(), before);
	}
	close(p[0]);
	close(p[1]);
	close(file);
}

static void passes_ends_on(void **state)
{
	struct stand *s = *state;
	cleanup_buf struct buf b = BUF_INIT(65536);
	const struct msg_exited a = { "a", MSG_END_EXITED, MSG_WHY_NONE, MSG_STAGE_NONE, 3, 1 };
	const struct msg_exited k = { "b", MSG_END_SIGNALED, MSG_WHY_TIMEOUT, MSG_STAGE_NONE, 9, 1 };
	const struct msg_exited n = { "c", MSG_END_NOT_STARTED, MSG_WHY_NONE, MSG_STAGE_CWD, 2, 1 };
	const struct msg_stdin_taken t = { "a", 5, 10 };
	const struct msg_not_running r = { "z", false };

	sync_up(s);
	msg_put_exited(&b, &a);
	msg_put_exited(&b, &k);
	msg_put_exited(&b, &n);
	msg_put_stdin_taken(&b, &t);
	msg_put_not_running(&b, &r);
	msg_put_id(&b, MSG_SCOPE_ENDED, "s");
	send_frames(s, &b, -1, 0);
	assert_told(s, "exited:a:0:0:3:0:- exited:b:1:1:9:0:- exited:c:2:0:0:2:cwd taken:a:5:10 not_running:z:0 scope_ended:s ");
}

static void calls_become_frames(void **state)
{
	struct stand *s = *state;
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	static char data[MSG_STDIN_MAX + 10];
	const struct exec_spec e = { .exec_id = "x", .scope = "s", .command = "true", .cwd = "/", .timeout_ms = 5 };
	static const uint8_t types[] = { MSG_CONFIG, MSG_EXEC, MSG_STDIN, MSG_STDIN, MSG_SIGNAL, MSG_KILL, MSG_EXIT_ACK, MSG_SCOPE_END };
	const struct exec_ref x = { .exec_id = "x" }, bad = { .exec_id = "../x" };
	err_t *err = NULL;

	assert_int_equal(agent_link_exec(s->link, &e, &err), -1);
	assert_int_equal(err_code(err), ERR_UNAVAILABLE);
	err_free(err);
	sync_up(s);
	assert_int_equal(agent_link_exec(s->link, &e, NULL), 0);
	assert_int_equal(agent_link_stdin(s->link, "x", 0, data, sizeof(data), true, NULL), 0);
	assert_int_equal(agent_link_signal(s->link, &x, 15, NULL), 0);
	assert_int_equal(agent_link_kill(s->link, &x, NULL), 0);
	assert_int_equal(agent_link_exec_ack(s->link, "x", NULL), 0);
	assert_int_equal(agent_link_scope_end(s->link, "s", NULL), 0);
	assert_int_equal(agent_link_scope_end(s->link, "a/b", NULL), -1);
	assert_int_equal(agent_link_signal(s->link, &x, 65, NULL), -1);
	assert_int_equal(agent_link_kill(s->link, &bad, NULL), -1);
	for (size_t i = 0; i < UNIT_LEN(types); i++) {
		struct frame f = receive(s, &b);
		assert_int_equal(f.type, types[i]);
		if (i == 2) {
			struct msg_stdin m;
			assert_int_equal(msg_get_stdin(f.payload, f.len, &m), 0);
			assert_true(m.len == MSG_STDIN_MAX && !m.eof);
		}
		buf_reset(&b);
		turn(s);
	}
}

static void a_clean_command_has_no_environment(void **state)
{
	struct stand *s = *state;
	cleanup_buf struct buf b = BUF_INIT(65536);
	char var[] = "A=1", *env[] = { var, NULL }, **v;
	struct exec_spec e = { .exec_id = "x", .scope = "s", .kind = EXEC_FILE, .command = "true", .cwd = "/", .timeout_ms = 5, .env = env };
	struct msg_exec m;
	err_t *err = NULL;

	sync_up(s);
	receive(s, &b);
	buf_reset(&b);
	assert_int_equal(agent_link_exec(s->link, &e, &err), -1);
	assert_int_equal(err_code(err), ERR_INVALID);
	err_free(err);
	e.env = NULL;
	assert_int_equal(agent_link_exec(s->link, &e, NULL), 0);
	struct frame f = receive(s, &b);
	assert_int_equal(msg_get_exec(f.payload, f.len, &m, &v), 0);
	assert_true(m.clean);
	assert_string_equal(m.scope, "s");
	free(v);
}

/* All that names a command has to agree, or nothing is sent. */
static void a_kill_is_verified(void **state)
{
	struct stand *s = *state;
	cleanup_buf struct buf b = BUF_INIT(65536);
	const struct msg_started m = { "x", true, 42, 1, 0 };
	const struct exec_ref right = { "x", 42 }, untold = { "x", 0 }, wrong = { "x", 43 }, other = { "y", 43 };
	err_t *err = NULL;
	int p[2];

	sync_up(s);
	assert_int_equal(pipe(p), 0);
	msg_put_started(&b, &m);
	send_frames(s, &b, p[0], 2);
	assert_told(s, "started:x:42:1 ");
	assert_int_equal(agent_link_kill(s->link, &wrong, &err), -1);
	assert_int_equal(err_code(err), ERR_CONFLICT);
	assert_string_equal(err_detail(err), "other_process");
	err_free(err);
	assert_int_equal(agent_link_signal(s->link, &wrong, 15, NULL), -1);
	assert_int_equal(agent_link_kill(s->link, &right, NULL), 0);
	assert_int_equal(agent_link_signal(s->link, &untold, 15, NULL), 0);
	assert_int_equal(agent_link_kill(s->link, &other, NULL), 0);   /* the agent says that it does not have it */
	static const uint8_t types[] = { MSG_CONFIG, MSG_KILL, MSG_SIGNAL, MSG_KILL };
	for (size_t i = 0; i < UNIT_LEN(types); i++) {
		assert_int_equal(receive(s, &b).type, types[i]);
		buf_reset(&b);
	}
	close(s->out);
	close(s->err);
	close(p[0]);
	close(p[1]);
	/* what another connection told does not count */
	sync_up_again(s);
	assert_int_equal(agent_link_kill(s->link, &wrong, NULL), 0);
}

/* In a container that is older than this executor. */
static void an_old_agent(void **state)
{
	struct stand *s = *state;
	cleanup_buf struct buf b = BUF_INIT(65536);
	const struct exec_spec e = { .exec_id = "x", .scope = "s", .command = "true", .cwd = "/", .timeout_ms = 5 };
	static const uint8_t exec[] = { 36, 0, 0, 0, MSG_EXEC, 0, 0, 0, 1, 0, 0, 0, 'x', 0, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, '/', 0,
		4, 0, 0, 0, 't', 'r', 'u', 'e', 0, 0, 0, 0, 0 };
	struct msg_config c;
	err_t *err = NULL;

	dial(s);
	agent_link_expect(s->link, (uid_t)-1, (pid_t)-1);
	greet_as(s, "right", 1);
	msg_put_synced(&b);
	send_frames(s, &b, -1, 0);
	assert_told(s, "connected ready ");
	struct frame f = receive(s, &b);
	assert_int_equal(msg_get_config(f.payload, f.len, &c), 0);
	assert_int_equal(c.version, 1);
	buf_reset(&b);
	assert_int_equal(agent_link_exec(s->link, &e, NULL), 0);
	receive(s, &b);
	assert_int_equal(b.len, sizeof(exec));
	assert_memory_equal(b.data, exec, sizeof(exec));
	assert_int_equal(agent_link_scope_end(s->link, "s", &err), -1);
	assert_int_equal(err_code(err), ERR_REFUSED);
	assert_string_equal(err_detail(err), "scope_unsupported");
	err_free(err);
	buf_reset(&b);
	msg_put_id(&b, MSG_SCOPE_ENDED, "s");
	send_frames(s, &b, -1, 0);
	assert_told(s, "lost ");
	greet_of_the_future(s);
}

static void a_peer_that_does_not_read_is_bounded(void **state)
{
	struct stand *s = *state;
	char *text = malloc(1000001);
	const struct exec_spec e = { .exec_id = "x", .scope = "s", .command = text, .cwd = "/", .timeout_ms = 5 };
	err_t *err = NULL;
	int n = 0;

	memset(text, 'x', 1000000);
	text[1000000] = 0;
	sync_up(s);
	while (n < 100 && agent_link_exec(s->link, &e, &err) == 0)
		n++;
	assert_in_range(n, 30, 36);
	assert_int_equal(err_code(err), ERR_BUSY);
	err_free(err);
	free(text);
}

static void too_large_is_told(void **state)
{
	struct stand *s = *state;
	char *big = malloc(FRAME_MAX), *env[] = { big, NULL };
	const struct exec_spec e = { .exec_id = "x", .scope = "s", .command = "x", .cwd = "/", .timeout_ms = 5, .env = env };
	err_t *err = NULL;

	memset(big, '=', FRAME_MAX);
	big[0] = 'A';
	big[FRAME_MAX - 1] = 0;
	sync_up(s);
	assert_int_equal(agent_link_exec(s->link, &e, &err), -1);
	assert_int_equal(err_code(err), ERR_TOO_LARGE);
	err_free(err);
	free(big);
}

static void a_new_connection_replaces_the_old_one(void **state)
{
	struct stand *s = *state;

	sync_up(s);
	int old = s->peer;
	s->peer = -1;
	dial(s);
	greet(s, "right");
	assert_told(s, "lost connected ");
	close(old);
	assert_told(s, "");
	close(s->peer);
	s->peer = -1;
	assert_told(s, "lost ");
}

static void another_expectation_closes(void **state)
{
	struct stand *s = *state;

	sync_up(s);
	agent_link_expect(s->link, getuid(), getpid() + 1);
	assert_told(s, "lost ");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(waits_until_it_knows_whom_to_expect), T(modes_are_as_documented), T(refuses_another_process), T(refuses_a_wrong_token),
		T(takes_started_with_its_pipes), T(byte_by_byte), T(refuses_what_is_not_the_protocol), T(passes_ends_on), T(calls_become_frames),
		T(a_clean_command_has_no_environment), T(a_kill_is_verified), T(an_old_agent),
		T(a_peer_that_does_not_read_is_bounded), T(too_large_is_told), T(a_new_connection_replaces_the_old_one),
		T(another_expectation_closes),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests_name("agent_link", tests, NULL, NULL);
}
