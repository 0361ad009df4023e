/* host_group.c - see host_group.h. */
#include "provider/host_group.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"

#define CPU_PERIOD_US 100000
#define VALUE_MAX 4096
#define GROUPS_MAX 65536
#define REMOVE_TRIES 50

static bool put(const char *dir, const char *file, const char *text)
{
	char path[PATH_MAX];
	cleanup_close int fd = -1;

	if (str_fmt(path, sizeof(path), "%s/%s", dir, file) < 0)
		return false;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) >= 0;
}

static void put_number(const char *dir, const char *file, int64_t n)
{
	char text[24];

	str_fmt(text, sizeof(text), "%lld", (long long)n);
	(void)put(dir, file, text);   /* whether it holds is looked at by cgroup_limit() */
}

/* A new cpuset is empty, and nothing can run in it. */
static void take_over(const char *from, const char *to, const char *file)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];

	if (str_fmt(path, sizeof(path), "%s/%s", from, file) == 0 && io_read_file(AT_FDCWD, path, VALUE_MAX, &text, NULL, NULL) == 0)
		(void)put(to, file, text);
}

static void limit_v2(const char *dir, const struct cgroup_limits *l)
{
	char cpu[64];

	put_number(dir, "memory.max", l->memory_bytes);
	put_number(dir, "memory.swap.max", 0);
	put_number(dir, "pids.max", l->pids);
	str_fmt(cpu, sizeof(cpu), "%lld %d", (long long)(l->cpus_milli * CPU_PERIOD_US / 1000), CPU_PERIOD_US);
	(void)put(dir, "cpu.max", cpu);
}

static void join_one(const char *hierarchy, const char *parent, const char *id, pid_t pid, const struct cgroup_limits *v2)
{
	char above[PATH_MAX], dir[PATH_MAX], text[24];

	if (str_fmt(above, sizeof(above), "%s%s", hierarchy, parent) < 0 || str_fmt(dir, sizeof(dir), "%s/host-%s", above, id) < 0)
		return;
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return;
	take_over(above, dir, "cpuset.cpus");
	take_over(above, dir, "cpuset.mems");
	if (v2)
		limit_v2(dir, v2);
	str_fmt(text, sizeof(text), "%d", (int)pid);
	if (!put(dir, "cgroup.procs", text)) {
		log_kv(LOG_DEBUG, "cgroup_not_joined", "path", dir, "err", strerror(errno), NULL);
		(void)rmdir(dir);
	}
}

static bool is_v2(const char *root)
{
	char path[PATH_MAX];

	return str_fmt(path, sizeof(path), "%s/cgroup.controllers", root) == 0 && access(path, F_OK) == 0;
}

/* Calls fn for the mount point of each hierarchy. */
static void each(const char *root, void (*fn)(void *arg, const char *hierarchy), void *arg)
{
	cleanup_closedir DIR *d = NULL;
	char path[PATH_MAX];

	if (is_v2(root)) {
		fn(arg, root);
		return;
	}
	d = opendir(root);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_type == DT_DIR && e->d_name[0] != '.' && str_fmt(path, sizeof(path), "%s/%s", root, e->d_name) == 0)
			fn(arg, path);
}

struct one {
	const char *parent, *id;
	pid_t pid;
	const struct cgroup_limits *v2;
};

static void join(void *arg, const char *hierarchy)
{
	const struct one *o = arg;

	join_one(hierarchy, o->parent, o->id, o->pid, o->v2);
}

void host_group_join(const char *root, const char *parent, const char *id, pid_t pid, const struct cgroup_limits *l)
{
	struct one o = { parent, id, pid, is_v2(root) ? l : NULL };

	each(root, join, &o);
}

/* One that was begun while its keeper was killed waits for somebody who is no more. Its pid may be another's by now: it is asked once it cannot change. */
static void end_one(pid_t pid, const char *id)
{
	cleanup_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	cleanup_free char *groups = NULL;
	char path[64];

	if (fd >= 0 && str_fmt(path, sizeof(path), "/proc/%d/cgroup", (int)pid) == 0 &&
	    io_read_file(AT_FDCWD, path, GROUPS_MAX, &groups, NULL, NULL) == 0 && strstr(groups, id))
		(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

static void end_all(const char *dir, const char *id)
{
	cleanup_free char *pids = NULL;
	char path[PATH_MAX];
	char *rest, *line;

	if (str_fmt(path, sizeof(path), "%s/cgroup.procs", dir) < 0 || io_read_file(AT_FDCWD, path, GROUPS_MAX, &pids, NULL, NULL) < 0)
		return;
	for (rest = pids; (line = strsep(&rest, "\n"));) {
		int64_t pid;

		if (num_i64(line, 2, INT32_MAX, &pid) == 0)
			end_one((pid_t)pid, id);
	}
}

/* The kernel takes a moment to empty a group whose processes have ended. */
static void leave(void *arg, const char *hierarchy)
{
	const struct one *o = arg;
	char dir[PATH_MAX];

	if (str_fmt(dir, sizeof(dir), "%s%s/host-%s", hierarchy, o->parent, o->id) < 0)
		return;
	for (int i = 0; i < REMOVE_TRIES && rmdir(dir) < 0 && errno == EBUSY; i++) {
		end_all(dir, o->id);
		poll(NULL, 0, 10);
	}
}

void host_group_remove(const char *root, const char *parent, const char *id)
{
	struct one o = { .parent = parent, .id = id };

	each(root, leave, &o);
}
