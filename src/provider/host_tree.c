/* host_tree.c - see host_tree.h. A directory inside a directory is first moved up to the top: so no path and no stack of descriptors grows with the depth. */
#include "provider/host_tree.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"

struct tree {
	int top;
	unsigned moved;          /* for names of what was moved up */
};

/* Its owner in the sandbox may have taken every right from it. */
static int open_dir(int at, const char *name)
{
	cleanup_close int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[64];

	if (fd < 0 || str_fmt(path, sizeof(path), "/proc/self/fd/%d", fd) < 0 || chmod(path, 0700) < 0)
		return -1;
	return openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int move_up(struct tree *t, int from, const char *name)
{
	cleanup_close int fd = open_dir(from, name);   /* moving it changes its "..", for which it must be writable */
	char to[32];

	if (fd < 0)
		return -1;
	do {
		str_fmt(to, sizeof(to), ".up-%u", t->moved++);
		if (renameat2(from, name, t->top, to, RENAME_NOREPLACE) == 0)
			return 0;
	} while (errno == EEXIST);
	return -1;
}

static DIR *list_of(int fd)
{
	DIR *d = fdopendir(fd);

	if (!d)
		close(fd);
	else
		rewinddir(d);
	return d;
}

/* Empties a directory below the top: files go, directories move up. */
static int empty(struct tree *t, int at, const char *name)
{
	int fd = open_dir(at, name);
	cleanup_closedir DIR *d = fd < 0 ? NULL : list_of(fd);

	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d));) {
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || unlinkat(dirfd(d), e->d_name, 0) == 0)
			continue;
		if (errno != EISDIR || move_up(t, dirfd(d), e->d_name) < 0)
			return -1;
	}
	return unlinkat(at, name, AT_REMOVEDIR);
}

/* One round over the top; *more when something was moved up meanwhile and may not have been seen. */
static int sweep(struct tree *t, const char *keep, bool *more)
{
	int fd = openat(t->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : list_of(fd);
	unsigned before = t->moved;

	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d));) {
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || (keep && str_eq(e->d_name, keep)) || unlinkat(t->top, e->d_name, 0) == 0)
			continue;
		if (errno != EISDIR || empty(t, t->top, e->d_name) < 0)
			return -1;
	}
	*more = t->moved != before;
	return 0;
}

int host_tree_empty(int dir_fd, const char *keep, err_t **err)
{
	struct tree t = { .top = dir_fd };
	bool more = true;

	while (more)
		if (sweep(&t, keep, &more) < 0)
			return err_sys(err, errno, "cannot remove everything");
	return 0;
}
