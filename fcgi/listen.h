/* listen.h - the FastCGI socket, and the lock that lets one master at a time own it.
 *
 * The lock is a record lock (fcntl) on "<path>.lock": it dies with the master even while its children live on, so that after a kill -9 the
 * next master can take the path at once. The old children keep the old socket, which no path leads to, until they have drained it. */
#ifndef PADDOCK_FCGI_LISTEN_H
#define PADDOCK_FCGI_LISTEN_H

#include "base/err.h"

struct listen_socket {
	int fd, lock_fd;
};

/* Mode 0660, group as named ("" leaves the directory's choice). ERR_BUSY ("already_running") when another master holds the lock. */
int listen_open(const char *path, const char *group, struct listen_socket *ret, err_t **err);
/* Removes the path and closes: nobody can connect any more; what is queued stays with the children. */
void listen_close(struct listen_socket *l, const char *path);

#endif
