/* leftovers.c - see leftovers.h.
 *
 * A sandboxed process may have any argument list, so only processes outside a container's pid namespace are matched by theirs; what runs
 * inside one is found as their descendant or by the runtime's record. */
#include "provider/leftovers.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "core/json.h"

#define TEXT_MAX (64u << 10)
#define STATE_MAX (1u << 20)

struct proc {
	pid_t pid, parent;
	unsigned long long start;   /* clock ticks since boot: tells a reused pid */
	bool hit;
};

struct procs {
	struct proc *at;
	size_t n, alloc;
};

static void cleanup_procs(struct procs *p)
{
	free(p->at);
}

static int read_proc(pid_t pid, const char *file, char **ret, size_t *len)
{
	char path[64];

	if (str_fmt(path, sizeof(path), "/proc/%d/%s", (int)pid, file) < 0)
		return -1;
	return io_read_file(AT_FDCWD, path, TEXT_MAX, ret, len, NULL);
}

static int read_stat(pid_t pid, struct proc *ret)
{
	cleanup_free char *text = NULL;
	int parent = 0;
	unsigned long long start = 0;

	if (read_proc(pid, "stat", &text, NULL) < 0)
		return -1;
	char *rest = strrchr(text, ')');
	if (!rest || sscanf(rest + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &parent, &start) != 2)
		return -1;
	*ret = (struct proc){ .pid = pid, .parent = (pid_t)parent, .start = start };
	return 0;
}

static int add_proc(struct procs *all, const struct proc *p)
{
	if (all->n == all->alloc) {
		size_t alloc = all->alloc ? all->alloc * 2 : 256;
		struct proc *at = reallocarray(all->at, alloc, sizeof(*at));

		if (!at)
			return -1;
		all->at = at;
		all->alloc = alloc;
	}
	all->at[all->n++] = *p;
	return 0;
}

static void each_pid(void (*fn)(void *arg, pid_t pid), void *arg)
{
	cleanup_closedir DIR *d = opendir("/proc");
	struct dirent *e;
	int64_t pid = 0;

	while (d && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]) && num_i64(e->d_name, 1, INT_MAX, &pid) == 0)
			fn(arg, (pid_t)pid);
}

/* Another installation's processes on the same machine belong to another account. */
static bool is_ours(pid_t pid)
{
	char path[64];
	struct stat st;

	return str_fmt(path, sizeof(path), "/proc/%d", (int)pid) == 0 && stat(path, &st) == 0 && st.st_uid == geteuid();
}

/* True when the process sees itself in more than one pid namespace: it lives inside a container. */
static bool is_contained(pid_t pid)
{
	cleanup_free char *text = NULL;
	char *ids;

	if (read_proc(pid, "status", &text, NULL) < 0 || !(ids = strstr(text, "\nNSpid:")))
		return false;
	ids += strlen("\nNSpid:");
	ids[strcspn(ids, "\n")] = '\0';
	ids += strspn(ids, " \t");
	return strpbrk(ids, " \t") != NULL;
}

static bool bears(pid_t pid, const char *name, const char *id)
{
	cleanup_free char *text = NULL;
	size_t n = 0;
	bool found = false;

	/* Containment first: a read of the arguments waits for the address space of the process, which is a sandboxed one's to keep busy. */
	if (!is_ours(pid) || is_contained(pid) || read_proc(pid, "cmdline", &text, &n) < 0)
		return false;
	for (size_t at = 0; at < n && !found; at += strlen(text + at) + 1)
		found = (name[0] && str_eq(text + at, name)) || (id[0] && str_eq(text + at, id));
	return found;
}

struct scan {
	struct procs *all;
	const char *name, *id;
	bool found;
};

static void look_at(void *arg, pid_t pid)
{
	struct scan *s = arg;
	struct proc p;

	if (read_stat(pid, &p) < 0)
		return;
	p.hit = bears(pid, s->name, s->id);
	add_proc(s->all, &p);
}

static void look_for(void *arg, pid_t pid)
{
	struct scan *s = arg;

	s->found = s->found || bears(pid, s->name, s->id);
}

/* Whether there is any process to begin with. Usually not, and then only our own account's processes were read. */
static bool is_any(const char *name, const char *id, const char *state_dir)
{
	struct scan s = { .name = name, .id = id };

	if (leftovers_recorded(id, state_dir))
		return true;
	each_pid(look_for, &s);
	return s.found;
}

static void hit_descendants(struct procs *all)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < all->n; i++)
			for (size_t k = 0; k < all->n && !all->at[i].hit; k++)
				if (all->at[k].hit && all->at[k].pid == all->at[i].parent)
					more = all->at[i].hit = true;
	}
}

pid_t leftovers_recorded(const char *id, const char *state_dir)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	struct proc now;
	size_t n = 0;
	int64_t pid = 0, start = 0;

	if (!id[0] || str_fmt(path, sizeof(path), "%s/%s/state.json", state_dir, id) < 0 || io_read_file(AT_FDCWD, path, STATE_MAX, &text, &n, NULL) < 0)
		return 0;
	cleanup_json json_t *o = json_parse(text, n, STATE_MAX, 32, NULL);
	if (!o || json_get_i64(o, "init_process_pid", true, 1, INT_MAX, &pid, NULL) < 0 ||
	    json_get_i64(o, "init_process_start", true, 0, INT64_MAX, &start, NULL) < 0)
		return 0;
	return read_stat((pid_t)pid, &now) == 0 && now.start == (unsigned long long)start ? (pid_t)pid : 0;
}

static void hit_recorded(struct procs *all, const char *id, const char *state_dir)
{
	pid_t pid = leftovers_recorded(id, state_dir);

	for (size_t i = 0; i < all->n; i++)
		if (pid && all->at[i].pid == pid)
			all->at[i].hit = true;
}

static void kill_proc(const struct proc *p)
{
	struct proc now;
	cleanup_close int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);

	if (fd >= 0 && read_stat(p->pid, &now) == 0 && now.start == p->start)
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

size_t leftovers_of(const char *name, const char *id, const char *state_dir, bool kill)
{
	struct procs all cleanup(cleanup_procs) = { .n = 0 };
	struct scan s = { .all = &all, .name = name, .id = id };
	size_t found = 0;

	if (!is_any(name, id, state_dir))
		return 0;
	each_pid(look_at, &s);
	hit_recorded(&all, id, state_dir);
	hit_descendants(&all);
	for (size_t i = 0; i < all.n; i++) {
		if (!all.at[i].hit)
			continue;
		found++;
		if (kill)
			kill_proc(&all.at[i]);
	}
	return found;
}

int leftovers_end(const char *id, const char *state_dir)
{
	struct proc first;
	pid_t pid = leftovers_recorded(id, state_dir);
	int fd = -1;

	if (!pid || read_stat(pid, &first) < 0)
		return -1;
	if (bears(first.parent, "", id))
		fd = (int)syscall(SYS_pidfd_open, first.parent, 0);
	kill_proc(&first);
	return fd;
}

int leftovers_forget(const char *id, const char *state_dir, err_t **err)
{
	cleanup_close int fd = -1;

	if (!id[0] || strchr(id, '/') || id[0] == '.')
		return 0;
	fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(err, errno, "%s", state_dir);
	return io_remove_tree(fd, id, err);
}

struct names {
	const char *prefix;
	void (*fn)(void *arg, const char *name);
	void *arg;
};

static void name_of(void *arg, pid_t pid)
{
	struct names *s = arg;
	cleanup_free char *text = NULL;
	const char *last = "";
	size_t n = 0;

	if (!is_ours(pid) || read_proc(pid, "cmdline", &text, &n) < 0 || n == 0 || !str_suffix(text, "conmon") || is_contained(pid))
		return;
	for (size_t at = 0; at < n; at += strlen(text + at) + 1) {
		if (str_eq(last, "-n") && str_prefix(text + at, s->prefix))
			s->fn(s->arg, text + at);
		last = text + at;
	}
}

void leftovers_names(const char *prefix, void (*fn)(void *arg, const char *name), void *arg)
{
	struct names s = { .prefix = prefix, .fn = fn, .arg = arg };

	each_pid(name_of, &s);
}

void leftovers_ids(const char *state_dir, void (*fn)(void *arg, const char *id), void *arg)
{
	cleanup_closedir DIR *d = opendir(state_dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (isxdigit((unsigned char)e->d_name[0]) && strlen(e->d_name) == 64)
			fn(arg, e->d_name);
}
