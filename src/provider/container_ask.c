/* container_ask.c - what is asked of instances that exist. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/id.h"
#include "provider/container.h"
#include "provider/outside.h"

int container_lookup(struct provider *p, const char *id, err_t **err)
{
	struct box *b = container_box(agents_find_or_say(&p->agents, id, err));

	if (!b)
		return -1;
	if (b->want_destroy)
		return 0;   /* its end will be told */
	if (b->step == BOX_DOWN)
		return owed_event(p->agents.owed, id, b->exited ? INSTANCE_EXITED : INSTANCE_FAILED, err_copy(b->why), err);
	if (b->step < BOX_UP)
		return owed_event(p->agents.owed, id, INSTANCE_AT_IT, NULL, err);   /* what the engine says decides its next step anyway */
	b->asked = true;
	box_kick(b);
	return 0;
}

int container_pause(struct provider *p, const char *id, err_t **err)
{
	(void)p;
	(void)id;
	return err_set(err, ERR_REFUSED, "pause_unsupported", "a container is not paused");
}

int container_keep(struct provider *p, const char *id, int64_t ms, err_t **err)
{
	struct box *b = container_box(agents_find_or_say(&p->agents, id, err));
	err_t *why = NULL;

	(void)ms;   /* nothing ends a container but its Run */
	if (!b)
		return -1;
	if (b->step == BOX_UP && !b->want_destroy)
		return owed_event(p->agents.owed, id, INSTANCE_KEPT, NULL, err);
	if (b->step == BOX_DOWN && b->exited && !b->want_destroy)
		return owed_event(p->agents.owed, id, INSTANCE_EXITED, err_copy(b->why), err);
	err_set(&why, ERR_CONFLICT, "instance_not_ready", "the instance is not ready");
	return owed_event(p->agents.owed, id, INSTANCE_KEEP_FAILED, why, err);
}

/* --- all of them --- */

static void on_listed(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct provider *p = arg;
	cleanup_free struct listed *items = err ? NULL : calloc(a->n + 1, sizeof(*items));
	cleanup_err err_t *failed = outside_err("", err);

	if (!err && !items)
		err_set(&failed, ERR_NO_MEMORY, NULL, "list of instances");
	for (size_t i = 0; items && i < a->n; i++) {
		const struct engine_container *c = &a->items[i];
		bool ours = str_eq(c->node, p->engine_config.node) && id_valid(c->instance);

		items[i] = (struct listed){ .ref = c->name, .id = ours ? c->instance : NULL, .state = c->state == ENGINE_RUNNING ? LISTED_RUNNING : LISTED_OTHER };
	}
	p->agents.events->listed(p->agents.arg, items, items ? a->n : 0, items != NULL, failed);
}

int container_list(struct provider *p, err_t **err)
{
	return p->ops->list(p->engine, p->prefix, on_listed, p, err);
}
