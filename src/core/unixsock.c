#include "core/unixsock.h"

#include <errno.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"

static int address(const char *path, struct sockaddr_un *sa, err_t **err)
{
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (!*path || str_copy(sa->sun_path, sizeof sa->sun_path, path) < 0)
		return err_set(err, ERR_INVALID, NULL, "socket path must have 1 to %zu bytes: %s", sizeof sa->sun_path - 1, path);
	return 0;
}

static int connect_retry(int fd, const struct sockaddr_un *sa)
{
	int rc;

	do
		rc = connect(fd, (const struct sockaddr *)sa, sizeof *sa);
	while (rc < 0 && errno == EINTR);
	return rc;
}

/* Removes a socket that nobody listens on any more. */
static int clear_stale(const char *path, const struct sockaddr_un *sa, err_t **err)
{
	cleanup_close int fd = -1;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(err, errno, "cannot stat %s", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, ERR_EXISTS, NULL, "%s exists and is not a socket", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(err, errno, "cannot make a socket");
	if (connect_retry(fd, sa) == 0 || errno != ECONNREFUSED)
		return err_set(err, ERR_BUSY, NULL, "%s is in use by another process", path);
	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(err, errno, "cannot remove %s", path);
	return 0;
}

int unix_listen(const char *path, mode_t mode, int backlog, err_t **err)
{
	cleanup_close int fd = -1;
	struct sockaddr_un sa;
	mode_t mask;
	int rc;

	if (address(path, &sa, err) < 0 || clear_stale(path, &sa, err) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(err, errno, "cannot make a socket");
	mask = umask(0777);   /* nobody may connect before the mode is set */
	rc = bind(fd, (const struct sockaddr *)&sa, sizeof sa);
	umask(mask);
	if (rc < 0)
		return err_sys(err, errno, "cannot bind %s", path);
	if (listen(fd, backlog) < 0 || chmod(path, mode) < 0) {
		int saved = errno;

		unlink(path);
		return err_sys(err, saved, "cannot listen on %s", path);
	}
	return steal_fd(&fd);
}

int unix_connect(const char *path, err_t **err)
{
	cleanup_close int fd = -1;
	struct sockaddr_un sa;

	if (address(path, &sa, err) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, errno, "cannot make a socket");
	if (connect_retry(fd, &sa) < 0)
		return err_sys(err, errno, "cannot connect to %s", path);
	return steal_fd(&fd);
}

int unix_peer(int fd, struct unix_peer *ret, err_t **err)
{
	struct ucred cred;
	socklen_t n = sizeof cred;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return err_sys(err, errno, "cannot get the peer's credentials");
	*ret = (struct unix_peer){ .pid = cred.pid, .uid = cred.uid, .gid = cred.gid };
	return 0;
}

uid_t unix_uid_of(const char *account, err_t **err)
{
	struct passwd pw, *found = NULL;
	char space[4096];
	uint64_t uid;
	int rc;

	if (num_u64(account, UINT32_MAX - 1, &uid) == 0)
		return (uid_t)uid;
	rc = getpwnam_r(account, &pw, space, sizeof space, &found);
	if (found)
		return pw.pw_uid;
	if (rc)
		err_sys(err, rc, "cannot look up account %s", account);
	else
		err_set(err, ERR_NOT_FOUND, NULL, "there is no account %s", account);
	return (uid_t)-1;
}
