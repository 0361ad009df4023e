/* killer.h - ends whole process trees: everything below a supervisor, whatever it did to escape.
 *
 * A job is done when its supervisor has exited (it does when it has no descendant left), which the owner of the job notices; until then
 * rounds of scan-and-SIGKILL go on. A tree that still forks after three of them, or any tree in a crowd, is stopped first:
 * kill(-1, SIGSTOP) by PID 1 is atomic against fork and reaches everything but PID 1; then it is scanned and killed, and what belongs to
 * others goes on unless it was stopped before (a SIGSTOP that waits in a stopped process tells).
 * One killer for all jobs, in the agent itself: it needs no fork, so a full process table does not matter. */
#ifndef PADDOCK_AGENT_KILLER_H
#define PADDOCK_AGENT_KILLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

struct kill_job {
	struct list node;       /* self-linked: not active */
	pid_t supervisor;
	unsigned rounds;
};

/* is_supervisor tells whether a child of PID 1 is one of ours, alive. */
void killer_init(bool (*is_supervisor)(pid_t pid));
void kill_job_init(struct kill_job *j, pid_t supervisor);
bool kill_job_active(const struct kill_job *j);
void killer_add(struct kill_job *j);       /* fine when active */
void killer_del(struct kill_job *j);       /* fine when not */
/* A supervisor died before its descendants (only the kernel's out-of-memory killer can do that): they are ours now, and end. */
void killer_strays(void);
bool killer_has_strays(void);
int64_t killer_next_us(void);              /* CLOCK_BOOTTIME of the next round; INT64_MAX: none */
void killer_run(int64_t now_us);           /* a round, when one is due */

#endif
