/* exec_groups.h - the process groups of the commands that an agent has told, so that a kill meets the command that is meant or nothing. */
#ifndef PADDOCK_PROVIDER_EXEC_GROUPS_H
#define PADDOCK_PROVIDER_EXEC_GROUPS_H

#include "base/err.h"
#include "base/list.h"
#include "provider/exec.h"

struct exec_groups {
	struct list list;
	size_t n;
};

void exec_groups_init(struct exec_groups *g);
void exec_groups_clear(struct exec_groups *g);
int exec_groups_note(struct exec_groups *g, const char *exec_id, int32_t pgid);   /* -1: more than any agent can hold, or no memory */
void exec_groups_forget(struct exec_groups *g, const char *exec_id);              /* fine when not known */
/* ERR_CONFLICT (detail "other_process") when the command is known to be another group than x says. Whether one of this id is alive the agent itself knows. */
int exec_groups_verify(const struct exec_groups *g, const struct exec_ref *x, err_t **err);

#endif
