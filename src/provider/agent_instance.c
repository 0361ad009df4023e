/* agent_instance.c - see agent_instance.h. */
#include "provider/agent_instance.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "core/id.h"
#include "provider/agents.h"
#include "provider/outside.h"

#define EXECS_MAX 4096       /* many times what an agent can hold: ids beyond are made up */

/* A command whose end is not acknowledged. */
struct out_exec {
	struct list node;
	char id[ID_SIZE];
	int64_t oom_before;      /* the kernel's count of kills when it was started (or taken up again); -1 not known */
	bool ended;
};

static struct out_exec *find(const struct agent_instance *i, const char *id)
{
	list_for_each(n, &i->execs) {
		struct out_exec *x = list_entry(n, struct out_exec, node);

		if (str_eq(x->id, id))
			return x;
	}
	return NULL;
}

static struct out_exec *remember(struct agent_instance *i, const char *id)
{
	struct out_exec *x = find(i, id);

	if (x || i->execs_n >= EXECS_MAX || !(x = calloc(1, sizeof(*x))))
		return x;
	if (str_copy(x->id, sizeof(x->id), id) < 0) {
		free(x);
		return NULL;
	}
	x->oom_before = i->cgroup ? cgroup_oom_kills(i->cgroup) : -1;
	list_add_tail(&i->execs, &x->node);
	i->execs_n++;
	return x;
}

static void forget(struct agent_instance *i, const char *id)
{
	struct out_exec *x = find(i, id);

	if (!x)
		return;
	list_del(&x->node);
	i->execs_n--;
	free(x);
}

bool agent_instance_is_busy(const struct agent_instance *i)
{
	list_for_each(n, &i->execs)
		if (!list_entry(n, struct out_exec, node)->ended)
			return true;
	return false;
}

int agent_instance_exec(struct agent_instance *i, const struct exec_spec *x, err_t **err)
{
	bool had = find(i, x->exec_id) != NULL;

	if (agent_instance_scope_over(i, x->scope))
		return err_set(err, ERR_GONE, "scope_gone", "the scope was ended");
	if (!had && !remember(i, x->exec_id))
		return err_set(err, ERR_NO_MEMORY, NULL, "command");
	if (agent_link_exec(i->link, x, err) == 0)
		return 0;
	if (!had)
		forget(i, x->exec_id);
	return -1;
}

int agent_instance_exec_ack(struct agent_instance *i, const char *exec_id, err_t **err)
{
	forget(i, exec_id);
	return agent_link_exec_ack(i->link, exec_id, err);
}

/* --- events of the connection --- */

static int on_token(void *arg, const char *token)
{
	struct agent_instance *i = arg;

	if (agent_token_is(token, i->token_hash))
		return 0;
	log_kv(LOG_WARN, "agent_refused", "instance", i->id, "err", "wrong token", NULL);
	return -1;
}

static void on_connected(void *arg)
{
	(void)arg;
}

static void on_ready(void *arg)
{
	struct agent_instance *i = arg;

	i->of->ops->ready(i);
	agent_instance_scopes_ask(i);
}

static void on_lost(void *arg)
{
	struct agent_instance *i = arg;

	i->of->ops->lost(i);
}

static void on_started(void *arg, const char *exec_id, const struct exec_started *s, int out_fd, int err_fd)
{
	struct agent_instance *i = arg;

	remember(i, exec_id);
	i->of->events->started(i->of->arg, i->id, exec_id, s, out_fd, err_fd);
}

/* Killed, or its shell says that what it ran was killed, and the kernel killed for want of memory meanwhile. */
static bool was_oom(const struct agent_instance *i, const struct out_exec *x, const struct exec_exited *e)
{
	bool killed = (e->end == EXEC_SIGNALED && e->code == 9) || (e->end == EXEC_EXITED && e->code == 137);

	return e->why == EXEC_WHY_NONE && killed && x && x->oom_before >= 0 && i->cgroup && cgroup_oom_kills(i->cgroup) > x->oom_before;
}

static void on_exited(void *arg, const char *exec_id, const struct exec_exited *e)
{
	struct agent_instance *i = arg;
	struct out_exec *x = find(i, exec_id);
	struct exec_exited told = *e;

	if (was_oom(i, x, e))
		told.why = EXEC_WHY_OOM;
	if (x)
		x->ended = true;
	i->of->events->exited(i->of->arg, i->id, exec_id, &told);
}

static void on_stdin_taken(void *arg, const char *exec_id, uint64_t taken, uint64_t window)
{
	struct agent_instance *i = arg;

	i->of->events->stdin_taken(i->of->arg, i->id, exec_id, taken, window);
}

static void on_not_running(void *arg, const char *exec_id, bool known)
{
	struct agent_instance *i = arg;
	struct exec_exited lost = { .end = EXEC_LOST };

	/* an end that was told and acknowledged is no longer in our list */
	if (!known && find(i, exec_id))
		i->of->events->exited(i->of->arg, i->id, exec_id, &lost);
}

static void on_scope_ended(void *arg, const char *scope)
{
	agent_instance_scope_ended(arg, scope);
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

/* --- its life --- */

void agent_instance_init(struct agent_instance *i, struct agents *of, const char *id, const char *token_hash)
{
	*i = (struct agent_instance){ .of = of, .id = id, .token_hash = token_hash };
	list_init(&i->execs);
	list_init(&i->scopes);
	list_add_tail(&of->instances, &i->node);
}

void agent_instance_free(struct agent_instance *i)
{
	list_del(&i->node);
	agent_link_free(steal_ptr(&i->link), false);
	agent_instance_forget_run(i);
	agent_instance_scopes_free(i);
}

int agent_instance_open(struct agent_instance *i, err_t **err)
{
	char dir[PATH_MAX];

	if (str_fmt(dir, sizeof(dir), "%s/%s", i->of->dir, i->id) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "agent directory");
	i->link = agent_link_new(i->of->loop, dir, &i->of->link_limits, &link_events, i, err);
	return i->link ? 0 : err_wrap(err, "agent socket");
}

void agent_instance_shut(struct agent_instance *i)
{
	agent_link_free(steal_ptr(&i->link), true);
}

void agent_instance_remove(struct agent_instance *i)
{
	cleanup_err err_t *err = NULL;
	cleanup_close int fd = open(i->of->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	agent_instance_shut(i);
	if (fd >= 0 && io_remove_tree(fd, i->id, &err) < 0)
		log_kv(LOG_WARN, "agent_dir_left", "instance", i->id, "err", err_message(err), NULL);
}

void agent_instance_tell(struct agent_instance *i, enum instance_event ev, const err_t *err)
{
	cleanup_err err_t *told = outside_err(i->id, err);

	i->of->events->instance(i->of->arg, i->id, ev, told);
}

int agent_instance_limit(struct agent_instance *i, pid_t pid, err_t **err)
{
	cgroup_free(steal_ptr(&i->cgroup));
	i->cgroup = cgroup_of(pid, i->of->cgroup_parent, err);
	i->enforced = i->cgroup && cgroup_limit(i->cgroup, &i->of->limits, err) == 0;
	return i->enforced ? 0 : -1;
}

void agent_instance_limits_seen(struct agent_instance *i, const err_t *why)
{
	struct agents *a = i->of;

	if (!i->enforced && a->limits_seen != LIMITS_NOMINAL)
		log_kv(LOG_WARN, "limits_nominal", "instance", i->id, "err", err_message(why), NULL);
	a->limits_seen = i->enforced ? LIMITS_ENFORCED : LIMITS_NOMINAL;
	str_copy(a->limits_hint, sizeof(a->limits_hint), i->enforced ? "" : err_message(why));
}

void agent_instance_forget_run(struct agent_instance *i)
{
	cgroup_free(steal_ptr(&i->cgroup));
	list_for_each_safe(n, following, &i->execs)
		free(list_entry(n, struct out_exec, node));
	list_init(&i->execs);
	i->execs_n = 0;
}
