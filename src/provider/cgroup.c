/* cgroup.c - see cgroup.h. */
#include "provider/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define MEMBERSHIP_MAX 65536
#define VALUE_MAX 4096
#define CPU_PERIOD_US 100000

struct cgroup {
	bool v2;
	char memory[PATH_MAX], pids[PATH_MAX], cpu[PATH_MAX];   /* directories; v2: all the same; "" when there is none */
	int events_fd;   /* where the kernel counts its kills: looked at for each command, so it stays open; -1: not yet */
};

/* The path of one membership line "id:controllers:path" when it has the controller (v2: the empty list), else NULL. */
static char *path_of(const char *membership, const char *controller)
{
	for (const char *line = membership; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
		size_t n = strlen(controller);

		if (!path)
			continue;
		for (const char *c = ++list; c < path; c += strcspn(c, ",:") + 1)
			if (n && strncmp(c, controller, n) == 0 && (c[n] == ',' || c[n] == ':'))
				return str_dupn(path + 1, strcspn(path + 1, "\n"));
		if (n == 0 && list == path)
			return str_dupn(path + 1, strcspn(path + 1, "\n"));
	}
	return NULL;
}

/* dst: the directory of the controller, "" when the container is not below `parent` there or the path is not clean. */
static void locate(char dst[PATH_MAX], const char *root, const char *membership, const char *controller, const char *parent)
{
	cleanup_free char *path = path_of(membership, controller);
	size_t n = parent ? strlen(parent) : 0;

	dst[0] = '\0';
	if (!path || path[0] != '/' || strstr(path, "/../") || str_suffix(path, "/.."))
		return;
	if (n && (strncmp(path, parent, n) != 0 || path[n] != '/'))
		return;
	str_fmt(dst, PATH_MAX, "%s%s%s%s", root, *controller ? "/" : "", controller, path);
}

struct cgroup *cgroup_open(const char *root, const char *membership, const char *parent, err_t **err)
{
	struct cgroup *g = calloc(1, sizeof(*g));
	cleanup_free char *v1 = path_of(membership, "memory");

	if (!g) {
		err_set(err, ERR_NO_MEMORY, NULL, "cgroup");
		return NULL;
	}
	g->events_fd = -1;
	g->v2 = !v1;
	if (g->v2) {
		locate(g->memory, root, membership, "", NULL);
		str_copy(g->pids, sizeof(g->pids), g->memory);
		str_copy(g->cpu, sizeof(g->cpu), g->memory);
	} else {
		locate(g->memory, root, membership, "memory", parent);
		locate(g->pids, root, membership, "pids", parent);
		locate(g->cpu, root, membership, "cpu", parent);
	}
	return g;
}

struct cgroup *cgroup_of(pid_t pid, const char *parent, err_t **err)
{
	cleanup_free char *membership = NULL;
	char path[64];

	str_fmt(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (io_read_file(AT_FDCWD, path, MEMBERSHIP_MAX, &membership, NULL, err) < 0)
		return NULL;
	return cgroup_open(CGROUP_ROOT, membership, parent, err);
}

void cgroup_free(struct cgroup *g)
{
	if (g && g->events_fd >= 0)
		close(g->events_fd);
	free(g);
}

static int read_text(const char *dir, const char *file, char **ret, err_t **err)
{
	char path[PATH_MAX];

	if (!dir[0])
		return err_set(err, ERR_UNAVAILABLE, "cgroup_missing", "the container is in no cgroup that we may limit (%s)", file);
	if (str_fmt(path, sizeof(path), "%s/%s", dir, file) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "cgroup path");
	return io_read_file(AT_FDCWD, path, VALUE_MAX, ret, NULL, err);
}

static int write_value(const char *dir, const char *file, int64_t value, err_t **err)
{
	char path[PATH_MAX], text[24];
	cleanup_close int fd = -1;

	if (!dir[0])
		return err_set(err, ERR_UNAVAILABLE, "cgroup_missing", "the container is in no cgroup that we may limit (%s)", file);
	if (str_fmt(path, sizeof(path), "%s/%s", dir, file) < 0 || str_fmt(text, sizeof(text), "%lld", (long long)value) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "cgroup path");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return err_sys(err, errno, "%s", path);
	return 0;
}

/* The limit in force is a number and not above the one asked for (the kernel rounds memory down to a page). */
static int check_value(const char *dir, const char *file, int64_t at_most, err_t **err)
{
	cleanup_free char *text = NULL;
	int64_t n = -1;

	if (read_text(dir, file, &text, err) < 0)
		return -1;
	text[strcspn(text, "\n")] = '\0';
	if (num_i64(text, 0, INT64_MAX, &n) < 0 || n > at_most)
		return err_set(err, ERR_UNAVAILABLE, "limit_not_enforced", "%s is %s, not %lld", file, text, (long long)at_most);
	return 0;
}

static int limit_v1(const struct cgroup *g, const struct cgroup_limits *l, err_t **err)
{
	err_t *ignored = NULL;
	const char *memsw = "memory.memsw.limit_in_bytes";
	int64_t quota = l->cpus_milli * CPU_PERIOD_US / 1000;

	if (write_value(g->memory, "memory.limit_in_bytes", l->memory_bytes, err) < 0 ||
	    check_value(g->memory, "memory.limit_in_bytes", l->memory_bytes, err) < 0)
		return -1;
	/* absent without swap accounting: there the first limit alone counts, and swap is not limited */
	if (write_value(g->memory, memsw, l->memory_bytes, &ignored) < 0 && err_errno(ignored) != ENOENT)
		return err_move(err, ignored);
	err_free(ignored);
	if (write_value(g->pids, "pids.max", l->pids, err) < 0 || check_value(g->pids, "pids.max", l->pids, err) < 0)
		return -1;
	if (write_value(g->cpu, "cpu.cfs_period_us", CPU_PERIOD_US, err) < 0)
		return -1;
	return write_value(g->cpu, "cpu.cfs_quota_us", quota, err);
}

int cgroup_limit(struct cgroup *g, const struct cgroup_limits *l, err_t **err)
{
	if (!g->v2)
		return limit_v1(g, l, err);
	if (check_value(g->memory, "memory.max", l->memory_bytes, err) < 0)
		return -1;
	return check_value(g->pids, "pids.max", l->pids, err);
}

static int events_open(const struct cgroup *g)
{
	char path[PATH_MAX];

	if (!g->memory[0] || str_fmt(path, sizeof(path), "%s/%s", g->memory, g->v2 ? "memory.events" : "memory.oom_control") < 0)
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC);
}

int64_t cgroup_oom_kills(struct cgroup *g)
{
	char text[VALUE_MAX];
	int64_t n = -1;
	ssize_t len;

	if (g->events_fd < 0)
		g->events_fd = events_open(g);
	len = g->events_fd < 0 ? -1 : io_pread(g->events_fd, text, sizeof(text) - 1, 0);
	if (len < 0)
		return -1;
	text[len] = '\0';
	for (char *line = text; line && *line;) {
		char *end = strchr(line, '\n');

		if (end)
			*end = '\0';
		if (str_prefix(line, "oom_kill "))
			num_i64(line + strlen("oom_kill "), 0, INT64_MAX, &n);
		line = end ? end + 1 : NULL;
	}
	return n;
}
