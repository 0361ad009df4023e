/* Removal of whole trees (declared in io.h). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"

#define TREE_DEPTH 64

static int remove_at(int dirfd, const char *name, int depth);

static int empty_dir(DIR *d, int depth)
{
	struct dirent *e;

	for (;;) {
		errno = 0;
		e = readdir(d);
		if (!e)
			return errno ? -1 : 0;
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
			continue;
		if (remove_at(dirfd(d), e->d_name, depth) < 0)
			return -1;
	}
}

static int remove_dir(int at, const char *name, int depth)
{
	cleanup_close int fd = -1;
	cleanup_closedir DIR *d = NULL;

	if (depth >= TREE_DEPTH) {
		errno = ELOOP;
		return -1;
	}
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	d = fdopendir(fd);
	if (!d)
		return -1;
	(void)steal_fd(&fd);
	if (empty_dir(d, depth + 1) < 0)
		return -1;
	return unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -1 : 0;
}

/* Everything is first taken for a file; Linux says EISDIR for a directory. */
static int remove_at(int at, const char *name, int depth)
{
	if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -1;
	return remove_dir(at, name, depth);
}

int io_remove_tree(int dirfd, const char *name, err_t **err)
{
	if (remove_at(dirfd, name, 0) < 0)
		return err_sys(err, errno, "cannot remove %s", name);
	return 0;
}
