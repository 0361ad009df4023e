/* host_userns.h - the user namespace of a sandbox on the host: `user` (1000) inside is our account outside, everybody else a subordinate id, root too.
 * So the Workspace's files have the owner they have everywhere. Needs newuidmap and newgidmap. Blocking. */
#ifndef PADDOCK_PROVIDER_HOST_USERNS_H
#define PADDOCK_PROVIDER_HOST_USERNS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

#define HOST_USER_ID 1000

/* Our account has subordinate uids and gids enough. */
bool host_userns_possible(err_t **err);
/* Writes the maps of a child that is in a new user namespace. */
int host_userns_map(pid_t child, err_t **err);
/* In the child, once mapped: becomes root of the namespace, closes it for namespaces below it. Returns -1 with errno. */
int host_userns_become_root(void);

/* Runs a program to its end, at most ms; its standard output and error go to ours. 0 when it exits 0. argv[0] is searched in the system's directories. */
int host_run_program(char *const argv[], int ms, err_t **err);

#endif
