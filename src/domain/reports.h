/* reports.h - what the executor has to tell becomes rows: ends of commands, starts, ends of instances. */
#ifndef PADDOCK_DOMAIN_REPORTS_H
#define PADDOCK_DOMAIN_REPORTS_H

#include "domain/domain.h"

/* Takes one batch, waiting up to wait_ms for the first report; writes it in one durable commit, then acknowledges it. The number of
 * reports taken, or -1; also -1 when one of them cannot be recorded: the others are, and it comes again at once, so pause. Reports that come
 * twice are harmless. */
int reports_take(struct domain *d, int64_t wait_ms, err_t **err);

#endif
