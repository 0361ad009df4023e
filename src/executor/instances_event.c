/* instances_event.c - what the provider says of an instance, and what comes of it in each state. */
#include <stdlib.h>

#include "base/log.h"
#include "base/str.h"
#include "executor/instances_priv.h"

/* Its end is all that counts; what the provider says besides is that it does not run any more. */
static void while_destroying(struct instance *i, enum instance_event ev, const err_t *err)
{
	if (ev == INSTANCE_GONE) {
		instances_gone(i);
	} else if (ev == INSTANCE_DESTROY_FAILED) {
		instances_destroy_failed(i, err);
	} else if ((ev == INSTANCE_EXITED || ev == INSTANCE_PAUSED) && i->r.meter.since_ms) {
		meter_stop(i->is->meter, &i->r.meter);
		(void)instances_save(i, NULL);
	}
}

static void lost_contact(struct instance *i)
{
	i->in_contact = i->introduced = false;
	log_kv(LOG_INFO, "instance_contact_lost", "instance", i->r.id, NULL);
}

static void while_alive(struct instance *i, enum instance_event ev, const err_t *err)
{
	switch (ev) {
	case INSTANCE_READY:
		instances_came_ready(i);
		break;
	case INSTANCE_PAUSED:
		instances_came_paused(i);
		break;
	case INSTANCE_PAUSE_FAILED:
		instances_pause_failed(i, err);
		break;
	case INSTANCE_WAKE_FAILED:
		instances_wake_failed(i, err);
		break;
	case INSTANCE_KEPT:
		instances_keep_answered(i, NULL);
		break;
	case INSTANCE_KEEP_FAILED:
		instances_keep_answered(i, err);
		break;
	case INSTANCE_LOST_CONTACT:
		lost_contact(i);
		break;
	case INSTANCE_FAILED:
		instances_failed(i, err);
		break;
	case INSTANCE_EXITED:
		instances_over(i, INSTANCE_IS_LOST, err);
		break;
	case INSTANCE_AT_IT:
	case INSTANCE_GONE:
	case INSTANCE_DESTROY_FAILED:
		break;
	}
}

static void on_instance(void *arg, const char *id, enum instance_event ev, const err_t *err)
{
	struct instances *is = arg;
	struct instance *i = (struct instance *)idmap_find(&is->map, id);

	if (!i || i->r.state == INSTANCE_IS_GONE)
		return;
	if (i->r.state == INSTANCE_DESTROYING)
		while_destroying(i, ev, err);
	else if (i->r.state != INSTANCE_IS_FAILED && i->r.state != INSTANCE_IS_LOST && !i->r.waits_for[0])
		while_alive(i, ev, err);
}

static void on_started(void *arg, const char *iid, const char *cid, const struct exec_started *s, int out_fd, int err_fd)
{
	struct instances *is = arg;

	is->events->started(is->arg, iid, cid, s, out_fd, err_fd);
}

static void on_exited(void *arg, const char *iid, const char *cid, const struct exec_exited *e)
{
	struct instances *is = arg;

	is->events->exited(is->arg, iid, cid, e);
}

static void on_stdin_taken(void *arg, const char *iid, const char *cid, uint64_t taken, uint64_t window)
{
	struct instances *is = arg;

	is->events->stdin_taken(is->arg, iid, cid, taken, window);
}

static void on_scope_ended(void *arg, const char *iid, const char *scope, const err_t *err)
{
	struct instances *is = arg;

	is->events->scope_ended(is->arg, iid, scope, err);
}

static void on_listed(void *arg, const struct listed *items, size_t n, bool complete, const err_t *err)
{
	struct instances *is = arg;

	for (size_t k = 0; !err && k < n; k++) {
		struct instance *i = items[k].id ? (struct instance *)idmap_find(&is->map, items[k].id) : NULL;

		if (!i || (i->ref && str_eq(i->ref, items[k].ref)))
			continue;
		free(i->ref);
		i->ref = str_dup(items[k].ref);
	}
	is->events->listed(is->arg, items, n, complete, err);
}

const struct provider_events instances_provider_events = {
	.instance = on_instance,
	.started = on_started,
	.exited = on_exited,
	.stdin_taken = on_stdin_taken,
	.scope_ended = on_scope_ended,
	.listed = on_listed,
};
