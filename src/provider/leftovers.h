/* leftovers.h - what may remain of a container below the engine's own view, after the engine was killed in mid-create:
 * conmon and `runc init` processes of our own account, and the runtime's state directory. Reads /proc; blocking, some milliseconds. */
#ifndef PADDOCK_PROVIDER_LEFTOVERS_H
#define PADDOCK_PROVIDER_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* How many processes of the container are there (found by an argument equal to its name or id, their descendants, and the
 * runtime's record of it). With kill, each is killed by a pidfd after a second look. state_dir: the runtime's. name and id
 * may be "". */
size_t leftovers_of(const char *name, const char *id, const char *state_dir, bool kill);
/* The first process of the runtime's record of an id, when that very process still lives; else 0. */
pid_t leftovers_recorded(const char *id, const char *state_dir);
/* Ends the first process of the runtime's record of an id, and with it every process of the container. Returns a pidfd of its conmon, which
 * ends when it has told the engine, or -1 when there is none. */
int leftovers_end(const char *id, const char *state_dir);
/* Removes the runtime's record of an id whose processes are gone. */
int leftovers_forget(const char *id, const char *state_dir, err_t **err);
/* Calls fn for each container name beginning with prefix that a conmon process bears. */
void leftovers_names(const char *prefix, void (*fn)(void *arg, const char *name), void *arg);
/* Calls fn for each id that the runtime has a record of. */
void leftovers_ids(const char *state_dir, void (*fn)(void *arg, const char *id), void *arg);

#endif
