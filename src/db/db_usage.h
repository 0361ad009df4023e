/* db_usage.h - how long a user's sandboxes ran, from sb_usage_log. */
#ifndef PADDOCK_DB_DB_USAGE_H
#define PADDOCK_DB_DB_USAGE_H

#include "db/db.h"

enum db_usage_by { DB_USAGE_BY_DAY, DB_USAGE_BY_RUN, DB_USAGE_BY_REASON };

/* Running time within [from_ms, to_ms) of wall time; a stretch that lies in it in part counts in proportion, one that is not over counts up to now.
 * Rows: the day (YYYY-MM-DD), Run's id (NULL: none) or reason; its milliseconds; those of all rows, also of the ones beyond limit. Days newest first, the
 * others largest first. No row when nothing ran. */
enum { USAGE_KEY, USAGE_MS, USAGE_ALL_MS };
int db_usage(struct db *d, const char *user_id, int64_t from_ms, int64_t to_ms, enum db_usage_by by, int64_t limit, struct db_result **ret, err_t **err);
/* The database's clock, which also stamped what was metered. */
int db_now_ms(struct db *d, int64_t *ret, err_t **err);

#endif
