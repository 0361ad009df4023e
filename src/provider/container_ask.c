/* container_ask.c - what is asked of instances that exist. What is known already is told from the loop, for no call answers from within itself. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "core/id.h"
#include "provider/container.h"

struct owed {
	struct list node;
	char id[ENGINE_INSTANCE_SIZE];
	char scope[ENGINE_INSTANCE_SIZE];   /* "": an event of the instance */
	enum instance_event ev;
	err_t *err;
};

static void owed_free(struct owed *o)
{
	list_del(&o->node);
	err_free(o->err);
	free(o);
}

static void tell_owed(void *arg)
{
	struct provider *p = arg;
	struct owed *o = list_entry(p->owed.next, struct owed, node);

	list_del(&o->node);
	list_init(&o->node);
	if (!list_empty(&p->owed))
		loop_timer_set(p->owed_timer, 0);
	/* whoever is told may ask again, which owes anew */
	if (o->scope[0])
		p->events->scope_ended(p->arg, o->id, o->scope, o->err);
	else
		p->events->instance(p->arg, o->id, o->ev, o->err);
	owed_free(o);
}

void container_ask_init(struct provider *p)
{
	list_init(&p->owed);
}

void container_ask_free(struct provider *p)
{
	list_for_each_safe(i, following, &p->owed)
		owed_free(list_entry(i, struct owed, node));
	loop_timer_free(p->owed_timer);
}

/* Takes over what. */
static int owe(struct provider *p, const char *id, const char *scope, enum instance_event ev, err_t *what, err_t **err)
{
	struct owed *o = calloc(1, sizeof(*o));

	if (!p->owed_timer)
		p->owed_timer = loop_timer_new(p->loop, tell_owed, p);
	if (!o || !p->owed_timer || str_copy(o->id, sizeof(o->id), id) < 0 || str_copy(o->scope, sizeof(o->scope), scope) < 0) {
		free(o);
		err_free(what);
		return err_set(err, ERR_NO_MEMORY, NULL, "answer");
	}
	o->ev = ev;
	o->err = what;
	list_add_tail(&p->owed, &o->node);
	loop_timer_set(p->owed_timer, 0);
	return 0;
}

int container_owe_scope(struct provider *p, const char *id, const char *scope, err_t *what, err_t **err)
{
	return owe(p, id, scope, INSTANCE_AT_IT, what, err);
}

static struct box *managed(struct provider *p, const char *id, err_t **err)
{
	struct box *b = container_find(p, id);

	if (!b)
		err_set(err, ERR_NOT_FOUND, "instance_not_found", "no such instance");
	return b;
}

int container_lookup(struct provider *p, const char *id, err_t **err)
{
	struct box *b = managed(p, id, err);

	if (!b)
		return -1;
	if (b->want_destroy)
		return 0;   /* its end will be told */
	if (b->step == BOX_DOWN)
		return owe(p, id, "", b->exited ? INSTANCE_EXITED : INSTANCE_FAILED, err_copy(b->why), err);
	if (b->step < BOX_UP)
		return owe(p, id, "", INSTANCE_AT_IT, NULL, err);   /* what the engine says decides its next step anyway */
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
	struct box *b = managed(p, id, err);
	err_t *why = NULL;

	(void)ms;   /* nothing ends a container but its Run */
	if (!b)
		return -1;
	if (b->step == BOX_UP && !b->want_destroy)
		return owe(p, id, "", INSTANCE_KEPT, NULL, err);
	if (b->step == BOX_DOWN && b->exited && !b->want_destroy)
		return owe(p, id, "", INSTANCE_EXITED, err_copy(b->why), err);
	err_set(&why, ERR_CONFLICT, "instance_not_ready", "the instance is not ready");
	return owe(p, id, "", INSTANCE_KEEP_FAILED, why, err);
}

int container_scope_end(struct provider *p, const char *id, const char *scope, err_t **err)
{
	struct box *b = container_find(p, id);

	return b ? box_scope_end(b, scope, err) : container_owe_scope(p, id, scope, NULL, err);
}

/* --- all of them --- */

static void on_listed(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct provider *p = arg;
	cleanup_free struct listed *items = err ? NULL : calloc(a->n + 1, sizeof(*items));
	cleanup_err err_t *failed = NULL;

	if (!err && !items)
		err_set(&failed, ERR_NO_MEMORY, NULL, "list of instances");
	for (size_t i = 0; items && i < a->n; i++) {
		const struct engine_container *c = &a->items[i];
		bool ours = str_eq(c->node, p->engine_config.node) && id_valid(c->instance);

		items[i] = (struct listed){ .ref = c->name, .id = ours ? c->instance : NULL, .state = c->state == ENGINE_RUNNING ? LISTED_RUNNING : LISTED_OTHER };
	}
	p->events->listed(p->arg, items, items ? a->n : 0, items != NULL, err ? err : failed);
}

int container_list(struct provider *p, err_t **err)
{
	return p->ops->list(p->engine, p->prefix, on_listed, p, err);
}
