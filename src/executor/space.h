/* space.h - the room that the journal may take: its own cap, what has to stay free on the file system, and a file that is there to be removed when
 * not even a line can be written. It looks once a second while commands are open, room is wanted or the reserve is missing, else when it
 * is asked: with nothing to do it sleeps. */
#ifndef PADDOCK_EXECUTOR_SPACE_H
#define PADDOCK_EXECUTOR_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/loop.h"

struct space;
struct sweep;
struct journal_policy;

struct space_facts {
	uint64_t held;         /* by entries that are not acknowledged; never removed */
	uint64_t acked;        /* by acknowledged ones */
	uint64_t max_bytes, min_free;
	uint64_t free;         /* on the file system; UINT64_MAX: unknown */
	int free_permille;     /* bytes or inodes, whichever is fewer; -1: unknown */
	bool full;             /* new commands are refused */
	uint64_t refused, early;   /* commands refused, and such whose output went early */
};

/* state_fd and the sweep are borrowed; of *p the numbers are copied. */
struct space *space_new(struct loop *l, int state_fd, struct sweep *sweep, const struct journal_policy *p, err_t **err);
void space_free(struct space *s);   /* NULL is fine */
void space_set_held(struct space *s, uint64_t (*held)(void *arg, unsigned *ret_open), void *arg);
/* Before a new command: ERR_NO_SPACE "no_space" when nothing can be given for it. */
int space_take(struct space *s, err_t **err);
/* Removes the reserve. False when it is gone already; it is made again when there is room. */
bool space_open_reserve(struct space *s);
void space_look(struct space *s, struct space_facts *ret);   /* at this moment */

#endif
