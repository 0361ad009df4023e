#include "core/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/list.h"

struct loop_io {
	struct event ev;
	loop_io_fn *fn;
	void *arg;
	int fd;
	int events;
};

struct loop_timer {
	struct event ev;
	loop_timer_fn *fn;
	void *arg;
};

struct signal_watch {
	struct list node;
	int signo;
	loop_signal_fn *fn;
	void *arg;
};

struct child_watch {
	struct list node;
	pid_t pid;
	loop_child_fn *fn;
	void *arg;
};

struct loop {
	struct event_base *base;
	struct loop_io *signal_io;
	int signal_fd;
	sigset_t watched;
	sigset_t before;   /* the mask to give back */
	struct list signals;
	struct list children;
	bool stop;
};

/* --- descriptors --- */

static void on_io(evutil_socket_t fd, short what, void *arg)
{
	struct loop_io *io = arg;

	io->fn(io->arg, fd, ((what & EV_READ) ? LOOP_READ : 0) | ((what & EV_WRITE) ? LOOP_WRITE : 0));
	/* io may be gone now */
}

int loop_io_set(struct loop_io *io, int events)
{
	struct event_base *base = event_get_base(&io->ev);
	short what = EV_PERSIST;

	if (events == io->events)
		return 0;
	event_del(&io->ev);
	io->events = 0;
	if (!events)
		return 0;
	if (events & LOOP_READ)
		what |= EV_READ;
	if (events & LOOP_WRITE)
		what |= EV_WRITE;
	if (event_assign(&io->ev, base, io->fd, what, on_io, io) < 0 || event_add(&io->ev, NULL) < 0)
		return -1;
	io->events = events;
	return 0;
}

struct loop_io *loop_io_new(struct loop *l, int fd, int events, loop_io_fn *fn, void *arg)
{
	struct loop_io *io = calloc(1, sizeof *io);

	if (!io)
		return NULL;
	io->fn = fn;
	io->arg = arg;
	io->fd = fd;
	if (event_assign(&io->ev, l->base, fd, EV_PERSIST, on_io, io) < 0 || loop_io_set(io, events) < 0) {
		free(io);
		return NULL;
	}
	return io;
}

void loop_io_free(struct loop_io *io)
{
	if (!io)
		return;
	event_del(&io->ev);
	free(io);
}

/* --- timers --- */

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct loop_timer *t = arg;

	(void)fd;
	(void)what;
	t->fn(t->arg);
}

struct loop_timer *loop_timer_new(struct loop *l, loop_timer_fn *fn, void *arg)
{
	struct loop_timer *t = calloc(1, sizeof *t);

	if (!t)
		return NULL;
	t->fn = fn;
	t->arg = arg;
	if (event_assign(&t->ev, l->base, -1, 0, on_timer, t) < 0) {
		free(t);
		return NULL;
	}
	return t;
}

void loop_timer_set(struct loop_timer *t, int64_t in_ms)
{
	struct timeval tv = { .tv_sec = (time_t)(in_ms / 1000), .tv_usec = (suseconds_t)(in_ms % 1000) * 1000 };

	event_del(&t->ev);
	if (in_ms >= 0)
		event_add(&t->ev, &tv);
}

void loop_timer_now(struct loop_timer *t)
{
	event_del(&t->ev);
	event_active(&t->ev, EV_TIMEOUT, 1);
}

void loop_timer_free(struct loop_timer *t)
{
	if (!t)
		return;
	event_del(&t->ev);
	free(t);
}

/* --- signals and children --- */

static struct child_watch *find_child(struct loop *l, pid_t pid)
{
	list_for_each(n, &l->children) {
		struct child_watch *w = list_entry(n, struct child_watch, node);

		if (w->pid == pid)
			return w;
	}
	return NULL;
}

/* One SIGCHLD may stand for many deaths, and adopted orphans have no watch. */
static void reap(struct loop *l)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct child_watch *w = find_child(l, pid), copy;

		if (!w)
			continue;
		copy = *w;
		list_del(&w->node);
		free(w);
		copy.fn(copy.arg, pid, status);
	}
}

static void dispatch(struct loop *l, int signo)
{
	list_for_each_safe(n, next, &l->signals) {
		struct signal_watch *w = list_entry(n, struct signal_watch, node);

		if (w->signo == signo)
			w->fn(w->arg, signo);
	}
}

static void on_signal(void *arg, int fd, int events)
{
	struct loop *l = arg;
	struct signalfd_siginfo si;

	(void)events;
	while (io_read(fd, &si, sizeof si) == (ssize_t)sizeof si) {
		if (si.ssi_signo == SIGCHLD)
			reap(l);
		dispatch(l, (int)si.ssi_signo);
	}
}

static int watch_signal(struct loop *l, int signo)
{
	sigaddset(&l->watched, signo);
	if (sigprocmask(SIG_BLOCK, &l->watched, NULL) < 0)
		return -1;
	return signalfd(l->signal_fd, &l->watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

int loop_signal(struct loop *l, int signo, loop_signal_fn *fn, void *arg)
{
	struct signal_watch *w = calloc(1, sizeof *w);

	if (!w)
		return -1;
	if (watch_signal(l, signo) < 0) {
		free(w);
		return -1;
	}
	*w = (struct signal_watch){ .signo = signo, .fn = fn, .arg = arg };
	list_add_tail(&l->signals, &w->node);
	return 0;
}

int loop_child(struct loop *l, pid_t pid, loop_child_fn *fn, void *arg)
{
	struct child_watch *w = calloc(1, sizeof *w);

	if (!w)
		return -1;
	*w = (struct child_watch){ .pid = pid, .fn = fn, .arg = arg };
	list_add_tail(&l->children, &w->node);
	return 0;
}

void loop_child_forget(struct loop *l, pid_t pid)
{
	struct child_watch *w = find_child(l, pid);

	if (!w)
		return;
	list_del(&w->node);
	free(w);
}

void loop_unblock_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* --- the loop --- */

static struct event_base *base_new(void)
{
	struct event_config *cfg = event_config_new();
	struct event_base *base;

	if (!cfg)
		return NULL;
	event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV | EVENT_BASE_FLAG_PRECISE_TIMER);
	base = event_base_new_with_config(cfg);
	event_config_free(cfg);
	return base;
}

struct loop *loop_new(err_t **err)
{
	struct loop *l = calloc(1, sizeof *l);

	if (!l) {
		err_sys(err, ENOMEM, "cannot make an event loop");
		return NULL;
	}
	list_init(&l->signals);
	list_init(&l->children);
	sigemptyset(&l->watched);
	sigprocmask(SIG_SETMASK, NULL, &l->before);
	l->signal_fd = -1;
	l->base = base_new();
	if (l->base)
		l->signal_fd = watch_signal(l, SIGCHLD);
	if (l->signal_fd >= 0)
		l->signal_io = loop_io_new(l, l->signal_fd, LOOP_READ, on_signal, l);
	if (!l->signal_io) {
		err_sys(err, errno, "cannot make an event loop");
		loop_free(l);
		return NULL;
	}
	return l;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	list_for_each_safe(n, next, &l->signals)
		free(list_entry(n, struct signal_watch, node));
	list_for_each_safe(n, next, &l->children)
		free(list_entry(n, struct child_watch, node));
	loop_io_free(l->signal_io);
	if (l->signal_fd >= 0)
		close(l->signal_fd);
	if (l->base)
		event_base_free(l->base);
	sigprocmask(SIG_SETMASK, &l->before, NULL);
	free(l);
}

int loop_run(struct loop *l, err_t **err)
{
	reap(l);   /* children that ended before there was a loop */
	while (!l->stop) {
		if (event_base_loop(l->base, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY) < 0)
			return err_set(err, ERR_INTERNAL, NULL, "the event loop failed");
	}
	l->stop = false;
	return 0;
}

void loop_stop(struct loop *l)
{
	l->stop = true;
	event_base_loopbreak(l->base);
}
