/* host_group.h - the control group of one instance of the provider `host`, below [container] cgroup_parent. The account owns that tree; where it does not,
 * there is no group and the limits are nominal. Blocking, on the kernel's own files. */
#ifndef PADDOCK_PROVIDER_HOST_GROUP_H
#define PADDOCK_PROVIDER_HOST_GROUP_H

#include <sys/types.h>

#include "provider/cgroup.h"

/* Makes the group in every hierarchy that has the parent and puts the process there; cgroup v2: with its limits (v1: cgroup_limit() writes them). */
void host_group_join(const char *root, const char *parent, const char *id, pid_t pid, const struct cgroup_limits *l);
/* Nothing is to run in it any more: what a keeper that was killed left behind in it is ended. */
void host_group_remove(const char *root, const char *parent, const char *id);

#endif
