#include "agent/conn.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/execs.h"
#include "agent/poller.h"
#include "agent/secret.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/frame_msg.h"

#define PAUSE_MIN_US 5000
#define PAUSE_MAX_US 200000
#define STEADY_US 1000000      /* a connection that lasted this long was a good one: the next pause is short again */
#define READ_BYTES 4096        /* room for a usual frame; a larger one gets its own room once its length is known */
#define KEEP_BYTES 65536       /* a larger buffer is given back when its frame is done */

enum state {
	CONN_AWAY,
	CONN_GREETED,   /* hello sent, waiting for the configuration */
	CONN_UP,
};

static struct sockaddr_un addr = { .sun_family = AF_UNIX };
static struct watch sock = WATCH_NONE;
static enum state state;
static struct buf in = BUF_INIT(FRAME_HEADER + FRAME_MAX);
static struct buf out = BUF_INIT(4096);       /* one frame on its way */
static int out_fds[2] = { -1, -1 };           /* still to go with its first byte; borrowed */
static bool sync_due, paused;
static uint32_t watching;
static int64_t pause_us, dial_us, since_us;

int conn_init(const char *socket_path)
{
	return str_copy(addr.sun_path, sizeof(addr.sun_path), socket_path);
}

int64_t conn_next_us(void)
{
	return state == CONN_AWAY ? dial_us : INT64_MAX;
}

static void later(void)
{
	int64_t now = clock_boot_us();

	pause_us = pause_us ? pause_us * 2 : PAUSE_MIN_US;
	if (pause_us > PAUSE_MAX_US)
		pause_us = PAUSE_MAX_US;
	dial_us = now + pause_us;
}

static void hang_up(void)
{
	poller_close(&sock);
	buf_free(&in);
	buf_reset(&out);
	out_fds[0] = out_fds[1] = -1;
	if (state == CONN_UP && clock_boot_us() - since_us > STEADY_US)
		pause_us = 0;
	state = CONN_AWAY;
	later();
}

static void watch_for(uint32_t events)
{
	if (events != watching && sock.fd >= 0) {
		watching = events;
		poller_set(&sock, events);
	}
}

/* Requests are left alone while many answers wait, and while borrowed descriptors wait: an acknowledgement would close them. */
static bool may_take(void)
{
	return !execs_crowded() && out_fds[0] < 0;
}

/* ---- sending ---- */

static ssize_t send_some(const void *p, size_t n, const int fds[2])
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)p, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fds[0] >= 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(2 * sizeof(int));
		memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
	}
	return sendmsg(sock.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* 1: all sent. 0: the socket is full. -1: broken. */
static int send_out(void)
{
	while (out.len) {
		ssize_t n = send_some(out.data, out.len, out_fds);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			/* Too many descriptors in flight is a full socket, too; its reader will take them out. */
			return errno == EAGAIN || errno == ETOOMANYREFS ? 0 : -1;
		out_fds[0] = out_fds[1] = -1;
		buf_consume(&out, (size_t)n);
	}
	return 1;
}

static int next_frame(void)
{
	int r = execs_next_frame(&out, out_fds);

	if (r != 0 || !sync_due)
		return r;
	sync_due = false;
	return msg_put_synced(&out) < 0 ? -1 : 1;
}

static void flush_out(void)
{
	int r;

	while ((r = send_out()) > 0 && state == CONN_UP) {
		r = next_frame();
		if (r <= 0)
			break;
	}
	if (r < 0)
		hang_up();
	else
		watch_for((may_take() ? EPOLLIN : 0) | (out.len ? EPOLLOUT : 0));
}

/* ---- frames ---- */

static int take_config(const struct frame *f)
{
	struct msg_config c;

	if (state != CONN_GREETED || msg_get_config(f->payload, f->len, &c) < 0 || c.version != MSG_VERSION)
		return -1;
	execs_configure(&c);
	execs_retell();
	sync_due = true;
	state = CONN_UP;
	return 0;
}

static int take_exec(const struct frame *f)
{
	struct msg_exec m;
	char **vectors;

	if (msg_get_exec(f->payload, f->len, &m, &vectors) < 0)
		return -1;
	int r = execs_exec(&m);
	free(vectors);
	return r;
}

static int take_stdin(const struct frame *f)
{
	struct msg_stdin m;

	return msg_get_stdin(f->payload, f->len, &m) < 0 ? -1 : execs_stdin(&m);
}

static int take_signal(const struct frame *f)
{
	struct msg_signal m;

	return msg_get_signal(f->payload, f->len, &m) < 0 ? -1 : execs_signal(m.id, m.signo);
}

static int take_kill(const struct frame *f)
{
	const char *id;

	return msg_get_id(f->payload, f->len, &id) < 0 ? -1 : execs_kill(id);
}

static int take_ack(const struct frame *f)
{
	const char *id;

	if (msg_get_id(f->payload, f->len, &id) < 0)
		return -1;
	execs_ack(id);
	return 0;
}

static int take_scope_end(const struct frame *f)
{
	const char *scope;

	return msg_get_id(f->payload, f->len, &scope) < 0 ? -1 : execs_scope_end(scope);
}

static int take_frame(const struct frame *f)
{
	static int (*const take[])(const struct frame *f) = {
		[MSG_CONFIG] = take_config, [MSG_EXEC] = take_exec, [MSG_STDIN] = take_stdin,
		[MSG_SIGNAL] = take_signal, [MSG_KILL] = take_kill, [MSG_EXIT_ACK] = take_ack,
		[MSG_SCOPE_END] = take_scope_end,
	};

	if (f->nfds || f->type >= sizeof(take) / sizeof(take[0]) || !take[f->type])
		return -1;
	if (f->type != MSG_CONFIG && state != CONN_UP)
		return -1;
	return take[f->type](f);
}

/* 0, or -1: the connection is of no use any more. */
static int take_frames(void)
{
	struct frame f;
	size_t at = 0, used;
	int r = 0;

	while (in.len && !(paused = !may_take()) && (r = frame_next(in.data + at, in.len - at, &f, &used)) > 0) {
		if (take_frame(&f) < 0)
			return -1;
		at += used;
	}
	buf_consume(&in, at);
	if (in.len == 0 && in.alloc > KEEP_BYTES)
		buf_free(&in);
	return r < 0 ? -1 : 0;
}

/* What the frame at the front still lacks, so that a large one is read into place and not grown step by step. */
static size_t wanted(void)
{
	const uint8_t *h = (const uint8_t *)in.data;

	if (in.len < FRAME_HEADER)
		return READ_BYTES;
	uint32_t len = h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 24;
	size_t total = (size_t)FRAME_HEADER + (len > FRAME_MAX ? 0 : len);
	return total > in.len && total - in.len > READ_BYTES ? total - in.len : READ_BYTES;
}

static int read_some(void)
{
	size_t n = wanted();

	if (n > in.cap - in.len)
		n = in.cap - in.len;
	if (n == 0 || buf_reserve(&in, n) < 0)
		return -1;
	ssize_t r = recv(sock.fd, in.data + in.len, n, MSG_DONTWAIT);
	if (r < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (r == 0)
		return -1;
	in.len += (size_t)r;
	return 0;
}

static void socket_ready(struct watch *w, uint32_t events)
{
	(void)w;
	if (events & EPOLLIN ? read_some() < 0 || take_frames() < 0 : events & (EPOLLHUP | EPOLLERR))
		hang_up();
}

/* ---- dialling ---- */

static int greet(void)
{
	const struct msg_hello m = { MSG_VERSION, execs_retell(), secret_token() };

	if (msg_put_hello(&out, &m) < 0)
		return -1;
	state = CONN_GREETED;
	return 0;
}

static void dial(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	watching = EPOLLIN;
	if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    poller_add(&sock, fd, EPOLLIN, socket_ready) < 0) {
		if (fd >= 0)
			close(fd);
		later();
		return;
	}
	since_us = clock_boot_us();
	paused = sync_due = false;
	if (greet() < 0)
		hang_up();
}

void conn_run(int64_t now_us)
{
	if (state == CONN_AWAY && now_us >= dial_us)
		dial();
	/* Answers were sent: requests that were left in the buffer can be taken now. */
	if (sock.fd >= 0 && paused && may_take() && take_frames() < 0)
		hang_up();
	if (sock.fd >= 0)
		flush_out();
}
