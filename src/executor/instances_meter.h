/* instances_meter.h - how long an instance really ran, in all: what a user is charged for.
 *
 * Closed stretches are in the instance's state file, with the beginning of the open one. <state>/seen says until when this executor is known to have
 * watched: it is written every METER_SEEN_MS while something runs and before a number is told, so that no number ever falls. After a restart an open
 * stretch reaches as far as that; when the provider says that the instance still runs, the time in between counts, too. */
#ifndef PADDOCK_EXECUTOR_INSTANCES_METER_H
#define PADDOCK_EXECUTOR_INSTANCES_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/loop.h"

#define METER_SEEN_MS 5000

struct meter;

/* A part of an instance's record. */
struct metered {
	int64_t running_ms;     /* closed stretches */
	int64_t since_ms;       /* boot time: beginning of the open one; 0: it does not run */
	bool confirmed;         /* the provider has said in this executor's life that it runs */
};

struct meter *meter_open(struct loop *l, int state_fd, err_t **err);
void meter_close(struct meter *m);   /* NULL is fine */
void meter_flush(struct meter *m);   /* this executor is going to stop */

/* All but meter_total() leave it to the caller to write the record. */
void meter_take_up(struct meter *m, struct metered *t);   /* as found in the state file, times in our boot clock */
void meter_start(struct meter *m, struct metered *t);     /* it runs; also when that is known */
void meter_stop(struct meter *m, struct metered *t);      /* it does not; also when that is known */
void meter_forget(struct meter *m, const struct metered *t);   /* its owner goes; the record stays as it is */
int64_t meter_total(struct meter *m, const struct metered *t);

#endif
