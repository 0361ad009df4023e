#include "fcgi/janitor.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domain/domain.h"
#include "domain/duties.h"
#include "fcgi/confine.h"
#include "fcgi/stop.h"

int janitor_main(const struct config *c, struct board_slot *slot)
{
	cleanup_err err_t *e = NULL;
	struct duties_clock clk = { 0 };
	struct domain *d;

	if (stop_open() < 0 || !(d = domain_open(c, &e)) || confine_child(c, &e) < 0) {
		log_kv(LOG_ERROR, "janitor_failed", "err", err_message(e), NULL);
		return 1;
	}
	board_idle(slot);
	while (!stop_asked()) {
		board_busy(slot, clock_boot_ms());
		duties_step(d, &clk);
		board_idle(slot);
	}
	slot->done = 1;
	domain_close(d);
	return 0;
}
