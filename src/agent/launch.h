/* launch.h - from a request to a running supervisor: the command line, the environment, the pipes, the fork. */
#ifndef PADDOCK_AGENT_LAUNCH_H
#define PADDOCK_AGENT_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/frame_msg.h"

#define LAUNCH_UID 1000
#define LAUNCH_GID 1000
#define LAUNCH_PIPE_BYTES (256 * 1024)
#define LAUNCH_SPARE_FDS 8
/* One argument may have 128 KiB in Linux: a longer command text is passed in pieces of this size. */
#define LAUNCH_PIECE (100 * 1024)

/* What a command is started from; borrowed pointers. */
struct launch {
	char *const *argv;
	char *const *env;
	const char *cwd;
	bool make_cwd;
	const struct msg_config *limits;
};

struct launched {
	pid_t supervisor;
	int report;        /* our end of the supervisor's socket, non-blocking */
	int out, err;      /* read ends, non-blocking */
	int in;            /* write end, non-blocking; -1 without */
};

/* Starts a supervisor for m. 0; else the stage that failed with errno, and nothing is left of it. Costs one fork. */
enum msg_stage launch_start(const struct msg_exec *m, const struct msg_config *limits, struct launched *ret);

/* The argument vector for a command text (bash -c, in pieces when it is long), in one malloc'ed block; NULL when memory is out. */
char **launch_shell(const char *text);
/* The base environment with env on top (a later entry of a name replaces an earlier one); malloc'ed, strings borrowed. NULL when memory is out. */
char **launch_env(char *const *env);

#endif
