#include "db/db_sandbox_view.h"

#include "db/db_auth_sql.h"

/* U is an SQL expression for the user's id. Each table is read once, by a partial index that holds what is going on at this moment and little of the past:
 * a table more costs as much as all the rows that are found. Running time: what is accounted for, and of stretches that are not over what has passed since. */
#define VIEW(U) "s.provider, s.state, s.generation, coalesce(s.provider_ref, s.instance_id::text), s.created_at, s.last_activity_at, " \
	"(extract(epoch FROM s.keep_until - clock_timestamp()) * 1000)::bigint, s.error_code, s.error_message, s.op_id IS NOT NULL, " \
	"coalesce(g.ms, 0) + coalesce(m.ms, 0), a.running, a.cancelling, " \
	"(SELECT count(*) FROM sandbox_commands c WHERE c.user_id = " U " AND c.ended_at IS NULL), coalesce(a.cleanup, false), coalesce(m.quarantined, false)"
#define JOIN(U) "LEFT JOIN user_sandboxes s ON s.user_id = " U " LEFT JOIN sb_usage_total g ON g.user_id = " U \
	" CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE x.status = 'running') AS running, count(*) FILTER (WHERE x.status = 'cancel_requested') AS cancelling, " \
	"bool_or(x.cleanup_pending) AS cleanup FROM runs x WHERE x.user_id = " U " AND (x.status IN ('running', 'cancel_requested') OR x.cleanup_pending)) a " \
	"CROSS JOIN LATERAL (SELECT sum(CASE WHEN l.id IS NOT NULL AND i.retired_at IS NULL THEN extract(epoch FROM clock_timestamp() - i.usage_at) * 1000 END)::bigint AS ms, " \
	"bool_or(i.quarantined_at IS NOT NULL) AS quarantined FROM instances i LEFT JOIN sb_usage_log l ON l.instance_id = i.id AND l.ended_at IS NULL " \
	"WHERE i.user_id = " U " AND i.run_id IS NULL) m"

/* A service token's own sandbox is nobody's business: without a name it is refused before anything is shown. */
static const struct db_stmt auth_sandbox = { "auth_sandbox", DB_AUTH(DB_AUTH_NOBODY, ", " VIEW("t.user_id"), JOIN("t.user_id")), false };
static const struct db_stmt auth_sandbox_for = { "auth_sandbox_for", DB_AUTH(DB_AUTH_ONE, ", " VIEW("f.id"), DB_AUTH_JOIN_ONE JOIN("f.id")), false };
static const struct db_stmt sandbox_view = { "sandbox_view", "SELECT " VIEW("u.id") " FROM users u " JOIN("u.id") " WHERE u.id = $1::uuid", false };

int db_auth_sandbox(struct db *d, const char *token_id, const char *act_for, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, token_id);
	if (act_for)
		db_add_str(&p, act_for);
	return db_query(d, act_for ? &auth_sandbox_for : &auth_sandbox, &p, ret, err);
}

int db_sandbox_view(struct db *d, const char *user_id, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, user_id);
	return db_query(d, &sandbox_view, &p, ret, err);
}
