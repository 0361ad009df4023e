/* agent_instance.h - one instance whose processes are reached through our agent: its connection, the commands that are out, the scopes that were ended,
 * its control group. It tells all that comes of commands and scopes; what becomes of the instance itself is told by the provider, see agents.h. */
#ifndef PADDOCK_PROVIDER_AGENT_INSTANCE_H
#define PADDOCK_PROVIDER_AGENT_INSTANCE_H

#include "base/list.h"
#include "provider/agent_link.h"
#include "provider/agent_token.h"
#include "provider/cgroup.h"
#include "provider/provider.h"

struct agents;

/* What the provider knows of the processes in there. */
enum agent_life {
	AGENT_NONE,       /* there are none: nothing was ever started, or all has ended */
	AGENT_RUNS,       /* there may be some; the agent is asked when it is there */
	AGENT_UP,         /* as READY says: commands are taken */
	AGENT_ENDS,       /* all of them are being ended, and that will be told: the agent is not asked any more */
	AGENT_IN_DOUBT,   /* there may be some, and nobody is at it: only destroy() leads on */
};

struct agent_instance {
	struct list node;            /* in agents.instances */
	struct agents *of;
	const char *id;              /* the owner's */
	const char *token_hash;      /* the owner's, of AGENT_HASH_SIZE; "" lets no agent in */
	struct agent_link *link;     /* NULL: not opened */
	struct cgroup *cgroup;       /* NULL: not known */
	bool enforced;               /* the kernel holds it to its limits */
	struct list execs;           /* commands whose end is not acknowledged */
	unsigned execs_n;
	struct list scopes;          /* that were asked to end, the newest last: nothing is started in them */
	unsigned scopes_n;
};

void agent_instance_init(struct agent_instance *i, struct agents *of, const char *id, const char *token_hash);
void agent_instance_free(struct agent_instance *i);             /* forgets; it goes on, and its agent keeps dialling */
int agent_instance_open(struct agent_instance *i, err_t **err);  /* listens for its agent; agent_link_expect() says for which */
void agent_instance_shut(struct agent_instance *i);              /* no agent of it will dial: nothing runs */
void agent_instance_remove(struct agent_instance *i);            /* nothing of it is left: the directory of the socket goes, too */

/* Looks for the control group of its first process and limits it. -1: nominal only. */
int agent_instance_limit(struct agent_instance *i, pid_t pid, err_t **err);
void agent_instance_limits_seen(struct agent_instance *i, const err_t *why);   /* what came of it is for the log and for health() */
void agent_instance_forget_run(struct agent_instance *i);        /* nothing runs: no control group, no commands */

/* Tells an event of the instance; no path of the host is in what is told of err (outside.h). */
void agent_instance_tell(struct agent_instance *i, enum instance_event ev, const err_t *err);
int agent_instance_exec(struct agent_instance *i, const struct exec_spec *x, err_t **err);
int agent_instance_exec_ack(struct agent_instance *i, const char *exec_id, err_t **err);
bool agent_instance_is_busy(const struct agent_instance *i);     /* a command runs */

/* The ends of scopes (agent_instance_scope.c). */
int agent_instance_scope_end(struct agent_instance *i, const char *scope, err_t **err);
bool agent_instance_scope_over(const struct agent_instance *i, const char *scope);   /* it was asked to end */
void agent_instance_scope_ended(struct agent_instance *i, const char *scope);        /* the agent's word */
void agent_instance_scopes_ask(struct agent_instance *i);        /* the agent is there (again): it is asked for those that are not confirmed */
/* Answers all that are not confirmed; why NULL: no process is left. Who is told must not ask for the end of another from within. */
void agent_instance_scopes_over(struct agent_instance *i, const err_t *why);
void agent_instance_scopes_free(struct agent_instance *i);

#endif
