/* seats.h - the master's children: a seat for each worker and the janitor of a generation, kept filled until the generation retires.
 *
 * Seat i writes to slot i of the board. A child that dies unasked is replaced at once when it had lived for a while, with a doubling
 * back-off when it died young, so that a crash loop never spins. Nothing here blocks. Times are boot ms. */
#ifndef PADDOCK_FCGI_SEATS_H
#define PADDOCK_FCGI_SEATS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/config.h"
#include "fcgi/board.h"

struct seats;

/* What a child of this role does; its value is the exit status. Called in the child. */
typedef int seats_child_fn(void *arg, enum board_role role, const struct config *c, struct board_slot *slot);

struct seats *seats_new(struct board *b, seats_child_fn *fn, void *arg);   /* NULL when out of memory */
void seats_free(struct seats *s);

/* Seats for a new generation, its children started: n workers and a janitor. c must live until the generation is gone.
 * -1 when there is no room (two generations are there already). */
int seats_add_generation(struct seats *s, const struct config *c, unsigned generation, int n, int64_t now);
/* Tells the children of all generations but `keep` to leave (0: of all), kills those that are still there after drain_ms, fills no seat of theirs. */
void seats_retire(struct seats *s, unsigned keep, int64_t drain_ms, int64_t now);

void seats_reap(struct seats *s, int64_t now);   /* collects the dead, plans their replacement */
void seats_tick(struct seats *s, int64_t now);   /* starts who is due, kills who is stuck or overstays */
int64_t seats_next(const struct seats *s, int64_t now);   /* in how many ms to tick again, at most LIMIT_TICK_MS */

bool seats_ready(const struct seats *s, unsigned generation);     /* every child of it has set itself up */
unsigned seats_count(const struct seats *s, unsigned generation); /* seats of it (0: of all) that are not free */

#endif
