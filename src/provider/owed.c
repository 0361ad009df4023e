/* owed.c - see owed.h. */
#include "provider/owed.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/str.h"
#include "core/id.h"
#include "provider/outside.h"

struct owed {
	const struct provider_events *events;
	void *arg;
	struct loop_timer *timer;
	struct list answers;
};

struct answer {
	struct list node;
	char id[ID_SIZE];
	char scope[ID_SIZE];          /* "": an event of the instance */
	enum instance_event ev;
	err_t *err;
	void (*fn)(void *arg);        /* or whatever this tells */
	void *fn_arg;
};

static void answer_free(struct answer *a)
{
	list_del(&a->node);
	err_free(a->err);
	free(a);
}

static void tell_one(void *arg)
{
	struct owed *o = arg;
	struct answer *a = list_entry(o->answers.next, struct answer, node);

	list_del(&a->node);
	if (!list_empty(&o->answers))
		loop_timer_set(o->timer, 0);
	if (a->fn)
		a->fn(a->fn_arg);
	else if (a->scope[0])
		o->events->scope_ended(o->arg, a->id, a->scope, a->err);
	else
		o->events->instance(o->arg, a->id, a->ev, a->err);
	answer_free(a);
}

struct owed *owed_new(struct loop *l, const struct provider_events *ev, void *arg, err_t **err)
{
	struct owed *o = calloc(1, sizeof(*o));

	if (!o || !(o->timer = loop_timer_new(l, tell_one, o))) {
		free(o);
		err_set(err, ERR_NO_MEMORY, NULL, "answers");
		return NULL;
	}
	o->events = ev;
	o->arg = arg;
	list_init(&o->answers);
	return o;
}

void owed_free(struct owed *o)
{
	if (!o)
		return;
	list_for_each_safe(i, following, &o->answers)
		answer_free(list_entry(i, struct answer, node));
	loop_timer_free(o->timer);
	free(o);
}

/* Takes over what.err. */
static int owe(struct owed *o, const char *id, const char *scope, const struct answer *what, err_t **err)
{
	struct answer *a = malloc(sizeof(*a));

	if (a)
		*a = *what;
	if (!a || str_copy(a->id, sizeof(a->id), id) < 0 || str_copy(a->scope, sizeof(a->scope), scope) < 0) {
		free(a);
		err_free(what->err);
		return err_set(err, ERR_NO_MEMORY, NULL, "answer");
	}
	list_add_tail(&o->answers, &a->node);
	loop_timer_set(o->timer, 0);
	return 0;
}

int owed_event(struct owed *o, const char *instance_id, enum instance_event ev, err_t *what, err_t **err)
{
	outside_fail(instance_id, &what);
	return owe(o, instance_id, "", &(struct answer){ .ev = ev, .err = what }, err);
}

int owed_scope(struct owed *o, const char *instance_id, const char *scope, err_t *what, err_t **err)
{
	return owe(o, instance_id, scope, &(struct answer){ .err = what }, err);
}

int owed_call(struct owed *o, void (*fn)(void *arg), void *arg, err_t **err)
{
	return owe(o, "", "", &(struct answer){ .fn = fn, .fn_arg = arg }, err);
}
