#include "db/db_usage.h"

/* Stretches p that touch the range, as [a, b) with their milliseconds. Of an open one what was accounted for, and what passed since. */
#define STRETCHES "range AS (SELECT 'epoch'::timestamptz + $2::bigint * interval '1 ms' AS lo, 'epoch'::timestamptz + $3::bigint * interval '1 ms' AS hi), " \
	"p AS (SELECT l.reason, l.run_id, l.started_at AS a, CASE WHEN l.ended_at IS NOT NULL THEN l.ended_at WHEN i.usage_at IS NULL " \
	"THEN l.started_at + l.ms * interval '1 ms' ELSE now() END AS b, " \
	"l.ms + CASE WHEN l.ended_at IS NULL AND i.usage_at < now() THEN extract(epoch FROM now() - i.usage_at) * 1000 ELSE 0 END AS ms " \
	"FROM range, sb_usage_log l LEFT JOIN instances i ON i.id = l.instance_id AND l.ended_at IS NULL " \
	"WHERE l.user_id = $1::uuid AND l.started_at < range.hi AND (l.ended_at IS NULL OR l.ended_at >= range.lo))"
/* What of a stretch lies within [LO, HI): all of one without length that begins there. */
#define PART(LO, HI) "CASE WHEN p.b > p.a THEN p.ms * greatest(extract(epoch FROM least(p.b, " HI ") - greatest(p.a, " LO ")), 0) / " \
	"extract(epoch FROM p.b - p.a) WHEN p.a >= " LO " AND p.a < " HI " THEN p.ms ELSE 0 END"
/* Grouped by KEY. The parts are rounded to milliseconds and then added up, so that what is shown is the sum of what is shown. */
#define GROUPS(KEY, PARTS, ORDER) "SELECT k, ms, (sum(ms) OVER ())::bigint FROM (SELECT " KEY " AS k, round(sum(part))::bigint AS ms FROM (" PARTS \
	") q GROUP BY 1) s WHERE ms > 0 ORDER BY " ORDER " LIMIT $4"
#define WHOLE "SELECT p.*, " PART("range.lo", "range.hi") " AS part FROM p, range"

static const struct db_stmt statements[] = {
	[DB_USAGE_BY_DAY] = {
		"usage_by_day",
		"WITH " STRETCHES ", day AS (SELECT p.*, greatest(d AT TIME ZONE 'UTC', range.lo) AS lo, least((d + interval '1 day') AT TIME ZONE 'UTC', range.hi) AS hi, "
		"to_char(d, 'YYYY-MM-DD') AS name FROM range, p, generate_series(date_trunc('day', greatest(p.a, range.lo) AT TIME ZONE 'UTC'), "
		"least(greatest(p.a, p.b), range.hi) AT TIME ZONE 'UTC', interval '1 day') d) "
		GROUPS("name", "SELECT p.name, " PART("p.lo", "p.hi") " AS part FROM day p", "k DESC"),
		false,
	},
	[DB_USAGE_BY_RUN] = { "usage_by_run", "WITH " STRETCHES " " GROUPS("run_id::text", WHOLE, "ms DESC, k"), false },
	[DB_USAGE_BY_REASON] = { "usage_by_reason", "WITH " STRETCHES " " GROUPS("reason", WHOLE, "ms DESC, k"), false },
};

int db_usage(struct db *d, const char *user_id, int64_t from_ms, int64_t to_ms, enum db_usage_by by, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, user_id);
	db_add_i64(&p, from_ms);
	db_add_i64(&p, to_ms);
	db_add_i64(&p, limit);
	return db_query(d, &statements[by], &p, ret, err);
}

static const struct db_stmt now_ms = { "now_ms", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", false };

int db_now_ms(struct db *d, int64_t *ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_query(d, &now_ms, NULL, &r, err) < 0)
		return -1;
	*ret = db_i64(r, 0, 0);
	return 0;
}
