/* agent_link.h - the executor's end of one instance's agent connection (docs/agent-protocol.md). The agent dials in.
 *
 * One link per instance. It listens at <dir>/s for as long as it lives, so that an agent that lost its executor finds the next one; of
 * several connections the newest from the expected process wins, and it has to show the token first. The peer is not trusted: every frame is
 * checked, the first bad one closes the connection (the agent dials again). Never blocks. Callbacks come from the loop only, never from
 * within a call into the link. A callback may call any function of the link but agent_link_free().
 *
 * Life of a connection: connected() · for each command that the agent still holds: started() (adopted = true, pipes handed over
 * again) and, when it has ended, exited() · ready() · then live events · lost(). An agent of protocol version 1, in an instance that is older than this
 * executor, is spoken to as before: it knows no scopes. A command that was not told between
 * connected() and ready() is unknown to the agent: when it had been told as started before, it is lost; when it had not, it
 * may be sent again. Sending an exec id that the agent holds starts nothing twice, it is answered by started()/exited() as above. */
#ifndef PADDOCK_PROVIDER_AGENT_LINK_H
#define PADDOCK_PROVIDER_AGENT_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "core/loop.h"
#include "provider/provider.h"

struct agent_link;

/* Limits that the agent applies to each command; 0 leaves a limit as the container has it (nice 0 is nice 0). */
struct agent_link_limits {
	uint32_t nofile;
	uint32_t nproc;
	int32_t nice;            /* 0..19, relative to the agent */
	int32_t oom_score_adj;   /* 0..1000 */
};

/* ids and structs are borrowed for the call; descriptors are handed over to the callee. All are required. */
struct agent_link_events {
	/* The agent's token, NUL-terminated; 0 when it is the right one (compare in constant time), -1 refuses the connection. */
	int (*check_token)(void *arg, const char *token);
	void (*connected)(void *arg);
	void (*ready)(void *arg);
	void (*lost)(void *arg);                          /* after connected() only */
	void (*started)(void *arg, const char *exec_id, const struct exec_started *s, int out_fd, int err_fd);
	void (*exited)(void *arg, const char *exec_id, const struct exec_exited *e);
	void (*stdin_taken)(void *arg, const char *exec_id, uint64_t taken, uint64_t window);
	/* Answer to a signal, kill or stdin for a command whose leader has ended (known: its exit was or will be told) or of which the agent
	 * has never heard (or has forgotten after exec_ack). */
	void (*not_running)(void *arg, const char *exec_id, bool known);
	/* Answer to agent_link_scope_end(): no process of it is left and none will start. */
	void (*scope_ended)(void *arg, const char *scope);
};

/* Makes dir (mode 0711; it may exist, its parent must) and listens at dir/s (mode 0666; a stale socket is replaced). dir is copied, at most
 * 100 bytes. Connections wait unread until agent_link_expect(). */
struct agent_link *agent_link_new(struct loop *l, const char *dir, const struct agent_link_limits *limits,
		const struct agent_link_events *ev, void *arg, err_t **err);
/* Closes, removes the socket when `remove` (the instance is gone; else the agent keeps dialling for the next executor). No callback. NULL is fine. */
void agent_link_free(struct agent_link *k, bool remove);

/* From now on a peer with this uid (the instance's root as seen from here) and pid is let in; (uid_t)-1 and (pid_t)-1 mean any (tests).
 * A present connection of another peer is closed. */
void agent_link_expect(struct agent_link *k, uid_t uid, pid_t pid);
bool agent_link_ready(const struct agent_link *k);   /* between ready() and lost() */

/* The calls of provider.h; exec() from ready() on, the others from connected() on. ERR_UNAVAILABLE: not connected, nothing was sent.
 * ERR_BUSY: more than 32 MiB wait to be sent. ERR_TOO_LARGE: does not fit a frame. ERR_INVALID: an id, path or value that the protocol cannot carry. */
int agent_link_exec(struct agent_link *k, const struct exec_spec *s, err_t **err);
int agent_link_exec_ack(struct agent_link *k, const char *exec_id, err_t **err);
/* offset: position of data[0] in the command's stdin. n at most the window last told: 64 KiB for a new command, none for an
 * adopted one until its first stdin_taken, which follows. */
int agent_link_stdin(struct agent_link *k, const char *exec_id, uint64_t offset, const void *data, size_t n, bool eof, err_t **err);
/* ERR_CONFLICT (detail "other_process"): the agent has told another process group for this command; nothing was sent. */
int agent_link_signal(struct agent_link *k, const struct exec_ref *x, int signo, err_t **err);
int agent_link_kill(struct agent_link *k, const struct exec_ref *x, err_t **err);
/* Answered by scope_ended(), unless the connection is lost before: ask again after ready(). ERR_REFUSED (detail "scope_unsupported"): an agent of version 1. */
int agent_link_scope_end(struct agent_link *k, const char *scope, err_t **err);

#endif
