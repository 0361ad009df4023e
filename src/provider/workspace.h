/* workspace.h - the directories behind workspace names. Names come from callers and are checked; no path does.
 *
 * <root>/<name> is the gate: 2750, the group handed down by the setgid root; never mounted, so nothing inside a container can change it.
 * <root>/<name>/files, 2755, is what is mounted. Both are owned by the account. */
#ifndef PADDOCK_PROVIDER_WORKSPACE_H
#define PADDOCK_PROVIDER_WORKSPACE_H

#include <stdbool.h>

#include "base/err.h"

#define WORKSPACE_NAME_MAX 64

bool workspace_name_valid(const char *name);   /* [a-z0-9][a-z0-9._-]{0,63} */
/* Makes what is missing below root_fd; what is there must be a directory of ours, links are refused. */
int workspace_make(int root_fd, const char *name, err_t **err);

#endif
