/* usage.h - how long sandboxes ran, and for what (R3.9). */
#ifndef PADDOCK_DOMAIN_USAGE_H
#define PADDOCK_DOMAIN_USAGE_H

#include "domain/caller.h"
#include "domain/domain.h"

enum usage_by { USAGE_BY_DAY, USAGE_BY_RUN, USAGE_BY_REASON };

/* {from, to, by, total_seconds, items:[{day|run_id|reason, seconds}]}: running time within [from, to), days in UTC, largest or newest first, at most 1000
 * items. from, to: RFC 3339 or a date, NULL: the last 30 days until now. ERR_REFUSED "bad_time": not a time, or from not before to, or more than
 * 400 days apart. */
int usage_read(struct domain *d, const struct caller *c, const char *from, const char *to, enum usage_by by, json_t **ret, err_t **err);

#endif
