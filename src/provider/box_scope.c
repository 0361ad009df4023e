/* box_scope.c - the ends of scopes in a container: the agent's word, or that nothing of the container is left. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "provider/box.h"
#include "provider/container.h"

#define SCOPES_MAX 4096

struct scope {
	struct list node;
	char id[ENGINE_INSTANCE_SIZE];
	bool asked;      /* not confirmed yet */
};

static struct scope *find(const struct box *b, const char *id)
{
	list_for_each(i, &b->scopes) {
		struct scope *s = list_entry(i, struct scope, node);

		if (str_eq(s->id, id))
			return s;
	}
	return NULL;
}

static struct scope *remember(struct box *b, const char *id, err_t **err)
{
	struct scope *s = find(b, id);
	size_t n = 0;

	if (s)
		return s;
	list_for_each(i, &b->scopes)
		n++;
	if (n >= SCOPES_MAX || !(s = calloc(1, sizeof(*s))) || str_copy(s->id, sizeof(s->id), id) < 0) {
		free(s);
		err_set(err, ERR_NO_MEMORY, NULL, "scope");
		return NULL;
	}
	list_add_tail(&b->scopes, &s->node);
	return s;
}

bool box_scope_over(const struct box *b, const char *scope)
{
	return find(b, scope) != NULL;
}

/* Nothing was ever started in it, or all of it has ended. */
static bool has_no_process(const struct box *b)
{
	if (b->want_destroy)
		return false;
	return !b->was_ready || (b->step == BOX_DOWN && b->exited);
}

static int ask_agent(struct box *b, struct scope *s, err_t **err)
{
	cleanup_err err_t *why = NULL;

	if (agent_link_scope_end(b->agent, s->id, &why) == 0 || err_code(why) != ERR_REFUSED)
		return 0;   /* not connected: asked when it is ready */
	s->asked = false;
	return owed_scope(b->p->owed, b->id, s->id, steal_ptr(&why), err);
}

int box_scope_end(struct box *b, const char *scope, err_t **err)
{
	struct scope *s = remember(b, scope, err);
	err_t *why = NULL;

	if (!s)
		return -1;
	if (has_no_process(b))
		return owed_scope(b->p->owed, b->id, scope, NULL, err);
	if (b->step == BOX_DOWN) {
		err_set(&why, ERR_UNKNOWN, "instance_failed", "the container may still run; it has to be destroyed");
		return owed_scope(b->p->owed, b->id, scope, why, err);
	}
	s->asked = true;
	return b->want_destroy ? 0 : ask_agent(b, s, err);
}

void box_scopes_ask(struct box *b)
{
	list_for_each(i, &b->scopes) {
		struct scope *s = list_entry(i, struct scope, node);

		if (s->asked && !b->want_destroy)
			ask_agent(b, s, NULL);
	}
}

void box_scope_ended(struct box *b, const char *scope)
{
	struct scope *s = find(b, scope);

	if (!s || !s->asked)
		return;
	s->asked = false;
	b->p->events->scope_ended(b->p->arg, b->id, scope, NULL);
}

void box_scopes_over(struct box *b, const err_t *why)
{
	list_for_each(i, &b->scopes) {
		struct scope *s = list_entry(i, struct scope, node);

		if (!s->asked)
			continue;
		s->asked = false;
		b->p->events->scope_ended(b->p->arg, b->id, s->id, why);
	}
}

void box_scopes_free(struct box *b)
{
	list_for_each_safe(i, following, &b->scopes)
		free(list_entry(i, struct scope, node));
	list_init(&b->scopes);
}
