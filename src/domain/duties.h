/* duties.h - the janitor's duties as a table, and the step that runs those that are due.
 *
 * Any number of janitors may run, any may die at any point: each duty is a row first. */
#ifndef PADDOCK_DOMAIN_DUTIES_H
#define PADDOCK_DOMAIN_DUTIES_H

#include "domain/domain.h"

#define DUTIES_MAX 16

struct duty {
	const char *name;
	const char *help;
	int64_t (*period_ms)(const struct domain *d);
	/* The number of things done, or -1. */
	int (*run)(struct domain *d, err_t **err);
};

extern const struct duty duties[];
extern const size_t duties_count;

struct duties_clock {
	int64_t due[DUTIES_MAX];       /* CLOCK_BOOTTIME ms */
	int64_t failing_since;         /* 0: all well */
	int64_t backoff_ms;
	uint64_t done[DUTIES_MAX];     /* counters, for the log and metrics */
	uint64_t failed[DUTIES_MAX];
};

/* Zero the clock before the first call. Runs the duties that are due, then takes reports until the next is due, at most about 500 ms in all
 * (interval_ms). After a failure it sleeps its back-off (≤ 1 s). Logs; never fails. The janitor is: while (!stop) duties_step(d, &clock); */
void duties_step(struct domain *d, struct duties_clock *clk);

#endif
