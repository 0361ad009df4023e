/* agent_instance_scope.c - the ends of scopes in an instance: the agent's word, or that no process of the instance is left. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/id.h"
#include "provider/agent_instance.h"
#include "provider/agents.h"

#define SCOPES_MAX 4096      /* an instance may outlive many Runs: the oldest are forgotten, as by the agent; the executor has its tombstones */

struct scope {
	struct list node;
	char id[ID_SIZE];
	bool asked;              /* not confirmed yet */
};

static struct scope *find(const struct agent_instance *i, const char *id)
{
	list_for_each(n, &i->scopes) {
		struct scope *s = list_entry(n, struct scope, node);

		if (str_eq(s->id, id))
			return s;
	}
	return NULL;
}

static void forget(struct agent_instance *i, struct scope *s)
{
	list_del(&s->node);
	free(s);
	i->scopes_n--;
}

static void forget_oldest(struct agent_instance *i)
{
	list_for_each_safe(n, following, &i->scopes) {
		struct scope *s = list_entry(n, struct scope, node);

		if (s->asked)
			continue;
		forget(i, s);
		return;
	}
}

static struct scope *remember(struct agent_instance *i, const char *id, err_t **err)
{
	struct scope *s = find(i, id);

	if (s)
		return s;
	if (i->scopes_n >= SCOPES_MAX)
		forget_oldest(i);
	if (i->scopes_n >= SCOPES_MAX || !(s = calloc(1, sizeof(*s))) || str_copy(s->id, sizeof(s->id), id) < 0) {
		free(s);
		err_set(err, ERR_NO_MEMORY, NULL, "scope");
		return NULL;
	}
	list_add_tail(&i->scopes, &s->node);
	i->scopes_n++;
	return s;
}

bool agent_instance_scope_over(const struct agent_instance *i, const char *scope)
{
	return find(i, scope) != NULL;
}

static int ask_agent(struct agent_instance *i, struct scope *s, err_t **err)
{
	cleanup_err err_t *why = NULL;

	if (!i->link || agent_link_scope_end(i->link, s->id, &why) == 0 || err_code(why) != ERR_REFUSED)
		return 0;   /* not connected: asked when it is ready */
	s->asked = false;
	return owed_scope(i->of->owed, i->id, s->id, steal_ptr(&why), err);
}

int agent_instance_scope_end(struct agent_instance *i, const char *scope, err_t **err)
{
	enum agent_life life = i->of->ops->life(i);
	struct scope *s = remember(i, scope, err);
	err_t *why = NULL;

	if (!s)
		return -1;
	if (life == AGENT_NONE)
		return owed_scope(i->of->owed, i->id, scope, NULL, err);
	if (life == AGENT_IN_DOUBT) {
		err_set(&why, ERR_UNKNOWN, "instance_failed", "the instance may still run; it has to be destroyed");
		return owed_scope(i->of->owed, i->id, scope, why, err);
	}
	s->asked = true;
	return life == AGENT_ENDS ? 0 : ask_agent(i, s, err);
}

void agent_instance_scopes_ask(struct agent_instance *i)
{
	enum agent_life life = i->of->ops->life(i);

	if (life != AGENT_RUNS && life != AGENT_UP)
		return;
	list_for_each(n, &i->scopes) {
		struct scope *s = list_entry(n, struct scope, node);

		if (s->asked)
			ask_agent(i, s, NULL);
	}
}

void agent_instance_scope_ended(struct agent_instance *i, const char *scope)
{
	struct scope *s = find(i, scope);

	if (!s || !s->asked)
		return;
	s->asked = false;
	i->of->events->scope_ended(i->of->arg, i->id, scope, NULL);
}

void agent_instance_scopes_over(struct agent_instance *i, const err_t *why)
{
	list_for_each(n, &i->scopes) {
		struct scope *s = list_entry(n, struct scope, node);

		if (!s->asked)
			continue;
		s->asked = false;
		i->of->events->scope_ended(i->of->arg, i->id, s->id, why);
	}
}

void agent_instance_scopes_free(struct agent_instance *i)
{
	list_for_each_safe(n, following, &i->scopes)
		forget(i, list_entry(n, struct scope, node));
}
