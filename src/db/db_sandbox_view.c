#include "db/db_sandbox_view.h"

#include "db/db_auth_sql.h"

/* U is an SQL expression for the user's id. What goes on is read by partial indexes that hold what goes on at this moment, into one array: a plan is built up
 * anew each time, and an aggregate or a further table in it costs more than the rows that are found; date_part() counts in floating point, extract() in
 * decimals, which takes five times as long. A Run that is to be cleaned up is not active. */
#define VIEW(U) "s.provider, s.state, s.generation, coalesce(s.provider_ref, s.instance_id::text), s.created_at, s.last_activity_at, " \
	"(date_part('epoch', s.keep_until - clock_timestamp()) * 1000)::bigint, s.error_code, s.error_message, s.op_id IS NOT NULL, " \
	"s.usage_ms + coalesce((date_part('epoch', clock_timestamp() - s.running_at) * 1000)::bigint, 0), " \
	"ARRAY(SELECT CASE r.status WHEN 'running' THEN 'active_runs' WHEN 'cancel_requested' THEN 'cancel_requested' ELSE 'cleanup_pending' END " \
	"FROM runs r WHERE r.user_id = " U " AND (r.status IN ('running', 'cancel_requested') OR r.cleanup_pending) " \
	"UNION ALL SELECT 'active_operations' FROM sandbox_commands c WHERE c.user_id = " U " AND c.ended_at IS NULL)"
#define JOIN(U) "LEFT JOIN user_sandboxes s ON s.user_id = " U

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
