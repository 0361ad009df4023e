#include "db/db_sandbox_view.h"

#include "db/db_auth_sql.h"

/* U is an SQL expression for the user's id. Each part looks at a partial index that holds what is going on at this moment and nothing of the past.
 * Running time: what is accounted for, and of stretches that are not over what has passed since. */
#define VIEW(U) "s.provider, s.state, s.generation, coalesce(s.provider_ref, s.instance_id::text), s.created_at, s.last_activity_at, " \
	"(extract(epoch FROM s.keep_until - clock_timestamp()) * 1000)::bigint, s.error_code, s.error_message, s.op_id IS NOT NULL, " \
	"coalesce(g.ms, 0) + coalesce((SELECT sum(extract(epoch FROM clock_timestamp() - i.usage_at) * 1000)::bigint FROM sb_usage_log l " \
	"JOIN instances i ON i.id = l.instance_id WHERE l.user_id = " U " AND l.ended_at IS NULL), 0), a.running, a.cancelling, " \
	"(SELECT count(*) FROM sandbox_commands c WHERE c.user_id = " U " AND c.ended_at IS NULL), " \
	"EXISTS (SELECT 1 FROM runs k WHERE k.user_id = " U " AND k.cleanup_pending), " \
	"EXISTS (SELECT 1 FROM instances q WHERE q.user_id = " U " AND q.quarantined_at IS NOT NULL)"
#define JOIN(U) "LEFT JOIN user_sandboxes s ON s.user_id = " U " LEFT JOIN sb_usage_total g ON g.user_id = " U \
	" LEFT JOIN LATERAL (SELECT count(*) FILTER (WHERE x.status = 'running') AS running, count(*) FILTER (WHERE x.status = 'cancel_requested') AS cancelling " \
	"FROM runs x WHERE x.user_id = " U " AND x.ended_at IS NULL AND x.status IN ('running', 'cancel_requested')) a ON true"

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
