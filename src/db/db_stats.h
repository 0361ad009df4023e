/* db_stats.h - figures for health and metrics. */
#ifndef PADDOCK_DB_DB_STATS_H
#define PADDOCK_DB_DB_STATS_H

#include "db/db.h"

int db_ping(struct db *d, err_t **err);
/* One row. Only states that indexes count cheaply. */
enum { STATS_PENDING, STATS_LEASED, STATS_CANCELS, STATS_OPEN_COMMANDS, STATS_CLEANUPS, STATS_OLDEST_CLEANUP_MS, STATS_INSTANCES, STATS_READY,
	STATS_MOVING, STATS_RETIRED, STATS_QUARANTINED };
int db_stats(struct db *d, struct db_result **ret, err_t **err);

#endif
