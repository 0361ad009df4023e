/* host_scope.c - the ends of scopes in a sandbox: the agent's word, or that nothing of the sandbox runs. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "provider/host.h"

#define SCOPES_MAX 4096      /* a sandbox outlives many Runs: the oldest are forgotten, as by the agent; the executor has its tombstones */

struct scope {
	struct list node;
	char id[ID_SIZE];
	bool asked;              /* not confirmed yet */
};

static struct scope *find(const struct sandbox *s, const char *id)
{
	list_for_each(i, &s->scopes) {
		struct scope *x = list_entry(i, struct scope, node);

		if (str_eq(x->id, id))
			return x;
	}
	return NULL;
}

static void scope_free(struct sandbox *s, struct scope *x)
{
	list_del(&x->node);
	free(x);
	s->scopes_n--;
}

static void forget_oldest(struct sandbox *s)
{
	list_for_each_safe(i, following, &s->scopes) {
		struct scope *x = list_entry(i, struct scope, node);

		if (x->asked)
			continue;
		scope_free(s, x);
		return;
	}
}

static struct scope *remember(struct sandbox *s, const char *id, err_t **err)
{
	struct scope *x = find(s, id);

	if (x)
		return x;
	if (s->scopes_n >= SCOPES_MAX)
		forget_oldest(s);
	if (s->scopes_n >= SCOPES_MAX || !(x = calloc(1, sizeof(*x))) || str_copy(x->id, sizeof(x->id), id) < 0) {
		free(x);
		err_set(err, ERR_NO_MEMORY, NULL, "scope");
		return NULL;
	}
	list_add_tail(&s->scopes, &x->node);
	s->scopes_n++;
	return x;
}

bool sandbox_scope_over(const struct sandbox *s, const char *scope)
{
	return find(s, scope) != NULL;
}

/* Nothing was ever started in it, or all of it has ended. */
static bool has_no_process(const struct sandbox *s)
{
	if (s->want_destroy)
		return false;
	return !s->was_ready || s->step == SANDBOX_PAUSED || s->step == SANDBOX_DOWN;
}

static int ask_agent(struct sandbox *s, struct scope *x, err_t **err)
{
	cleanup_err err_t *why = NULL;

	if (!s->agent || agent_link_scope_end(s->agent, x->id, &why) == 0 || err_code(why) != ERR_REFUSED)
		return 0;   /* not connected: asked when it is ready */
	x->asked = false;
	return owed_scope(s->p->owed, s->id, x->id, steal_ptr(&why), err);
}

int sandbox_scope_end(struct sandbox *s, const char *scope, err_t **err)
{
	struct scope *x = remember(s, scope, err);

	if (!x)
		return -1;
	if (has_no_process(s))
		return owed_scope(s->p->owed, s->id, scope, NULL, err);
	x->asked = true;
	return s->want_destroy || s->want_pause ? 0 : ask_agent(s, x, err);
}

void sandbox_scopes_ask(struct sandbox *s)
{
	list_for_each(i, &s->scopes) {
		struct scope *x = list_entry(i, struct scope, node);

		if (x->asked && !s->want_destroy && !s->want_pause)
			ask_agent(s, x, NULL);
	}
}

void sandbox_scope_ended(struct sandbox *s, const char *scope)
{
	struct scope *x = find(s, scope);

	if (!x || !x->asked)
		return;
	x->asked = false;
	s->p->events->scope_ended(s->p->arg, s->id, scope, NULL);
}

void sandbox_scopes_over(struct sandbox *s, const err_t *why)
{
	list_for_each(i, &s->scopes) {
		struct scope *x = list_entry(i, struct scope, node);

		if (!x->asked)
			continue;
		x->asked = false;
		s->p->events->scope_ended(s->p->arg, s->id, x->id, why);
	}
}

void sandbox_scopes_free(struct sandbox *s)
{
	list_for_each_safe(i, following, &s->scopes)
		scope_free(s, list_entry(i, struct scope, node));
}
