/* host_inside.h - what a sandbox on the host is made of: the way from a process that is root of its user namespace to the agent as process 1.
 *
 * Two ways: bubblewrap, which builds a file system of its own, or plainly (no bubblewrap): own processes, home and temporary files, but the host's
 * files stay in sight. Both end in the agent, held back until `go` is readable; its host pid comes through `info` as JSON text with "child-pid": N. */
#ifndef PADDOCK_PROVIDER_HOST_INSIDE_H
#define PADDOCK_PROVIDER_HOST_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct host_inside {
	const char *bwrap;               /* path; NULL: plainly */
	const char *agent;               /* the static agent */
	const char *agent_dir;           /* [container] agent_dir */
	const char *instance;            /* its id: the agent's socket is in <agent_dir>/<instance> */
	const char *dir;                 /* the instance's directory: home, workspace */
	const char *workspace;           /* what is shown at /home/user/workspace: a directory of our account */
	const char *token;
	const char *const *hidden;       /* plainly: directories of ours that are covered; NULL-terminated */
	bool internet;
	const char *resolver;            /* under bubblewrap: the text of /etc/resolv.conf */
	int64_t tmp_bytes, shm_bytes, nofile;
	int info_fd, go_fd;              /* inherited */
};

/* Never returns; exit status 126 with a line on standard error when something cannot be done. */
_Noreturn void host_inside_enter(const struct host_inside *in);
/* The part for each way. */
_Noreturn void host_bwrap_exec(const struct host_inside *in);
_Noreturn void host_plain_run(const struct host_inside *in);
_Noreturn void host_inside_fail(const char *what);

#endif
