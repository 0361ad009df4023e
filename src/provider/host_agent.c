/* host_agent.c - a sandbox and its agent: the link's events, and the commands that the sandbox has out. */
#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/host.h"

#define EXECS_MAX 4096       /* many times what an agent can hold: ids beyond are made up */

/* A command whose end is not acknowledged. */
struct out_exec {
	struct list node;
	char id[ID_SIZE];
	int64_t oom_before;      /* the kernel's count of kills when it was started (or taken up again); -1 not known */
	bool ended;
};

static struct out_exec *find(struct sandbox *s, const char *id)
{
	list_for_each(i, &s->execs) {
		struct out_exec *x = list_entry(i, struct out_exec, node);

		if (str_eq(x->id, id))
			return x;
	}
	return NULL;
}

static struct out_exec *remember(struct sandbox *s, const char *id)
{
	struct out_exec *x = find(s, id);

	if (x || s->execs_n >= EXECS_MAX || !(x = calloc(1, sizeof(*x))))
		return x;
	if (str_copy(x->id, sizeof(x->id), id) < 0) {
		free(x);
		return NULL;
	}
	x->oom_before = s->cgroup ? cgroup_oom_kills(s->cgroup) : -1;
	list_add_tail(&s->execs, &x->node);
	s->execs_n++;
	return x;
}

void sandbox_exec_forget(struct sandbox *s, const char *exec_id)
{
	struct out_exec *x = find(s, exec_id);

	if (!x)
		return;
	list_del(&x->node);
	s->execs_n--;
	free(x);
}

void sandbox_execs_free(struct sandbox *s)
{
	list_for_each_safe(i, following, &s->execs)
		free(list_entry(i, struct out_exec, node));
	list_init(&s->execs);
	s->execs_n = 0;
}

bool sandbox_is_busy(const struct sandbox *s)
{
	list_for_each(i, &s->execs)
		if (!list_entry(i, struct out_exec, node)->ended)
			return true;
	return false;
}

int sandbox_exec(struct sandbox *s, const struct exec_spec *x, err_t **err)
{
	bool had = find(s, x->exec_id) != NULL;

	if (sandbox_scope_over(s, x->scope))
		return err_set(err, ERR_GONE, "scope_gone", "the scope was ended");
	if (!had && !remember(s, x->exec_id))
		return err_set(err, ERR_NO_MEMORY, NULL, "command");
	if (agent_link_exec(s->agent, x, err) == 0)
		return 0;
	if (!had)
		sandbox_exec_forget(s, x->exec_id);
	return -1;
}

/* --- events of the link --- */

static int on_token(void *arg, const char *token)
{
	struct sandbox *s = arg;

	if (agent_token_is(token, s->run.token_hash))
		return 0;
	log_kv(LOG_WARN, "agent_refused", "instance", s->id, "err", "wrong token", NULL);
	return -1;
}

static void on_connected(void *arg)
{
	(void)arg;
}

static void on_ready(void *arg)
{
	struct sandbox *s = arg;

	if (s->step == SANDBOX_UP)
		host_tell(s, INSTANCE_READY, NULL);
	else
		sandbox_check_up(s);
	sandbox_scopes_ask(s);
}

static void on_lost(void *arg)
{
	struct sandbox *s = arg;

	/* when it has ended, its pidfd tells */
	if (s->step == SANDBOX_UP)
		host_tell(s, INSTANCE_LOST_CONTACT, NULL);
}

static void on_started(void *arg, const char *exec_id, const struct exec_started *x, int out_fd, int err_fd)
{
	struct sandbox *s = arg;

	remember(s, exec_id);
	s->p->events->started(s->p->arg, s->id, exec_id, x, out_fd, err_fd);
}

/* Killed, or its shell says that what it ran was killed, and the kernel killed for want of memory meanwhile. */
static bool was_oom(struct sandbox *s, const struct out_exec *x, const struct exec_exited *e)
{
	bool killed = (e->end == EXEC_SIGNALED && e->code == 9) || (e->end == EXEC_EXITED && e->code == 137);

	return e->why == EXEC_WHY_NONE && killed && x && x->oom_before >= 0 && s->cgroup && cgroup_oom_kills(s->cgroup) > x->oom_before;
}

static void on_exited(void *arg, const char *exec_id, const struct exec_exited *e)
{
	struct sandbox *s = arg;
	struct out_exec *x = find(s, exec_id);
	struct exec_exited told = *e;

	if (was_oom(s, x, e))
		told.why = EXEC_WHY_OOM;
	if (x)
		x->ended = true;
	s->p->events->exited(s->p->arg, s->id, exec_id, &told);
}

static void on_stdin_taken(void *arg, const char *exec_id, uint64_t taken, uint64_t window)
{
	struct sandbox *s = arg;

	s->p->events->stdin_taken(s->p->arg, s->id, exec_id, taken, window);
}

static void on_not_running(void *arg, const char *exec_id, bool known)
{
	struct sandbox *s = arg;
	struct exec_exited lost = { .end = EXEC_LOST };

	/* an end that was told and acknowledged is no longer in our list */
	if (!known && find(s, exec_id))
		s->p->events->exited(s->p->arg, s->id, exec_id, &lost);
}

static void on_scope_ended(void *arg, const char *scope)
{
	sandbox_scope_ended(arg, scope);
}

static const struct agent_link_events link_events = {
	.check_token = on_token,
	.connected = on_connected,
	.ready = on_ready,
	.lost = on_lost,
	.started = on_started,
	.exited = on_exited,
	.stdin_taken = on_stdin_taken,
	.not_running = on_not_running,
	.scope_ended = on_scope_ended,
};

int sandbox_agent_open(struct sandbox *s, err_t **err)
{
	char dir[PATH_MAX];

	if (str_fmt(dir, sizeof(dir), "%s/%s", s->p->agent_dir, s->id) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "agent directory");
	s->agent = agent_link_new(s->p->loop, dir, &s->p->agent_limits, &link_events, s, err);
	return s->agent ? 0 : err_wrap(err, "agent socket");
}
