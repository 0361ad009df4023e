/* execs.h - the commands of this container: what each is doing, what has to be told about it. Nothing here knows the connection: it
 * asks for the next frame when it can send one, so that memory does not depend on a slow executor. */
#ifndef PADDOCK_AGENT_EXECS_H
#define PADDOCK_AGENT_EXECS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/frame_msg.h"

#define EXECS_MAX 256            /* running, or ended and not acknowledged */
#define EXECS_ENTRIES_MAX 1024   /* also those that only have background processes left; more are not started */
#define EXECS_REFUSED_MAX 1024   /* not acknowledged: more than any executor sends */

void execs_init(void);
void execs_configure(const struct msg_config *c);

/* Frames of the executor. -1: against the protocol, the connection has to be closed. */
int execs_exec(const struct msg_exec *m);
int execs_stdin(const struct msg_stdin *m);
int execs_signal(const char *id, int signo);
int execs_kill(const char *id);
void execs_ack(const char *id);
int execs_scope_end(const char *scope);

/* A new executor: everything that is not acknowledged is told again. Returns how many commands that is. */
uint32_t execs_retell(void);
/* Appends the next frame to be sent: 1; fds are borrowed descriptors that travel with it (-1: none). 0: nothing to tell. -1: no memory. */
int execs_next_frame(struct buf *out, int fds[2]);
bool execs_crowded(void);        /* many answers wait to be sent: take no more requests */

void execs_child_ended(pid_t pid, bool killed);
int64_t execs_next_us(void);     /* CLOCK_BOOTTIME of the next deadline or kill round */
/* What can wait until the frames of this turn were sent: supervisors whose leader ended go on, deadlines, kill rounds; frees what is over. Between turns
 * of the poller only. */
void execs_run(int64_t now_us);

#endif
