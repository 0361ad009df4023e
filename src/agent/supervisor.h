/* supervisor.h - the parent of one command: container-root, child subreaper. It starts the leader, reaps every descendant that comes back
 * to it, and exits when none is left. It says what happens in records over its socket and takes one byte for "you may reap the leader". */
#ifndef PADDOCK_AGENT_SUPERVISOR_H
#define PADDOCK_AGENT_SUPERVISOR_H

#include <stdint.h>

#include "agent/launch.h"

enum report_kind {
	REPORT_FAILED = 1,   /* value: errno; stage says where. The leader ends (or never was) */
	REPORT_LEADER,       /* value: its pid; the program runs unless FAILED came before */
	REPORT_ENDED,        /* value: wait status. The leader stays a zombie, its pid and group stay taken, until one byte is sent back */
};

struct report {
	int32_t kind;
	int32_t stage;       /* enum msg_stage */
	int32_t value;
};

/* In the new process, on its own stack. share: CLONE_VM when it runs in the agent's memory, 0 in a copy of it. */
_Noreturn void supervisor_run(const struct launch *l, int share);

#endif
