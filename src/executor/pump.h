/* pump.h - moves a command's two pipes into its output: one bounded splice per pipe and turn of the loop, so that no command starves another.
 *
 * It ends with the command (pump_take_rest, pump_free): what background children write later is read and dropped by the agent, at the
 * container's cost, so that they cost us neither a descriptor nor time. Owns both descriptors. */
#ifndef PADDOCK_EXECUTOR_PUMP_H
#define PADDOCK_EXECUTOR_PUMP_H

#include <stdint.h>

#include "core/loop.h"
#include "executor/output.h"

struct pump;

struct pump_events {
	void (*grown)(void *arg);    /* the output has more; called once for a turn */
	void (*closed)(void *arg);   /* both pipes came to their end; the pump may be freed from here */
};

/* The output is referenced, the events are borrowed for the pump's life. On failure the descriptors are closed too. */
struct pump *pump_new(struct loop *l, struct output *o, int out_fd, int err_fd, const struct pump_events *ev, void *arg, err_t **err);
void pump_free(struct pump *p);        /* NULL is fine */
/* Takes exactly what is in the pipes now: called when the leader was reaped and all it wrote is there. */
void pump_take_rest(struct pump *p);

/* Counters of the process, for /metrics. */
struct pump_counters {
	uint64_t bytes, splices, longest_us;
};
extern struct pump_counters pump_counters;

#endif
