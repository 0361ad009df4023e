#include "agent/execs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/feed.h"
#include "agent/killer.h"
#include "agent/launch.h"
#include "agent/scopes.h"
#include "agent/supervisor.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/str.h"

#define REPLIES_MAX 256

enum state {
	EXEC_STARTING,   /* forked; whether its program runs is not known yet */
	EXEC_RUNNING,
	EXEC_ENDED,      /* leader reaped, or never was */
};

struct exec {
	struct list node;
	char id[MSG_ID_MAX + 1];
	char scope[MSG_ID_MAX + 1];
	enum state state;
	pid_t supervisor;              /* 0: gone */
	pid_t leader;                  /* valid until state EXEC_ENDED */
	struct launch *launch;         /* until the supervisor is gone */
	struct watch report;
	struct watch out, err;         /* read ends: held for the executor; drained here once the end is acknowledged */
	struct feed in;
	struct kill_job kill;
	int64_t deadline_us;
	int64_t started_wall_ms;
	int early_signal;              /* asked for while starting */
	enum msg_stage failed_stage;
	int failed_errno;
	struct msg_exited end;         /* EXEC_ENDED; its id is not used */
	bool ran;                      /* its program was started: it has an EXITED of its own and pipes to hand over */
	bool tell_started, tell_exited;
	bool adopted;                  /* told before, to another executor */
	bool acked;
	bool let_go;                   /* its supervisor has to hear that the leader may be reaped */
};

static struct list execs = { &execs, &execs };
static size_t entries, unacked;
static struct msg_config config;

/* Answers that belong to no command of ours, and those about ended ones. */
static struct {
	char id[MSG_ID_MAX + 1];
	bool known;
} replies[REPLIES_MAX];
static size_t replies_n;

static struct exec *find(const char *id)
{
	list_for_each(n, &execs) {
		struct exec *e = list_entry(n, struct exec, node);
		if (str_eq(e->id, id))
			return e;
	}
	return NULL;
}

/* Or what else of ours no kill may take. */
static bool is_supervisor(pid_t pid)
{
	if (scopes_is_remover(pid))
		return true;
	list_for_each(n, &execs) {
		if (list_entry(n, struct exec, node)->supervisor == pid)
			return true;
	}
	return false;
}

void execs_init(void)
{
	launch_init();
	killer_init(is_supervisor);
}

void execs_configure(const struct msg_config *c)
{
	config = *c;
}

/* ---- the end of a command ---- */

/* The end is said when the leader was reaped and, if the tree was to be killed, nothing of it is left. */
static void maybe_tell_end(struct exec *e)
{
	if (e->state == EXEC_ENDED && !e->acked && !(e->end.why != MSG_WHY_NONE && e->supervisor))
		e->tell_exited = true;
}

static void ended(struct exec *e, enum msg_end how, int code)
{
	if (e->state == EXEC_ENDED)
		return;
	e->state = EXEC_ENDED;
	e->deadline_us = INT64_MAX;
	e->end.end = how;
	e->end.code = code;
	e->end.stage = how == MSG_END_NOT_STARTED ? e->failed_stage : MSG_STAGE_NONE;
	e->end.ended_wall_ms = clock_wall_ms();
	feed_close(&e->in);
	maybe_tell_end(e);
}

static void leader_status(struct exec *e, int status)
{
	if (e->failed_stage != MSG_STAGE_NONE)
		ended(e, MSG_END_NOT_STARTED, e->failed_errno);
	else if (WIFSIGNALED(status))
		ended(e, MSG_END_SIGNALED, WTERMSIG(status));
	else
		ended(e, MSG_END_EXITED, WEXITSTATUS(status));
}

static void running(struct exec *e, pid_t leader)
{
	e->leader = leader;
	launch_running(e->launch);
	if (e->failed_stage != MSG_STAGE_NONE)
		return;
	e->state = EXEC_RUNNING;
	e->ran = e->tell_started = true;
	if (e->early_signal)
		kill(-leader, e->early_signal);
}

static void take_report(struct exec *e, const struct report *r)
{
	switch ((enum report_kind)r->kind) {
	case REPORT_FAILED:
		e->failed_stage = (enum msg_stage)r->stage;
		e->failed_errno = r->value;
		break;
	case REPORT_LEADER:
		running(e, r->value);
		break;
	case REPORT_ENDED:
		leader_status(e, r->value);
		e->let_go = true;
		break;
	}
}

static void read_reports(struct exec *e)
{
	struct report r;
	ssize_t n;

	while (e->report.fd >= 0 && (n = recv(e->report.fd, &r, sizeof(r), MSG_DONTWAIT)) != -1) {
		if (n == 0)
			poller_close(&e->report);
		else if (n == sizeof(r))
			take_report(e, &r);
	}
}

static void report_ready(struct watch *w, uint32_t events)
{
	(void)events;
	read_reports(list_entry(w, struct exec, report));
}

void execs_child_ended(pid_t pid, bool killed)
{
	struct exec *e = NULL;

	scopes_child_ended(pid);
	list_for_each(n, &execs) {
		e = list_entry(n, struct exec, node);
		if (e->supervisor == pid)
			break;
		e = NULL;
	}
	if (!e)
		return;
	read_reports(e);
	poller_close(&e->report);
	e->supervisor = 0;
	launch_free(steal_ptr(&e->launch));
	killer_del(&e->kill);
	if (killed || (e->state != EXEC_ENDED && e->failed_stage == MSG_STAGE_NONE))
		killer_strays();
	if (e->state != EXEC_ENDED)
		leader_status(e, SIGKILL);
	if (e->end.why != MSG_WHY_NONE)   /* else it was told when the leader was reaped */
		maybe_tell_end(e);
}

/* ---- frames of the executor ---- */

static void hold_pipe(struct watch *w, int fd)
{
	w->fd = fd;
}

static void not_started(struct exec *e, enum msg_stage stage, int errnum)
{
	e->failed_stage = stage;
	e->failed_errno = errnum;
	ended(e, MSG_END_NOT_STARTED, errnum);
}

static void start(struct exec *e, const struct msg_exec *m)
{
	struct launched l;

	if (scopes_over(m->scope)) {
		not_started(e, MSG_STAGE_AGENT, ECANCELED);
		return;
	}
	if (unacked > EXECS_MAX || entries > EXECS_ENTRIES_MAX) {
		not_started(e, MSG_STAGE_AGENT, EAGAIN);
		return;
	}
	enum msg_stage stage = launch_start(m, &config, &l);
	if (stage != MSG_STAGE_NONE) {
		not_started(e, stage, errno);
		return;
	}
	e->supervisor = l.supervisor;
	e->launch = l.launch;
	e->started_wall_ms = clock_wall_ms();
	e->deadline_us = clock_boot_us() + m->timeout_ms * 1000;
	kill_job_init(&e->kill, l.supervisor);
	hold_pipe(&e->out, l.out);
	hold_pipe(&e->err, l.err);
	if (l.in >= 0 && feed_open(&e->in, l.in) < 0)
		close(l.in);
	if (poller_add(&e->report, l.report, EPOLLIN, report_ready) < 0) {
		e->failed_stage = MSG_STAGE_AGENT;
		e->failed_errno = errno;
		close(l.report);
		killer_add(&e->kill);
	}
}

static void reply(const char *id, bool known)
{
	if (replies_n == REPLIES_MAX)
		return;
	str_copy(replies[replies_n].id, sizeof(replies[0].id), id);
	replies[replies_n++].known = known;
}

static void retell(struct exec *e)
{
	if (e->acked) {
		reply(e->id, true);
		return;
	}
	e->tell_started = e->ran;
	/* What was taken and not read yet is still held: the next executor must not assume an empty window. */
	e->in.news = true;
	maybe_tell_end(e);
}

int execs_exec(const struct msg_exec *m)
{
	struct exec *e = find(m->id);

	if (e) {
		retell(e);
		return 0;
	}
	if (unacked >= EXECS_REFUSED_MAX)
		return -1;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -1;
	str_copy(e->id, sizeof(e->id), m->id);
	str_copy(e->scope, sizeof(e->scope), m->scope);
	e->deadline_us = INT64_MAX;
	e->report = e->out = e->err = (struct watch)WATCH_NONE;
	feed_init(&e->in);
	kill_job_init(&e->kill, 0);
	list_add_tail(&execs, &e->node);
	entries++;
	unacked++;
	start(e, m);
	return 0;
}

/* The command if it runs (or starts); else the answer is on its way. */
static struct exec *running_or_reply(const char *id)
{
	struct exec *e = find(id);

	if (e && e->state != EXEC_ENDED)
		return e;
	reply(id, e != NULL);
	return NULL;
}

int execs_stdin(const struct msg_stdin *m)
{
	struct exec *e = running_or_reply(m->id);

	return e ? feed_put(&e->in, m) : 0;
}

int execs_signal(const char *id, int signo)
{
	struct exec *e = running_or_reply(id);

	if (e && e->state == EXEC_STARTING)
		e->early_signal = signo;
	else if (e)
		kill(-e->leader, signo);
	return 0;
}

/* Of an ended command what it left in the background. */
static void kill_tree(struct exec *e, enum msg_why why)
{
	if (e->state != EXEC_ENDED && e->end.why == MSG_WHY_NONE)
		e->end.why = why;
	if (e->supervisor)
		killer_add(&e->kill);
}

int execs_kill(const char *id)
{
	struct exec *e = find(id);

	if (e)
		kill_tree(e, MSG_WHY_KILLED);
	if (!e || e->state == EXEC_ENDED)
		reply(id, e != NULL);
	return 0;
}

static bool is_busy(const char *scope)
{
	if (killer_has_strays())
		return true;   /* of whichever scope */
	list_for_each(n, &execs) {
		const struct exec *e = list_entry(n, struct exec, node);
		if (e->supervisor && str_eq(e->scope, scope))
			return true;
	}
	return false;
}

int execs_scope_end(const char *scope)
{
	if (scopes_end(scope) < 0)
		return -1;
	list_for_each(n, &execs) {
		struct exec *e = list_entry(n, struct exec, node);
		if (str_eq(e->scope, scope))
			kill_tree(e, MSG_WHY_KILLED);
	}
	return 0;
}

/* What background processes write after the end is nobody's: without a reader they would be killed by SIGPIPE or wait for ever. */
static void drain(struct watch *w, uint32_t events)
{
	static char sink[4096];
	ssize_t n = read(w->fd, sink, sizeof(sink));

	(void)events;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		poller_close(w);
}

static void release_pipe(struct exec *e, struct watch *w)
{
	int fd = w->fd;

	w->fd = -1;
	if (fd >= 0 && (!e->supervisor || poller_add(w, fd, EPOLLIN, drain) < 0))
		close(fd);
}

void execs_ack(const char *id)
{
	struct exec *e = find(id);

	if (!e || e->state != EXEC_ENDED || e->acked)
		return;
	e->acked = true;
	e->tell_started = e->tell_exited = false;
	unacked--;
	release_pipe(e, &e->out);
	release_pipe(e, &e->err);
}

/* ---- what is to be told ---- */

uint32_t execs_retell(void)
{
	uint32_t n = 0;

	replies_n = 0;
	scopes_unasked();
	list_for_each(it, &execs) {
		struct exec *e = list_entry(it, struct exec, node);
		if (e->acked)
			continue;
		n++;
		e->adopted = e->ran;
		retell(e);
	}
	return n;
}

bool execs_crowded(void)
{
	return replies_n >= REPLIES_MAX / 2;
}

static int put_started(struct exec *e, struct buf *out, int fds[2])
{
	const struct msg_started m = { e->id, e->adopted, e->leader, e->started_wall_ms, e->in.taken };

	if (msg_put_started(out, &m) < 0)
		return -1;
	fds[0] = e->out.fd;
	fds[1] = e->err.fd;
	e->tell_started = false;
	e->adopted = true;
	return 1;
}

static int put_exited(struct exec *e, struct buf *out)
{
	e->end.id = e->id;
	if (msg_put_exited(out, &e->end) < 0)
		return -1;
	e->tell_exited = false;
	return 1;
}

static int put_taken(struct exec *e, struct buf *out)
{
	const struct msg_stdin_taken m = { e->id, e->in.taken, feed_window(&e->in) };

	if (msg_put_stdin_taken(out, &m) < 0)
		return -1;
	e->in.news = false;
	return 1;
}

static int put_reply(struct buf *out)
{
	const struct msg_not_running m = { replies[0].id, replies[0].known };

	if (msg_put_not_running(out, &m) < 0)
		return -1;
	replies_n--;
	memmove(&replies[0], &replies[1], replies_n * sizeof(replies[0]));
	return 1;
}

/* After the ends of its commands. */
static int put_scope_ended(struct buf *out)
{
	const char *scope = scopes_to_tell();

	if (!scope)
		return 0;
	if (msg_put_id(out, MSG_SCOPE_ENDED, scope) < 0)
		return -1;
	scopes_told();
	return 1;
}

int execs_next_frame(struct buf *out, int fds[2])
{
	fds[0] = fds[1] = -1;
	list_for_each(n, &execs) {
		struct exec *e = list_entry(n, struct exec, node);
		if (e->tell_started)
			return put_started(e, out, fds);
		if (e->tell_exited)
			return put_exited(e, out);
		if (e->in.news && e->state == EXEC_RUNNING)
			return put_taken(e, out);
	}
	return replies_n ? put_reply(out) : put_scope_ended(out);
}

/* ---- time ---- */

int64_t execs_next_us(void)
{
	int64_t next = killer_next_us(), scopes = scopes_next_us();

	if (scopes < next)
		next = scopes;

	list_for_each(n, &execs) {
		const struct exec *e = list_entry(n, struct exec, node);
		if (e->deadline_us < next)
			next = e->deadline_us;
	}
	return next;
}

static void discard(struct exec *e)
{
	list_del(&e->node);
	killer_del(&e->kill);
	poller_close(&e->report);
	poller_close(&e->out);
	poller_close(&e->err);
	feed_close(&e->in);
	free(e);
	entries--;
}

void execs_run(int64_t now_us)
{
	list_for_each_safe(n, tmp, &execs) {
		struct exec *e = list_entry(n, struct exec, node);
		if (e->let_go) {
			/* From here on nobody signals the leader's group. */
			send(e->report.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			e->let_go = false;
		}
		if (e->deadline_us <= now_us) {
			e->deadline_us = INT64_MAX;
			kill_tree(e, MSG_WHY_TIMEOUT);
		}
		if (e->acked && !e->supervisor)
			discard(e);
	}
	killer_run(now_us);
	scopes_run(now_us, is_busy);
}
