#include "db/db_stats.h"

#include "db/db_runs.h"

static const struct db_stmt ping = { "ping", "SELECT 1", false };

int db_ping(struct db *d, err_t **err)
{
	return db_query(d, &ping, NULL, NULL, err);
}

static const struct db_stmt stats = {
	"stats",
	"SELECT (SELECT count(*) FROM runs WHERE status = 'pending'), (SELECT count(*) FROM runs WHERE lease_owner IS NOT NULL), "
	"(SELECT count(*) FROM runs WHERE status = 'cancel_requested'), (SELECT count(*) FROM sandbox_commands WHERE ended_at IS NULL), "
	"(SELECT count(*) FROM runs WHERE cleanup_pending), "
	"(SELECT coalesce(max(extract(epoch FROM clock_timestamp() - coalesce(r.ended_at, r.lease_expires_at, clock_timestamp())) * 1000)::bigint, 0) "
	"FROM runs r WHERE cleanup_pending), "
	"(SELECT count(*) FROM instances), "
	"(SELECT count(*) FROM user_sandboxes WHERE state = 'ready'), (SELECT count(*) FROM user_sandboxes WHERE op_id IS NOT NULL), "
	"(SELECT count(*) FROM instances WHERE retired_at IS NOT NULL), (SELECT count(*) FROM instances WHERE retired_at IS NOT NULL AND quarantined_at IS NOT NULL)",
	false,
};

int db_stats(struct db *d, struct db_result **ret, err_t **err)
{
	return db_query(d, &stats, NULL, ret, err);
}
