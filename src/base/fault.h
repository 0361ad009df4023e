/* fault.h - named points at which a test build (--enable-fault) can die, stall or fail. Compiled to nothing otherwise.
 *
 * PADDOCK_FAULT="name=kill|stall:MS|fail[,name=...]" in the environment arms points; PADDOCK_FAULT_FILE names a file that is
 * read instead at each point, so that a running process can be armed. "kill" is SIGKILL to oneself. FAULT_FAIL() tells "fail". */
#ifndef PADDOCK_BASE_FAULT_H
#define PADDOCK_BASE_FAULT_H

#include <stdbool.h>

#ifdef PADDOCK_FAULTS
bool fault_hit(const char *name);
#define FAULT_POINT(name) ((void)fault_hit(name))
#define FAULT_FAIL(name) fault_hit(name)
#else
#define FAULT_POINT(name) ((void)0)
#define FAULT_FAIL(name) false
#endif

#endif
