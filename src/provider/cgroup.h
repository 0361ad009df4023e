/* cgroup.h - limits of one container: written by us on cgroup v1 (a rootless engine sets none there), checked on v2.
 *
 * v1: every hierarchy that the container is in must have it below cgroup_parent, in a directory that the account may write.
 * Blocking, but only on the kernel's own files. */
#ifndef PADDOCK_PROVIDER_CGROUP_H
#define PADDOCK_PROVIDER_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct cgroup;

struct cgroup_limits {
	int64_t memory_bytes, pids, cpus_milli;
};

/* root: normally /sys/fs/cgroup. membership: the text of /proc/PID/cgroup. parent: [container] cgroup_parent. */
struct cgroup *cgroup_open(const char *root, const char *membership, const char *parent, err_t **err);
/* That of a process. */
struct cgroup *cgroup_of(pid_t pid, const char *parent, err_t **err);
void cgroup_free(struct cgroup *g);   /* NULL is fine */

/* 0: memory and pids are limited as asked and the kernel enforces it; -1: nominal only, err says why. */
int cgroup_limit(struct cgroup *g, const struct cgroup_limits *l, err_t **err);
/* How many processes the kernel killed in there for want of memory so far; -1 when it does not tell. */
int64_t cgroup_oom_kills(struct cgroup *g);

#endif
