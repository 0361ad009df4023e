/* host_layout.h - what an instance of the provider `host` is: a directory of our account, named by the instance id, that its sandbox never sees whole.
 *
 *   <sandboxes>/<instance>/   0700
 *       home/                 what the sandbox has as /home/user
 *       workspace/            an empty place at which its keeper shows the Workspace
 *       lock                  locked (fcntl) by the keeper for as long as anything of the instance runs: there is one keeper or none
 *       info                  made last: the directory is whole; names the Workspace
 *       run                   who runs, written before the agent starts
 *
 * Shared by the executor and the launcher. Blocking, on a few small files. */
#ifndef PADDOCK_PROVIDER_HOST_LAYOUT_H
#define PADDOCK_PROVIDER_HOST_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "provider/agent_token.h"

/* A process, told from a later one of the same pid by its start time (/proc/PID/stat, clock ticks since boot). */
struct host_proc {
	pid_t pid;               /* 0: none */
	uint64_t start;
};

struct host_run {
	struct host_proc keeper, agent;
	char token_hash[AGENT_HASH_SIZE];
};

/* The instance's directory; -1: ERR_NOT_FOUND when it is absent, ERR_REFUSED when it is not a directory of ours. */
int host_layout_open(int root_fd, const char *id, err_t **err);
/* Makes what is missing of it. Can be repeated. */
int host_layout_make(int root_fd, const char *id, const char *workspace, err_t **err);
bool host_layout_whole(int dir_fd);
/* Takes the lock for as long as the descriptor stays open (POSIX locks: close no other descriptor of the file). -1: ERR_BUSY somebody has it,
 * ERR_NOT_FOUND there is no such file. */
int host_layout_lock(int dir_fd, err_t **err);
pid_t host_layout_keeper(int dir_fd);   /* who holds the lock, by the kernel's word; 0: nobody */

int host_run_write(int dir_fd, const struct host_run *r, err_t **err);
int host_run_read(int dir_fd, struct host_run *ret, err_t **err);

/* A pidfd of that very process, or -1: it has ended. */
int host_proc_open(const struct host_proc *p);
int host_proc_find(pid_t pid, struct host_proc *ret);   /* 0, or -1: there is none */

#endif
