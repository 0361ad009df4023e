/* workspace.c - see workspace.h. */
#include "provider/workspace.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define GATE_MODE 0750
#define FILES_MODE 0755

bool workspace_name_valid(const char *name)
{
	size_t n = strlen(name);

	if (n < 1 || n > WORKSPACE_NAME_MAX || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != n)
		return false;
	return name[0] != '.' && name[0] != '_' && name[0] != '-';
}

/* Opens dirfd/name, made with the mode when it is missing; an existing one keeps its mode. The setgid bit and the group come from the
 * parent at birth: a chmod by an account that is not in that group would clear the bit, so the mode is right from the start or never. */
static int open_or_make(int dirfd, const char *name, mode_t mode, err_t **err)
{
	cleanup_close int fd = -1;
	struct stat st;
	mode_t mask = umask(0);
	int rc = mkdirat(dirfd, name, mode), why = errno;

	umask(mask);
	if (rc < 0 && why != EEXIST)
		return err_sys(err, why, "mkdir %s", name);
	/* Not for reading: whatever mode its owner in the sandbox has given it, he must be able to come and change it. */
	fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, errno, "open %s", name);
	if (st.st_uid != geteuid())
		return err_set(err, ERR_REFUSED, "workspace_owner", "%s belongs to uid %u", name, (unsigned)st.st_uid);
	return steal_fd(&fd);
}

int workspace_make(int root_fd, const char *name, err_t **err)
{
	cleanup_close int gate = -1;
	cleanup_close int files = -1;

	if (!workspace_name_valid(name))
		return err_set(err, ERR_INVALID, "bad_workspace", "a workspace name is [a-z0-9][a-z0-9._-]{0,63}");
	gate = open_or_make(root_fd, name, GATE_MODE, err);
	if (gate < 0)
		return err_wrap(err, "workspace %s", name);
	files = open_or_make(gate, "files", FILES_MODE, err);
	if (files < 0)
		return err_wrap(err, "workspace %s", name);
	return 0;
}
