/* leader.h - the last steps before a command's own program: session, limits, account, directory, exec. Runs on a stack of its own in memory
 * that is shared (rawcall.h) and never returns. */
#ifndef PADDOCK_AGENT_LEADER_H
#define PADDOCK_AGENT_LEADER_H

#include "agent/launch.h"

#define LEADER_REPORT_FD 3

/* 0-2 are in place. A failure is reported as REPORT_FAILED on LEADER_REPORT_FD. */
_Noreturn void leader_run(const struct launch *l);

#endif
