/* box_agent.c - a box and its agent: the link's events, and the commands that the box has out. */
#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/box.h"
#include "provider/container.h"

#define LOST_LOOK_MS 50
#define EXECS_MAX 4096       /* many times what an agent can hold: ids beyond are made up */

/* A command whose end is not acknowledged; kept for the out-of-memory verdict. */
struct out_exec {
	struct list node;
	char id[ENGINE_INSTANCE_SIZE];
	int64_t oom_before;      /* the counter when it was started (or taken up again); -1 not known */
};

static struct out_exec *find(struct box *b, const char *id)
{
	list_for_each(i, &b->execs) {
		struct out_exec *x = list_entry(i, struct out_exec, node);

		if (str_eq(x->id, id))
			return x;
	}
	return NULL;
}

static struct out_exec *remember(struct box *b, const char *id)
{
	struct out_exec *x = find(b, id);

	if (x || b->execs_n >= EXECS_MAX || !(x = calloc(1, sizeof(*x))))
		return x;
	if (str_copy(x->id, sizeof(x->id), id) < 0) {
		free(x);
		return NULL;
	}
	x->oom_before = b->cgroup ? cgroup_oom_kills(b->cgroup) : -1;
	list_add_tail(&b->execs, &x->node);
	b->execs_n++;
	return x;
}

void box_exec_forget(struct box *b, const char *exec_id)
{
	struct out_exec *x = find(b, exec_id);

	if (!x)
		return;
	list_del(&x->node);
	b->execs_n--;
	free(x);
}

void box_execs_free(struct box *b)
{
	list_for_each_safe(i, following, &b->execs)
		free(list_entry(i, struct out_exec, node));
	list_init(&b->execs);
	b->execs_n = 0;
}

int box_exec(struct box *b, const struct exec_spec *s, err_t **err)
{
	bool had = find(b, s->exec_id) != NULL;

	if (box_scope_over(b, s->scope))
		return err_set(err, ERR_GONE, "scope_gone", "the scope was ended");
	if (!had && !remember(b, s->exec_id))
		return err_set(err, ERR_NO_MEMORY, NULL, "command");
	if (agent_link_exec(b->agent, s, err) < 0) {
		if (!had)
			box_exec_forget(b, s->exec_id);
		return -1;
	}
	return 0;
}

/* --- events of the link --- */

static int on_token(void *arg, const char *token)
{
	struct box *b = arg;

	if (agent_token_is(token, b->token_hash))
		return 0;
	log_kv(LOG_WARN, "agent_refused", "instance", b->id, "err", "wrong token", NULL);
	return -1;
}

static void on_connected(void *arg)
{
	(void)arg;
}

static void on_ready(void *arg)
{
	struct box *b = arg;

	if (b->step == BOX_UP)
		container_tell(b, INSTANCE_READY, NULL);
	else
		box_check_up(b);
	box_scopes_ask(b);
}

static void on_lost(void *arg)
{
	struct box *b = arg;

	if (b->step != BOX_UP)
		return;
	container_tell(b, INSTANCE_LOST_CONTACT, NULL);
	loop_timer_set(b->timer, LOST_LOOK_MS);
}

static void on_started(void *arg, const char *exec_id, const struct exec_started *s, int out_fd, int err_fd)
{
	struct box *b = arg;

	remember(b, exec_id);
	b->p->events->started(b->p->arg, b->id, exec_id, s, out_fd, err_fd);
}

/* Killed, or its shell says that what it ran was killed, and the kernel killed for want of memory meanwhile. */
static bool was_oom(struct box *b, const char *exec_id, const struct exec_exited *e)
{
	struct out_exec *x = find(b, exec_id);
	bool killed = (e->end == EXEC_SIGNALED && e->code == 9) || (e->end == EXEC_EXITED && e->code == 137);

	return e->why == EXEC_WHY_NONE && killed && x && x->oom_before >= 0 && b->cgroup && cgroup_oom_kills(b->cgroup) > x->oom_before;
}

static void on_exited(void *arg, const char *exec_id, const struct exec_exited *e)
{
	struct box *b = arg;
	struct exec_exited told = *e;

	if (was_oom(b, exec_id, e))
		told.why = EXEC_WHY_OOM;
	b->p->events->exited(b->p->arg, b->id, exec_id, &told);
}

static void on_stdin_taken(void *arg, const char *exec_id, uint64_t taken, uint64_t window)
{
	struct box *b = arg;

	b->p->events->stdin_taken(b->p->arg, b->id, exec_id, taken, window);
}

static void on_not_running(void *arg, const char *exec_id, bool known)
{
	struct box *b = arg;
	struct exec_exited lost = { .end = EXEC_LOST };

	/* an end that was told and acknowledged is no longer in our list */
	if (!known && find(b, exec_id))
		b->p->events->exited(b->p->arg, b->id, exec_id, &lost);
}

static void on_scope_ended(void *arg, const char *scope)
{
	box_scope_ended(arg, scope);
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

int box_agent_open(struct box *b, err_t **err)
{
	char dir[PATH_MAX];

	if (str_fmt(dir, sizeof(dir), "%s/%s", b->p->agent_dir, b->id) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "agent directory");
	b->agent = agent_link_new(b->p->loop, dir, &b->p->agent_limits, &link_events, b, err);
	return b->agent ? 0 : err_wrap(err, "agent socket");
}

void box_agent_close(struct box *b, bool is_gone)
{
	agent_link_free(steal_ptr(&b->agent), is_gone);
}
