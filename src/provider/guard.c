/* guard.c - see guard.h. The helper's own words go to our standard error: it is a log line's neighbour, not an answer. */
#include "provider/guard.h"

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/str.h"

#define GUARD_MS 10000

struct guard {
	struct loop *loop;
	struct loop_timer *timer;
	pid_t pid;
	guard_fn *fn;
	void *arg;
};

static void guard_free(struct guard *g)
{
	loop_timer_free(g->timer);
	free(g);
}

static void on_end(void *arg, pid_t pid, int status)
{
	struct guard *g = arg;
	cleanup_err err_t *err = NULL;
	guard_fn *fn = g->fn;
	void *fn_arg = g->arg;

	(void)pid;
	if (WIFSIGNALED(status))
		err_set(&err, ERR_UNAVAILABLE, "network_guard", "the network guard was ended by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		err_set(&err, ERR_UNAVAILABLE, "network_guard", "the network guard failed with status %d", WEXITSTATUS(status));
	guard_free(g);
	fn(fn_arg, err);
}

/* Our child and not yet reaped: the pid is its own. on_end() follows. */
static void on_late(void *arg)
{
	struct guard *g = arg;

	kill(g->pid, SIGKILL);
}

static int spawn(struct guard *g, const char *program, pid_t container)
{
	char pid[16];
	char *const argv[] = { (char[]){ "paddock-netguard" }, pid, NULL };
	char *const env[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" }, NULL };
	posix_spawnattr_t attr;
	sigset_t set;
	int rc;

	str_fmt(pid, sizeof(pid), "%d", (int)container);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	sigemptyset(&set);
	posix_spawnattr_setsigmask(&attr, &set);
	sigaddset(&set, SIGPIPE);
	posix_spawnattr_setsigdefault(&attr, &set);
	rc = posix_spawn(&g->pid, program, NULL, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	return rc;
}

struct guard *guard_start(struct loop *l, const char *program, pid_t container, guard_fn *fn, void *arg, err_t **err)
{
	struct guard *g = calloc(1, sizeof(*g));
	int rc;

	if (!g || !(g->timer = loop_timer_new(l, on_late, g))) {
		free(g);
		err_set(err, ERR_NO_MEMORY, NULL, "network guard");
		return NULL;
	}
	g->loop = l;
	g->fn = fn;
	g->arg = arg;
	rc = spawn(g, program, container);
	if (rc != 0) {
		err_sys(err, rc, "%s", program);
		guard_free(g);
		return NULL;
	}
	if (loop_child(l, g->pid, on_end, g) < 0) {
		kill(g->pid, SIGKILL);
		err_set(err, ERR_NO_MEMORY, NULL, "network guard");
		guard_free(g);
		return NULL;
	}
	loop_timer_set(g->timer, GUARD_MS);
	return g;
}

void guard_cancel(struct guard *g)
{
	if (!g)
		return;
	loop_child_forget(g->loop, g->pid);
	kill(g->pid, SIGKILL);
	guard_free(g);
}
