#include "agent/proctab.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

static struct proc table[PROCTAB_MAX];

int proctab_parse(const char *line, struct proc *ret)
{
	char *end;

	/* The name in parentheses is the process's own choice and may hold anything, also ") R 1": the last one counts. */
	const char *close_paren = strrchr(line, ')');
	long pid = strtol(line, &end, 10);
	if (!close_paren || end == line || pid <= 0 || close_paren[1] != ' ' || !close_paren[2] || close_paren[3] != ' ')
		return -1;
	const char *p = close_paren + 4;
	long ppid = strtol(p, &end, 10);
	if (end == p || ppid < 0)
		return -1;
	*ret = (struct proc){ .pid = (pid_t)pid, .ppid = (pid_t)ppid, .state = close_paren[2] };
	return 0;
}

/* At most n - 1 bytes of /proc/<pid>/<file>; -1 when the process is gone. */
static ssize_t read_proc(int dirfd, const char *pid, const char *file, char *dst, size_t n)
{
	char path[64];

	if (str_fmt(path, sizeof(path), "%s/%s", pid, file) < 0)
		return -1;
	cleanup_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t r = read(fd, dst, n - 1);
	if (r >= 0)
		dst[r] = 0;
	return r;
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct proc *)a)->pid, y = ((const struct proc *)b)->pid;

	return (x > y) - (x < y);
}

static struct proc *find(size_t n, pid_t pid)
{
	struct proc key = { .pid = pid };

	return bsearch(&key, table, n, sizeof(key), by_pid);
}

/* Walks up to the child of PID 1 or to an ancestor that is already known, then writes the answer to all on the way. The parents were
 * read one after the other while they changed: the steps are bounded, whatever the table says. */
static void resolve(size_t n, struct proc *from)
{
	struct proc *p = from;
	pid_t top = 0;

	for (size_t steps = 0; p && steps <= n; steps++) {
		if (p->top || p->ppid == 1) {
			top = p->top ? p->top : p->pid;
			break;
		}
		p = p->ppid > 1 ? find(n, p->ppid) : NULL;
	}
	for (p = from; top && p && !p->top; p = find(n, p->ppid)) {
		p->top = top;
		if (p->ppid == 1)
			break;
	}
}

const struct proc *proctab_scan(size_t *ret_n)
{
	cleanup_closedir DIR *d = opendir("/proc");
	char line[512];
	size_t n = 0;

	if (!d)
		return NULL;
	for (const struct dirent *e; n < PROCTAB_MAX && (e = readdir(d)) != NULL;) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		if (read_proc(dirfd(d), e->d_name, "stat", line, sizeof(line)) <= 0 || proctab_parse(line, &table[n]) < 0)
			continue;
		if (table[n].pid != 1)
			n++;
	}
	qsort(table, n, sizeof(table[0]), by_pid);
	for (size_t i = 0; i < n; i++)
		resolve(n, &table[i]);
	*ret_n = n;
	return table;
}

size_t proctab_count(void)
{
	cleanup_closedir DIR *d = opendir("/proc");
	size_t n = 0;

	for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
	return n;
}

bool proctab_stop_pending(pid_t pid)
{
	static const char name[] = "\nShdPnd:";
	char path[32], text[4096];

	cleanup_close int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 || str_fmt(path, sizeof(path), "%d", (int)pid) < 0 || read_proc(proc, path, "status", text, sizeof(text)) <= 0)
		return false;
	const char *p = strstr(text, name);
	return p && strtoull(p + sizeof(name) - 1, NULL, 16) & UINT64_C(1) << (SIGSTOP - 1);
}
