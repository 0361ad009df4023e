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

struct exports;
struct stack;

/* What a command is started from. The supervisor and the leader read it in the agent's memory: it must stay until the leader has become its
 * program or given up (REPORT_LEADER), and the stack until the supervisor was reaped. */
struct launch {
	char **argv;
	char **env;
	size_t env_own;           /* the first entries, which no export replaces */
	struct exports *exports;  /* NULL: none are taken */
	char *cwd;
	bool make_cwd;
	unsigned nofile, nproc;   /* 0: as it is */
	int nice;                 /* absolute */
	char oom_score_adj[8];    /* as text; empty: as it is */
	struct stack *stack;
	int in, out, err, report; /* the command's ends */
};

struct launched {
	pid_t supervisor;
	struct launch *launch;
	int report;        /* our end of the supervisor's socket: to be used with MSG_DONTWAIT */
	int out, err;      /* read ends, non-blocking */
	int in;            /* write end, non-blocking; -1 without */
};

/* Decides whether the processes on the way to a command may share the agent's memory (no copy: several times cheaper). They must not where
 * the administrator made processes that changed their account traceable (fs.suid_dumpable = 1), nor under a sanitizer. */
void launch_init(void);
int launch_share(void);   /* CLONE_VM, or 0 */
/* Starts a supervisor for m. 0; else the stage that failed with errno, and nothing is left of it. */
enum msg_stage launch_start(const struct msg_exec *m, const struct msg_config *limits, struct launched *ret);
void launch_running(struct launch *l);   /* the leader needs it no more; the stack is kept. NULL is fine */
void launch_free(struct launch *l);      /* the supervisor was reaped. NULL is fine */

/* The argument vector for a command text (bash -c, in pieces when it is long), in one malloc'ed block; NULL when memory is out. */
char **launch_shell(const char *text);
/* env (a later entry of a name replaces an earlier one), then last when it is not NULL, *ret_own entries in all; behind them what they leave of the base
 * environment. Malloc'ed, strings borrowed. NULL when memory is out. */
char **launch_env(char *const *env, char *last, size_t *ret_own);

#endif
