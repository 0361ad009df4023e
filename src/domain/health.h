/* health.h - readiness facts and counters. */
#ifndef PADDOCK_DOMAIN_HEALTH_H
#define PADDOCK_DOMAIN_HEALTH_H

#include "base/buf.h"
#include "domain/domain.h"

/* {status: ok|degraded|unavailable, components:{database:{ok,hint}, executor:{ok,hint}, engine:{…}, …}}. *ready is false while the database, its schema
 * or the executor is away, or a component of the executor is not ok. Never fails but for memory; blocks at most about 2 s. */
int health_read(struct domain *d, json_t **ret, bool *ready, err_t **err);

/* Appends Prometheus text: runs by status, open commands, pending clean-ups, oldest clean-up in seconds. */
int health_metrics(struct domain *d, struct buf *b, err_t **err);

#endif
