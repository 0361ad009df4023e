/* box_run.c - a container runs: limited, closed off, connected. */
#include "provider/box.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "provider/container.h"
#include "provider/process.h"

#define RECHECK_MS 1000
#define GUARD_TRIES 3

static void limit(struct box *b)
{
	cleanup_err err_t *err = NULL;

	if (agent_instance_limit(&b->agent, b->pid, &err) < 0 && b->step == BOX_START)
		return;   /* too early: once more when the engine has answered */
	agent_instance_limits_seen(&b->agent, err);
}

static void close_network(struct box *b, pid_t pid);

static void on_guarded(void *arg, const err_t *err)
{
	struct box *b = arg;

	b->guard = NULL;
	if (b->want_destroy || b->step == BOX_DOWN)
		return;
	if (!err) {
		log_kv(LOG_DEBUG, "instance_guarded", "instance", b->id, NULL);
		b->guarded = true;
		box_check_up(b);
	} else if (b->step != BOX_WAIT) {
		b->guard_pid = 0;   /* too early: tried again when the engine has told the pid */
	} else if (b->guard_tries < GUARD_TRIES) {
		close_network(b, b->pid);
	} else {
		box_fail(b, err);
	}
}

static void close_network(struct box *b, pid_t pid)
{
	cleanup_err err_t *err = NULL;

	guard_cancel(steal_ptr(&b->guard));
	b->guarded = false;
	b->guard_tries++;
	b->guard_pid = pid;
	b->guard = guard_start(b->p->agents.loop, b->p->netguard, pid, on_guarded, b, &err);
	if (!b->guard)
		box_fail(b, err);
}

/* Its first process is known for the first time, or is another one. */
static void settle_anew(struct box *b, pid_t pid, uid_t uid)
{
	b->pid = pid;
	b->uid = uid;
	limit(b);
	agent_link_expect(b->agent.link, uid, pid);
	if (!b->p->engine_config.internet)
		b->guarded = true;
}

void box_settle(struct box *b, pid_t pid)
{
	uid_t uid = process_uid(pid);
	bool early = b->step == BOX_START;

	if (uid == (uid_t)-1) {
		/* it has ended meanwhile: the next look tells */
		if (!early)
			b->step = BOX_LOOKUP;
		loop_timer_set(b->timer, BOX_BACKOFF_MIN_MS);
		return;
	}
	if (!early)
		b->step = BOX_WAIT;
	log_kv(LOG_DEBUG, "instance_runs", "instance", b->id, "early", early ? "1" : "0", NULL);
	if (b->pid != pid || b->uid != uid)
		settle_anew(b, pid, uid);
	else if (!b->agent.enforced)
		limit(b);
	if (b->p->engine_config.internet && b->guard_pid != pid)
		close_network(b, pid);
	if (b->step == BOX_DOWN)
		return;
	if (!early)
		loop_timer_set(b->timer, RECHECK_MS);
	box_check_up(b);
}

void box_unsettle(struct box *b)
{
	guard_cancel(steal_ptr(&b->guard));
	b->guarded = false;
	b->guard_pid = b->pid = 0;
}

static bool is_closed_off(const struct box *b)
{
	return b->pid && b->guarded && b->guard_pid == (b->p->engine_config.internet ? b->pid : 0);
}

void box_check_up(struct box *b)
{
	bool far_enough = b->step == BOX_WAIT || (b->step == BOX_START && b->agent.enforced);

	if (!far_enough || !is_closed_off(b) || !agent_link_ready(b->agent.link))
		return;
	b->step = BOX_UP;
	b->was_ready = true;
	b->backoff_ms = BOX_BACKOFF_MIN_MS;
	loop_timer_set(b->timer, -1);
	container_tell(b, INSTANCE_READY, NULL);
}

/* The agent is not there (yet, or any more): does the container still run? */
static void on_recheck(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;
	cleanup_err err_t *late = NULL;

	bool asked = b->asked;

	b->asked = false;
	if (box_answered(b) || b->step == BOX_DOWN)
		return;
	if (b->step == BOX_UP && agent_link_ready(b->agent.link)) {
		if (asked && !err)
			container_tell(b, INSTANCE_READY, NULL);
		return;
	}
	if ((err && err_code(err) == ERR_NOT_FOUND) || (!err && (a->items[0].state != ENGINE_RUNNING || a->items[0].pid != b->pid))) {
		err_set(&late, ERR_GONE, b->was_ready ? "instance_ended" : "agent_ended", "the container has ended");
		if (b->was_ready)
			box_exited(b, late);
		else
			box_fail(b, late);
		return;
	}
	if (b->step == BOX_WAIT && !b->was_ready && clock_boot_ms() > b->deadline_ms) {
		err_set(&late, ERR_TIMEOUT, "create_timeout", "%s", b->guarded ? "the agent did not connect in time" : "the network was not closed in time");
		box_fail(b, late);
		return;
	}
	loop_timer_set(b->timer, RECHECK_MS);
}

int box_recheck(struct box *b, err_t **err)
{
	return b->p->ops->inspect(b->p->engine, b->name, on_recheck, b, err);
}
