/* fault.h - named points at which a test build (--enable-fault) can die, stall or fail. Compiled to nothing otherwise.
 *
 * Every point stands in fault_steps.def, which says how one is added; a name that does not stand there does not compile.
 *
 * PADDOCK_FAULT="name=action[,name=action...]" in the environment arms points; PADDOCK_FAULT_FILE names a file that is read instead at
 * each point, so that a running process can be armed. Actions: kill (SIGKILL to oneself, after a line in the log), stall:MS, fail
 * (FAULT_FAIL() tells). An action may be followed by @PROCESS: only in a process of that name (as ps shows it); and then by #NUMBER:
 * only when no number as high has been done yet by any process that was forked from the same program. */
#ifndef PADDOCK_BASE_FAULT_H
#define PADDOCK_BASE_FAULT_H

#include <stdbool.h>

enum fault_point {
#define FAULT_PLACE(step, place, who) FAULT_AT_##step##_##place,
#include "base/fault_steps.def"
#undef FAULT_PLACE
	FAULT_POINTS
};

#ifdef PADDOCK_FAULTS
bool fault_hit(enum fault_point at);
#define FAULT_POINT(name) ((void)fault_hit(FAULT_AT_##name))
#define FAULT_POINT_AT(point) ((void)fault_hit(point))   /* where it is a matter of a value: FAULT_AT_<name> */
#define FAULT_FAIL(name) fault_hit(FAULT_AT_##name)
#else
#define FAULT_POINT(name) ((void)FAULT_AT_##name)
#define FAULT_POINT_AT(point) ((void)(point))
#define FAULT_FAIL(name) ((void)FAULT_AT_##name, false)
#endif

#endif
