/* host_keeper.h - a sandbox's keeper: brings it up step by step, then waits for its end. Blocking; a process of its own. */
#ifndef PADDOCK_PROVIDER_HOST_KEEPER_H
#define PADDOCK_PROVIDER_HOST_KEEPER_H

#include <sys/types.h>

#include "core/config.h"
#include "provider/host_layout.h"
#include "provider/host_net.h"

struct host_keeper {
	const struct config *config;
	const char *id, *workspace, *token, *token_hash;
	int dir_fd, lock_fd;
	pid_t child;             /* becomes bubblewrap, or the parent of the agent */
	int talk_fd, info_fd, go_fd, words_fd;
	struct host_net net;
};

/* Up to the agent's first instruction. ERR_BUSY: it runs already. -1: nothing of it runs. */
int host_keeper_start(struct host_keeper *k, int root_fd, err_t **err);
/* Until nothing of it runs any more. */
void host_keeper_stay(struct host_keeper *k);
/* Nothing of it runs: its control group goes, too. */
void host_keeper_leave_group(const struct config *c, const char *id);
/* Tells on fd whether this machine can do it: facts, as in host_keep.h. */
int host_keeper_probe(const struct config *c, int fd, err_t **err);

#endif
