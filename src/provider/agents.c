/* agents.c - see agents.h. */
#include "provider/agents.h"

#include "base/str.h"
#include "provider/workspace.h"

int agents_init(struct agents *a, struct loop *l, const struct provider_events *ev, void *arg, const struct agents_ops *ops, err_t **err)
{
	a->loop = l;
	a->events = ev;
	a->arg = arg;
	a->ops = ops;
	list_init(&a->instances);
	a->owed = owed_new(l, ev, arg, err);
	return a->owed ? 0 : -1;
}

void agents_free(struct agents *a)
{
	owed_free(a->owed);
}

struct agent_instance *agents_find(const struct agents *a, const char *id)
{
	list_for_each(n, &a->instances) {
		struct agent_instance *i = list_entry(n, struct agent_instance, node);

		if (str_eq(i->id, id))
			return i;
	}
	return NULL;
}

struct agent_instance *agents_find_or_say(const struct agents *a, const char *id, err_t **err)
{
	struct agent_instance *i = agents_find(a, id);

	if (!i)
		err_set(err, ERR_NOT_FOUND, "instance_not_found", "no such instance");
	return i;
}

int agents_may_add(const struct agents *a, const struct instance_spec *s, err_t **err)
{
	if (agents_find(a, s->id))
		return err_set(err, ERR_EXISTS, NULL, "the instance is managed already");
	if (!workspace_name_valid(s->workspace))
		return err_set(err, ERR_INVALID, "bad_workspace", "a workspace name is [a-z0-9][a-z0-9._-]{0,63}");
	return 0;
}

/* --- calls of provider_ops --- */

static struct agents *agents_of(struct provider *p)
{
	return (struct agents *)p;   /* its first member */
}

/* An instance that takes commands, or NULL with an error. */
static struct agent_instance *up(struct provider *p, const char *id, err_t **err)
{
	struct agents *a = agents_of(p);
	struct agent_instance *i = agents_find_or_say(a, id, err);

	if (!i || a->ops->life(i) == AGENT_UP)
		return i;
	err_set(err, ERR_CONFLICT, "instance_not_ready", "the instance is not ready");
	return NULL;
}

int agents_exec(struct provider *p, const char *id, const struct exec_spec *x, err_t **err)
{
	struct agent_instance *i = up(p, id, err);

	return i ? agent_instance_exec(i, x, err) : -1;
}

int agents_exec_ack(struct provider *p, const char *id, const char *exec_id, err_t **err)
{
	struct agent_instance *i = up(p, id, err);

	return i ? agent_instance_exec_ack(i, exec_id, err) : -1;
}

int agents_exec_stdin(struct provider *p, const char *id, const char *exec_id, uint64_t offset, const void *data, size_t n, bool eof, err_t **err)
{
	struct agent_instance *i = up(p, id, err);

	return i ? agent_link_stdin(i->link, exec_id, offset, data, n, eof, err) : -1;
}

int agents_exec_signal(struct provider *p, const char *id, const struct exec_ref *x, int signo, err_t **err)
{
	struct agent_instance *i = up(p, id, err);

	return i ? agent_link_signal(i->link, x, signo, err) : -1;
}

int agents_exec_kill(struct provider *p, const char *id, const struct exec_ref *x, err_t **err)
{
	struct agent_instance *i = up(p, id, err);

	return i ? agent_link_kill(i->link, x, err) : -1;
}

int agents_scope_end(struct provider *p, const char *id, const char *scope, err_t **err)
{
	struct agents *a = agents_of(p);
	struct agent_instance *i = agents_find(a, id);

	return i ? agent_instance_scope_end(i, scope, err) : owed_scope(a->owed, id, scope, NULL, err);
}

bool agents_enforced(struct provider *p, const char *id)
{
	struct agent_instance *i = agents_find(agents_of(p), id);

	return i && i->enforced;
}
