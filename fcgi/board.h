/* board.h - what master and children tell each other: a table in shared memory, one slot a child. No locks: each member has one writer.
 *
 * Counters of a slot live on when its child is replaced, so that sums over all slots never go back. */
#ifndef PADDOCK_FCGI_BOARD_H
#define PADDOCK_FCGI_BOARD_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "core/json.h"
#include "fcgi/limits.h"

enum board_role { BOARD_FREE, BOARD_WORKER, BOARD_JANITOR };
enum board_state { BOARD_STARTING, BOARD_IDLE, BOARD_BUSY, BOARD_DRAINING };

struct board_slot {
	/* by the master */
	_Atomic int role;
	_Atomic int pid;
	_Atomic unsigned generation;
	_Atomic int64_t started_wall_ms;
	/* by the child */
	_Atomic int state;
	_Atomic int64_t busy_since;      /* boot ms; 0 when idle */
	_Atomic int done;                /* the child leaves by its own will: nothing to back off from */
	_Atomic uint64_t requests;
	_Atomic uint64_t by_class[6];    /* answers 1xx to 5xx; [0]: none was sent */
	_Atomic uint64_t busy_us;
};

struct board {
	_Atomic unsigned generation;
	_Atomic uint64_t deaths, stuck, reloads, reload_failures, recycled;
	struct board_slot slots[LIMIT_SLOTS];
};

struct board *board_new(void);   /* zeroed, shared with children; NULL with errno */

void board_busy(struct board_slot *s, int64_t now_boot_ms);
void board_idle(struct board_slot *s);
void board_count(struct board_slot *s, int status, int64_t us);   /* one request was answered; status 0: it was not */

int board_metrics(struct board *b, struct buf *to);   /* Prometheus text */
json_t *board_json(struct board *b);                  /* {generation, workers:[…]}; NULL when out of memory */

#endif
