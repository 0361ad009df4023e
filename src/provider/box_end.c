/* box_end.c - a container's end: removed at the engine, then nothing of it may be left at any layer. */
#include <poll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/box.h"
#include "provider/container.h"
#include "provider/leftovers.h"

#define REMOVE_MS 60000        /* after that the caller hears of it and asks again */
#define GRACE_MS 1500          /* how long processes of a removed container may take to end by themselves */
#define LOOK_AGAIN_MS 40
#define END_LOOK_MS 10
#define HOLD_MS 2000           /* how long a removal gives way to creations */
#define HELD_MAX 16
#define QUIET_MS 100           /* one who makes a container after the other is not yet done */

void box_destroy(struct box *b)
{
	if (b->want_destroy && b->step != BOX_DOWN)
		return;
	b->want_destroy = true;
	b->deadline_ms = clock_boot_ms() + REMOVE_MS;
	b->backoff_ms = LOOK_AGAIN_MS;
	b->hold_until_ms = 0;
	b->step = BOX_END;
	if (b->queued)
		box_pass_turn(b);
	guard_cancel(steal_ptr(&b->guard));
	box_kick(b);
}

/* --- its processes end at once; the engine's part costs more than a start and is left for a quiet moment --- */

static bool has_ended(struct box *b)
{
	struct pollfd p = { .fd = b->monitor_fd, .events = POLLIN };

	if (b->monitor_fd >= 0 && poll(&p, 1, 0) == 0)
		return false;
	if (b->monitor_fd >= 0)
		close(steal_fd(&b->monitor_fd));
	return true;
}

/* Others are being made, or were a moment ago, and not too many wait for them. */
static bool gives_way(struct box *b, int64_t now)
{
	struct provider *p = b->p;
	size_t held = 0;

	list_for_each(i, &p->agents.instances) {
		struct box *other = list_entry(i, struct box, agent.node);

		if (box_is_made(other))
			p->made_ms = now;
		held += other->step == BOX_END;
	}
	return held <= HELD_MAX && now - p->made_ms < QUIET_MS;
}

static void end(struct box *b)
{
	int64_t now = clock_boot_ms();

	if (!b->hold_until_ms) {
		b->hold_until_ms = now + HOLD_MS;
		b->monitor_fd = leftovers_end(b->container, b->p->runtime_state);
	}
	if (now < b->hold_until_ms && (!has_ended(b) || gives_way(b, now))) {
		loop_timer_set(b->timer, END_LOOK_MS);
		return;
	}
	if (b->monitor_fd >= 0)
		close(steal_fd(&b->monitor_fd));
	b->deadline_ms = now + REMOVE_MS;
	box_go(b, BOX_REMOVE);
}

/* --- the engine's part --- */

static void on_removed(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;

	(void)a;
	b->busy = false;
	FAULT_POINT(container_removed);
	if (err) {
		box_retry(b, err);
		return;
	}
	b->step = BOX_CONFIRM;
	box_kick(b);
}

static void gone(struct box *b)
{
	leftovers_forget(b->container, b->p->runtime_state, NULL);
	agent_instance_remove(&b->agent);
	log_kv(LOG_INFO, "instance_gone", "instance", b->id, NULL);
	container_tell(b, INSTANCE_GONE, NULL);
	agent_instance_scopes_over(&b->agent, NULL);
	box_free(b);
}

/* The engine no longer lists it; now its processes, which end a moment later or, when the engine was killed in mid-create, never. */
static void confirm_processes(struct box *b)
{
	int64_t now = clock_boot_ms();
	bool kill = b->deadline_ms - now < REMOVE_MS - GRACE_MS;

	if (leftovers_of(b->name, b->container, b->p->runtime_state, kill) > 0) {
		if (now > b->deadline_ms) {
			cleanup_err err_t *err = NULL;

			err_set(&err, ERR_BUSY, "leftovers", "processes of the container do not end");
			box_retry(b, err);
		} else {
			loop_timer_set(b->timer, LOOK_AGAIN_MS);
		}
	} else if (b->unsure_until_ms > now) {
		/* a create whose answer was lost may still come true: absence counts only afterwards */
		b->step = BOX_REMOVE;
		b->deadline_ms = b->unsure_until_ms + REMOVE_MS;
		loop_timer_set(b->timer, LOOK_AGAIN_MS * 25);
	} else {
		gone(b);
	}
}

static void on_listed(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;
	cleanup_err err_t *still = NULL;

	b->busy = false;
	if (err) {
		box_retry(b, err);
		return;
	}
	for (size_t i = 0; i < a->n; i++) {
		if (!str_eq(a->items[i].name, b->name) && !(b->container[0] && str_eq(a->items[i].id, b->container)))
			continue;
		err_set(&still, ERR_BUSY, "still_there", "the engine still lists the container");
		b->step = BOX_REMOVE;
		box_retry(b, still);
		return;
	}
	confirm_processes(b);
}

void box_run_removal(struct box *b)
{
	struct provider *p = b->p;
	cleanup_err err_t *err = NULL;
	int rc;

	if (b->step == BOX_END) {
		end(b);
		return;
	}
	b->busy = true;
	if (b->step == BOX_REMOVE)
		rc = p->ops->remove(p->engine, b->name, on_removed, b, &err);
	else
		rc = p->ops->list(p->engine, b->name, on_listed, b, &err);
	if (rc < 0) {
		b->busy = false;
		box_retry(b, err);
	}
}
