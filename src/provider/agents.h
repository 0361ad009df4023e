/* agents.h - what providers have in common whose instances are reached through our agent (agent_link.h). How an instance is made, found, paused and
 * ended is the provider's; what goes on inside is here and in agent_instance.h: the agent's connection, commands, the ends of scopes, limits.
 *
 * Such a provider has `struct agents` as the first member of its `struct provider` and a `struct agent_instance` in each of its instances; the calls
 * below go into its provider_ops as they are. One that reaches its instances by another protocol has none of this. */
#ifndef PADDOCK_PROVIDER_AGENTS_H
#define PADDOCK_PROVIDER_AGENTS_H

#include "provider/agent_instance.h"
#include "provider/owed.h"

struct agents_ops {
	enum agent_life (*life)(const struct agent_instance *i);
	void (*ready)(struct agent_instance *i);   /* the agent is there (again) and has told what it holds. Called from its connection: do not free the instance */
	void (*lost)(struct agent_instance *i);    /* its connection broke */
};

struct agents {
	struct loop *loop;
	const struct provider_events *events;
	void *arg;
	const struct agents_ops *ops;
	struct list instances;                     /* by agent_instance.node */
	struct owed *owed;
	/* The provider sets these before it has an instance; borrowed. */
	const char *dir;                           /* <dir>/<instance>/s is an agent's socket */
	const char *cgroup_parent;
	struct agent_link_limits link_limits;
	struct cgroup_limits limits;
	/* What came of the limits of the instance that was last limited, for health(). */
	enum { LIMITS_UNKNOWN, LIMITS_ENFORCED, LIMITS_NOMINAL } limits_seen;
	char limits_hint[256];
};

int agents_init(struct agents *a, struct loop *l, const struct provider_events *ev, void *arg, const struct agents_ops *ops, err_t **err);
void agents_free(struct agents *a);            /* after its instances. Zeroed memory is fine */

/* The instance, or NULL; with an error: ERR_NOT_FOUND. */
struct agent_instance *agents_find(const struct agents *a, const char *id);
struct agent_instance *agents_find_or_say(const struct agents *a, const char *id, err_t **err);
/* For create() and adopt(): 0 when there is no such instance and its Workspace may be called so. */
int agents_may_add(const struct agents *a, const struct instance_spec *s, err_t **err);

/* Calls of provider_ops, for a provider that begins with struct agents. */
int agents_exec(struct provider *p, const char *id, const struct exec_spec *x, err_t **err);
int agents_exec_ack(struct provider *p, const char *id, const char *exec_id, err_t **err);
int agents_exec_stdin(struct provider *p, const char *id, const char *exec_id, uint64_t offset, const void *data, size_t n, bool eof, err_t **err);
int agents_exec_signal(struct provider *p, const char *id, const struct exec_ref *x, int signo, err_t **err);
int agents_exec_kill(struct provider *p, const char *id, const struct exec_ref *x, err_t **err);
int agents_scope_end(struct provider *p, const char *id, const char *scope, err_t **err);
bool agents_enforced(struct provider *p, const char *id);

#endif
