/* confine.h - rights that this program gives up: for good, in itself and in its children. */
#ifndef PADDOCK_FCGI_CONFINE_H
#define PADDOCK_FCGI_CONFINE_H

#include "base/err.h"
#include "core/config.h"

/* No new privileges, no core dumps, memory not readable by others of the same account, umask 077. */
int confine_self(err_t **err);

/* In a child, first thing: it is told by SIGTERM when its parent ends. -1 when the parent has ended already. */
int confine_to_parent(int parent_pid);

/* In a worker or janitor that has opened what it needs: both of the below. Logged with the ABI of Landlock. A sanitizer build is left as it is: its
 * run-time looks at itself from a second process. */
int confine_child(const struct config *c, err_t **err);

/* No other program or process, no other process's memory, no namespace, mount, key or module, sockets of AF_UNIX, AF_INET and AF_INET6 only and
 * none that others connect to: EPERM (EAFNOSUPPORT). */
int confine_calls(err_t **err);
/* From now on files are opened for reading only, and below these directories (NULL-terminated; those that do not exist do not count). Connecting to
 * a socket with a name is not opening. *ret_abi: of the kernel's Landlock, 0: it has none and nothing was done. */
int confine_files(const char *const *dirs, int *ret_abi, err_t **err);
int confine_landlock_abi(void);

#endif
