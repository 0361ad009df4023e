/* unixsock.h - Unix stream sockets with peer credentials. CLOEXEC always. */
#ifndef PADDOCK_CORE_UNIXSOCK_H
#define PADDOCK_CORE_UNIXSOCK_H

#include <sys/types.h>

#include "base/err.h"

struct unix_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/* Listens at path (a stale socket there is replaced), mode as given, non-blocking. Returns the fd. */
int unix_listen(const char *path, mode_t mode, int backlog, err_t **err);
int unix_connect(const char *path, err_t **err);             /* blocking connect; returns the fd */
int unix_peer(int fd, struct unix_peer *ret, err_t **err);   /* credentials at the time of connect() */
uid_t unix_uid_of(const char *account, err_t **err);         /* (uid_t)-1 on failure; a name or digits */

#endif
