#include "fcgi/listen.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "core/unixsock.h"
#include "fcgi/limits.h"

static int take_lock(const char *path, err_t **err)
{
	cleanup_free char *name = str_dupf("%s.lock", path);
	cleanup_close int fd = -1;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (!name)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory");
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0)
		return err_sys(err, errno, "open %s", name);
	if (fcntl(fd, F_SETLK, &lock) < 0) {
		if (errno == EACCES || errno == EAGAIN)
			return err_set(err, ERR_BUSY, "already_running", "another master serves %s", path);
		return err_sys(err, errno, "lock %s", name);
	}
	return steal_fd(&fd);
}

static int group_id(const char *group, gid_t *ret, err_t **err)
{
	const struct group *g = getgrnam(group);
	int64_t n;

	if (g) {
		*ret = g->gr_gid;
		return 0;
	}
	if (num_i64(group, 0, INT32_MAX, &n) < 0)
		return err_set(err, ERR_NOT_FOUND, "unknown_group", "there is no group \"%s\" ([api] socket_group)", group);
	*ret = (gid_t)n;
	return 0;
}

static int give_to_group(const char *path, const char *group, err_t **err)
{
	struct stat st;
	gid_t gid;

	if (!*group)
		return 0;
	if (group_id(group, &gid, err) < 0)
		return -1;
	if (lstat(path, &st) < 0)
		return err_sys(err, errno, "stat %s", path);
	if (st.st_gid != gid && chown(path, (uid_t)-1, gid) < 0)
		return err_sys(err, errno, "give %s to group %s (this account must be a member)", path, group);
	return 0;
}

/* The lock is ours, so whoever still listens there is a child of a master that was killed: it drains, and needs no path. */
static void clear_orphan(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path);
}

int listen_open(const char *path, const char *group, struct listen_socket *ret, err_t **err)
{
	cleanup_close int lock_fd = take_lock(path, err), fd = -1;

	if (lock_fd < 0)
		return -1;
	clear_orphan(path);
	/* Nobody but the owner may connect until the group is right. */
	fd = unix_listen(path, 0600, LIMIT_BACKLOG, err);
	if (fd < 0 || give_to_group(path, group, err) < 0)
		return -1;
	if (chmod(path, 0660) < 0)
		return err_sys(err, errno, "chmod %s", path);
	ret->fd = steal_fd(&fd);
	ret->lock_fd = steal_fd(&lock_fd);
	return 0;
}

void listen_close(struct listen_socket *l, const char *path)
{
	unlink(path);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}
