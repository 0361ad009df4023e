#include "provider/agent_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "core/frame_msg.h"
#include "core/unixsock.h"
#include "provider/exec_groups.h"

#define DIR_MAX 100
#define WAITING_MAX 4
#define IN_FRAME_MAX 4096            /* the agent's frames are small */
#define IN_BYTES 65536               /* read in one turn of the loop */
#define OUT_MAX (32u << 20)
#define OUT_KEEP 65536
#define FDS_MAX 8
#define GREETING_MS 10000
#define ACCEPT_PAUSE_MS 100

enum link_state {
	LINK_AWAY,
	LINK_GREETING,   /* connected, its hello is awaited */
	LINK_SYNCING,    /* configured, tells what it holds */
	LINK_READY,
};

struct waiting {
	int fd;
	struct unix_peer peer;
};

struct agent_link {
	struct loop *loop;
	struct agent_link_events ev;
	void *arg;
	struct agent_link_limits limits;
	char path[DIR_MAX + 3];
	int listen_fd;
	struct loop_io *listen_io;
	struct loop_timer *timer;        /* end of the greeting; end of a pause in accepting */
	bool expecting;
	uid_t uid;
	pid_t pid;
	struct waiting waiting[WAITING_MAX];
	size_t waiting_n;
	enum link_state state;
	struct unix_peer peer;
	int fd;
	struct loop_io *io;
	struct buf in, out;
	int fds[FDS_MAX];                /* received, not yet claimed by a frame */
	size_t fds_n;
	uint32_t version;                /* that the agent speaks */
	struct exec_groups groups;       /* told in this connection, not yet acknowledged as ended */
	bool complained;                 /* one line of log for a series of refusals */
};

static void complain(struct agent_link *k, const char *why)
{
	if (!k->complained)
		log_kv(LOG_WARN, "agent_refused", "socket", k->path, "why", why, NULL);
	k->complained = true;
}

static void close_fds(struct agent_link *k)
{
	while (k->fds_n)
		close(k->fds[--k->fds_n]);
}

/* ---- connection ---- */

/* Without a callback. */
static void disconnect(struct agent_link *k)
{
	loop_io_free(k->io);
	k->io = NULL;
	if (k->fd >= 0)
		close(k->fd);
	k->fd = -1;
	close_fds(k);
	buf_free(&k->in);
	buf_free(&k->out);
	exec_groups_clear(&k->groups);
	k->state = LINK_AWAY;
}

static void drop(struct agent_link *k, const char *why)
{
	bool was_connected = k->state >= LINK_SYNCING;

	if (why)
		complain(k, why);
	disconnect(k);
	if (was_connected)
		k->ev.lost(k->arg);
}

/* An error shows again as a hang-up in the loop, which is where it is dealt with. */
static void flush_out(struct agent_link *k)
{
	while (k->out.len) {
		ssize_t n = send(k->fd, k->out.data, k->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		buf_consume(&k->out, (size_t)n);
	}
	if (k->out.len == 0 && k->out.alloc > OUT_KEEP)
		buf_free(&k->out);
	loop_io_set(k->io, LOOP_READ | (k->out.len ? LOOP_WRITE : 0));
}

/* ---- frames of the agent ---- */

static int take_hello(struct agent_link *k, const struct frame *f)
{
	const struct agent_link_limits *l = &k->limits;
	struct msg_hello m;

	if (k->state != LINK_GREETING || msg_get_hello(f->payload, f->len, &m) < 0)
		return -1;
	if ((m.version != MSG_VERSION && m.version != MSG_VERSION_OLD) || k->ev.check_token(k->arg, m.token) < 0)
		return -1;
	const struct msg_config c = { m.version, l->nofile, l->nproc, l->nice, l->oom_score_adj };
	if (msg_put_config(&k->out, &c) < 0)
		return -1;
	k->version = m.version;
	k->state = LINK_SYNCING;
	k->complained = false;
	loop_timer_set(k->timer, -1);
	flush_out(k);
	k->ev.connected(k->arg);
	return 0;
}

static int take_synced(struct agent_link *k, const struct frame *f)
{
	if (k->state != LINK_SYNCING || msg_get_synced(f->payload, f->len) < 0)
		return -1;
	k->state = LINK_READY;
	k->ev.ready(k->arg);
	return 0;
}

/* The agent may send whatever it likes: only the read end of a pipe is of use, and it must not make a reader wait. */
static bool is_read_end(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode) || flags < 0 || (flags & O_ACCMODE) != O_RDONLY)
		return false;
	return flags & O_NONBLOCK || fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

static int take_started(struct agent_link *k, const struct frame *f)
{
	struct msg_started m;

	if (msg_get_started(f->payload, f->len, &m) < 0 || f->nfds != 2 || k->fds_n < 2)
		return -1;
	if (!is_read_end(k->fds[0]) || !is_read_end(k->fds[1]) || exec_groups_note(&k->groups, m.id, m.pgid) < 0)
		return -1;
	int out = k->fds[0], err = k->fds[1];
	k->fds_n -= 2;
	memmove(k->fds, k->fds + 2, k->fds_n * sizeof(k->fds[0]));
	const struct exec_started s = { m.started_wall_ms, m.pgid, m.stdin_taken, m.adopted };
	k->ev.started(k->arg, m.id, &s, out, err);
	return 0;
}

static int take_exited(struct agent_link *k, const struct frame *f)
{
	static const enum exec_end end[] = {
		[MSG_END_EXITED] = EXEC_EXITED, [MSG_END_SIGNALED] = EXEC_SIGNALED, [MSG_END_NOT_STARTED] = EXEC_NOT_STARTED,
	};
	static const enum exec_why why[] = {
		[MSG_WHY_NONE] = EXEC_WHY_NONE, [MSG_WHY_TIMEOUT] = EXEC_WHY_TIMEOUT, [MSG_WHY_KILLED] = EXEC_WHY_KILLED,
	};
	struct msg_exited m;

	if (msg_get_exited(f->payload, f->len, &m) < 0)
		return -1;
	bool not_started = m.end == MSG_END_NOT_STARTED;
	const struct exec_exited e = {
		.end = end[m.end], .why = why[m.why], .code = not_started ? 0 : m.code, .ended_wall_ms = m.ended_wall_ms,
		.error = not_started ? m.code : 0, .stage = not_started ? msg_stage_name(m.stage) : NULL,
	};
	k->ev.exited(k->arg, m.id, &e);
	return 0;
}

static int take_stdin_taken(struct agent_link *k, const struct frame *f)
{
	struct msg_stdin_taken m;

	if (msg_get_stdin_taken(f->payload, f->len, &m) < 0)
		return -1;
	k->ev.stdin_taken(k->arg, m.id, m.taken, m.window);
	return 0;
}

static int take_not_running(struct agent_link *k, const struct frame *f)
{
	struct msg_not_running m;

	if (msg_get_not_running(f->payload, f->len, &m) < 0)
		return -1;
	k->ev.not_running(k->arg, m.id, m.known);
	return 0;
}

static int take_scope_ended(struct agent_link *k, const struct frame *f)
{
	const char *scope;

	if (k->version == MSG_VERSION_OLD || msg_get_id(f->payload, f->len, &scope) < 0)
		return -1;
	k->ev.scope_ended(k->arg, scope);
	return 0;
}

static int take_frame(struct agent_link *k, const struct frame *f)
{
	static int (*const take[])(struct agent_link *k, const struct frame *f) = {
		[MSG_HELLO] = take_hello, [MSG_SYNCED] = take_synced, [MSG_STARTED] = take_started, [MSG_EXITED] = take_exited,
		[MSG_STDIN_TAKEN] = take_stdin_taken, [MSG_NOT_RUNNING] = take_not_running,
		[MSG_SCOPE_ENDED] = take_scope_ended,
	};

	if (f->type >= sizeof(take) / sizeof(take[0]) || !take[f->type])
		return -1;
	if (f->nfds != (f->type == MSG_STARTED ? 2 : 0))
		return -1;
	if (f->type != MSG_HELLO && k->state < LINK_SYNCING)
		return -1;
	return take[f->type](k, f);
}

/* Of the frame that is still coming: known from its header. */
static bool is_too_long(const struct buf *in)
{
	const uint8_t *h = (const uint8_t *)in->data;

	return in->len >= FRAME_HEADER && (h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 24) > IN_FRAME_MAX;
}

static int take_frames(struct agent_link *k)
{
	struct frame f;
	size_t at = 0, used;
	int r;

	while ((r = frame_next(k->in.data + at, k->in.len - at, &f, &used)) > 0) {
		if (f.len > IN_FRAME_MAX || take_frame(k, &f) < 0)
			return -1;
		at += used;
	}
	buf_consume(&k->in, at);
	return r < 0 || is_too_long(&k->in) ? -1 : 0;
}

/* Descriptors are taken in whatever happens next; too many are an error. */
static int take_fds(struct agent_link *k, struct msghdr *m)
{
	int r = m->msg_flags & MSG_CTRUNC ? -1 : 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (k->fds_n < FDS_MAX) {
				k->fds[k->fds_n++] = fd;
			} else {
				close(fd);
				r = -1;
			}
		}
	}
	return r;
}

/* 0; -1 at the end of the connection; -2 for a bad peer */
static int read_some(struct agent_link *k)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FRAME_MAX_FDS * sizeof(int))];
	} control;

	if (buf_reserve(&k->in, IN_BYTES) < 0)
		return -2;
	struct iovec iov = { k->in.data + k->in.len, IN_BYTES };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(k->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (take_fds(k, &m) < 0)
		return -2;
	if (n == 0)
		return -1;
	k->in.len += (size_t)n;
	return take_frames(k) < 0 ? -2 : 0;
}

static void on_socket(void *arg, int fd, int events)
{
	struct agent_link *k = arg;

	(void)fd;
	int r = events & LOOP_READ ? read_some(k) : 0;
	if (r < 0)
		drop(k, r == -2 ? "its frames or its token are not right" : NULL);
	else if (events & LOOP_WRITE)
		flush_out(k);
}

/* ---- who is let in ---- */

static bool is_expected(const struct agent_link *k, const struct unix_peer *p)
{
	return (k->uid == (uid_t)-1 || k->uid == p->uid) && (k->pid == (pid_t)-1 || k->pid == p->pid);
}

/* The fd is the link's in any case. */
static void let_in(struct agent_link *k, int fd, const struct unix_peer *peer)
{
	if (!is_expected(k, peer)) {
		complain(k, "it is not the instance's first process");
		close(fd);
		return;
	}
	if (k->state != LINK_AWAY)
		drop(k, NULL);
	k->fd = fd;
	k->peer = *peer;
	k->state = LINK_GREETING;
	k->io = loop_io_new(k->loop, fd, LOOP_READ, on_socket, k);
	if (!k->io)
		disconnect(k);
	else
		loop_timer_set(k->timer, GREETING_MS);
}

static void let_wait(struct agent_link *k, int fd, const struct unix_peer *peer)
{
	if (k->waiting_n == WAITING_MAX) {
		close(k->waiting[0].fd);
		memmove(k->waiting, k->waiting + 1, --k->waiting_n * sizeof(k->waiting[0]));
	}
	k->waiting[k->waiting_n++] = (struct waiting){ fd, *peer };
}

static void on_connection(void *arg, int listen_fd, int events)
{
	struct agent_link *k = arg;
	struct unix_peer peer;

	(void)events;
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		/* Out of descriptors: it stays in the queue; do not spin on it. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			loop_io_set(k->listen_io, 0);
			loop_timer_set(k->timer, ACCEPT_PAUSE_MS);
		}
		return;
	}
	if (unix_peer(fd, &peer, NULL) < 0)
		close(fd);
	else if (k->expecting)
		let_in(k, fd, &peer);
	else
		let_wait(k, fd, &peer);
}

static void on_timer(void *arg)
{
	struct agent_link *k = arg;

	loop_io_set(k->listen_io, LOOP_READ);
	if (k->state == LINK_GREETING)
		drop(k, "it does not say hello");
}

void agent_link_expect(struct agent_link *k, uid_t uid, pid_t pid)
{
	k->expecting = true;
	k->uid = uid;
	k->pid = pid;
	/* Ends in on_socket(), as any other hang-up. */
	if (k->state != LINK_AWAY && !is_expected(k, &k->peer))
		shutdown(k->fd, SHUT_RDWR);
	for (size_t i = 0; i < k->waiting_n; i++) {
		if (k->state == LINK_AWAY)
			let_in(k, k->waiting[i].fd, &k->waiting[i].peer);
		else
			close(k->waiting[i].fd);
	}
	k->waiting_n = 0;
}

/* ---- life ---- */

static int listen_in(struct agent_link *k, const char *dir, err_t **err)
{
	if (strlen(dir) > DIR_MAX)
		return err_set(err, ERR_INVALID, NULL, "agent directory has more than %d bytes", DIR_MAX);
	if (mkdir(dir, 0711) < 0 && errno != EEXIST)
		return err_sys(err, errno, "cannot make %s", dir);
	/* The mode counts, not what the umask left of it. */
	if (chmod(dir, 0711) < 0)
		return err_sys(err, errno, "cannot set the mode of %s", dir);
	if (str_fmt(k->path, sizeof(k->path), "%s/s", dir) < 0)
		return err_set(err, ERR_INVALID, NULL, "agent directory is too long");
	k->listen_fd = unix_listen(k->path, 0666, 4, err);
	return k->listen_fd < 0 ? -1 : 0;
}

struct agent_link *agent_link_new(struct loop *l, const char *dir, const struct agent_link_limits *limits,
		const struct agent_link_events *ev, void *arg, err_t **err)
{
	struct agent_link *k = calloc(1, sizeof(*k));

	if (!k) {
		err_set(err, ERR_NO_MEMORY, NULL, "no memory for an agent link");
		return NULL;
	}
	k->loop = l;
	k->ev = *ev;
	k->arg = arg;
	k->limits = *limits;
	k->fd = k->listen_fd = -1;
	exec_groups_init(&k->groups);
	buf_init(&k->in, IN_BYTES + FRAME_HEADER + IN_FRAME_MAX);
	buf_init(&k->out, OUT_MAX);
	if (listen_in(k, dir, err) < 0) {
		agent_link_free(k, false);
		return NULL;
	}
	k->timer = loop_timer_new(l, on_timer, k);
	k->listen_io = loop_io_new(l, k->listen_fd, LOOP_READ, on_connection, k);
	if (!k->timer || !k->listen_io) {
		err_set(err, ERR_NO_MEMORY, NULL, "cannot watch %s", k->path);
		agent_link_free(k, true);
		return NULL;
	}
	return k;
}

void agent_link_free(struct agent_link *k, bool remove)
{
	if (!k)
		return;
	disconnect(k);
	while (k->waiting_n)
		close(k->waiting[--k->waiting_n].fd);
	loop_io_free(k->listen_io);
	loop_timer_free(k->timer);
	if (k->listen_fd >= 0) {
		close(k->listen_fd);
		if (remove)
			unlink(k->path);
	}
	free(k);
}

bool agent_link_ready(const struct agent_link *k)
{
	return k->state == LINK_READY;
}

/* ---- calls ---- */

/* The common end of all calls: `put` is what the encoder said. */
static int sent(struct agent_link *k, int put, err_t **err)
{
	if (put < 0)
		return err_set(err, ERR_INVALID, NULL, "the agent protocol cannot carry this request");
	flush_out(k);
	return 0;
}

/* Commands that the agent has told can be spoken of while it tells the rest; a new one only when it is known that it has not got it. */
static int usable(struct agent_link *k, enum link_state from, size_t bytes, err_t **err)
{
	if (k->state < from)
		return err_set(err, ERR_UNAVAILABLE, NULL, "the instance's agent is not connected");
	if (bytes + FRAME_HEADER > OUT_MAX - k->out.len)
		return err_set(err, ERR_BUSY, NULL, "too much waits to be sent to the instance's agent");
	return 0;
}

/* An upper bound of the frame's payload. */
static size_t exec_bytes(const struct exec_spec *s)
{
	size_t n = 384 + strlen(s->exec_id) + strlen(s->scope) + strlen(s->cwd) + (s->command ? strlen(s->command) : 0);

	for (char *const *v = s->argv; !s->command && v && *v; v++)
		n += strlen(*v) + 5;
	for (char *const *v = s->env; v && *v; v++)
		n += strlen(*v) + 5;
	return n;
}

int agent_link_exec(struct agent_link *k, const struct exec_spec *s, err_t **err)
{
	const struct msg_exec m = {
		.id = s->exec_id, .scope = s->scope, .clean = s->kind == EXEC_FILE, .command = s->command, .cwd = s->cwd, .make_cwd = s->make_cwd, .stdin_open = s->stdin_open,
		.timeout_ms = s->timeout_ms, .argv = s->command ? NULL : s->argv, .env = s->env,
	};
	size_t n = exec_bytes(s);

	if (n > FRAME_MAX)
		return err_set(err, ERR_TOO_LARGE, NULL, "command and environment have more than %u bytes", FRAME_MAX);
	if (usable(k, LINK_READY, n, err) < 0)
		return -1;
	return sent(k, k->version == MSG_VERSION_OLD ? msg_put_exec_old(&k->out, &m) : msg_put_exec(&k->out, &m), err);
}

int agent_link_exec_ack(struct agent_link *k, const char *exec_id, err_t **err)
{
	if (usable(k, LINK_SYNCING, MSG_ID_MAX + 32, err) < 0)
		return -1;
	exec_groups_forget(&k->groups, exec_id);
	return sent(k, msg_put_id(&k->out, MSG_EXIT_ACK, exec_id), err);
}

int agent_link_stdin(struct agent_link *k, const char *exec_id, uint64_t offset, const void *data, size_t n, bool eof, err_t **err)
{
	const char *p = data ? data : "";
	int put;

	do {
		size_t part = n < MSG_STDIN_MAX ? n : MSG_STDIN_MAX;
		const struct msg_stdin m = { .id = exec_id, .offset = offset, .eof = eof && part == n, .data = p, .len = part };
		if (usable(k, LINK_SYNCING, part + 128, err) < 0)
			return -1;
		put = msg_put_stdin(&k->out, &m);
		p += part;
		offset += part;
		n -= part;
	} while (n && put == 0);
	return sent(k, put, err);
}

int agent_link_signal(struct agent_link *k, const struct exec_ref *x, int signo, err_t **err)
{
	const struct msg_signal m = { x->exec_id, signo };

	if (usable(k, LINK_SYNCING, MSG_ID_MAX + 32, err) < 0 || exec_groups_verify(&k->groups, x, err) < 0)
		return -1;
	return sent(k, msg_put_signal(&k->out, &m), err);
}

int agent_link_kill(struct agent_link *k, const struct exec_ref *x, err_t **err)
{
	if (usable(k, LINK_SYNCING, MSG_ID_MAX + 32, err) < 0 || exec_groups_verify(&k->groups, x, err) < 0)
		return -1;
	return sent(k, msg_put_id(&k->out, MSG_KILL, x->exec_id), err);
}

int agent_link_scope_end(struct agent_link *k, const char *scope, err_t **err)
{
	if (usable(k, LINK_READY, MSG_ID_MAX + 32, err) < 0)
		return -1;
	if (k->version == MSG_VERSION_OLD)
		return err_set(err, ERR_REFUSED, "scope_unsupported", "the instance's agent is older than scopes");
	return sent(k, msg_put_id(&k->out, MSG_SCOPE_END, scope), err);
}
