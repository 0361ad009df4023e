#include "db/db_sweeps.h"

static int by_limit(struct db *d, const struct db_stmt *s, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_i64(&p, limit);
	return db_query(d, s, &p, ret, err);
}

static const struct db_stmt expire_leases = { "expire_leases", "SELECT f FROM runs_expire_leases($1::integer) f", true };
static const struct db_stmt expire_deadlines = { "expire_deadlines", "SELECT f FROM runs_expire_deadlines($1::integer) f", true };
static const struct db_stmt settle_cancels = { "settle_cancels", "SELECT f FROM runs_settle_cancels($1::integer, $2) f", true };
static const struct db_stmt cancels = { "cancels", "SELECT id FROM runs WHERE status = 'cancel_requested' ORDER BY cancel_requested_at LIMIT $1", false };

int db_expire_leases(struct db *d, int64_t limit, struct db_result **ret, err_t **err)
{
	return by_limit(d, &expire_leases, limit, ret, err);
}

int db_expire_deadlines(struct db *d, int64_t limit, struct db_result **ret, err_t **err)
{
	return by_limit(d, &expire_deadlines, limit, ret, err);
}

int db_settle_cancels(struct db *d, int64_t limit, int64_t patience_ms, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_i64(&p, limit);
	db_add_i64(&p, patience_ms);
	return db_query(d, &settle_cancels, &p, ret, err);
}

int db_cancels(struct db *d, int64_t limit, struct db_result **ret, err_t **err)
{
	return by_limit(d, &cancels, limit, ret, err);
}

static const struct db_stmt instance_lost = { "instance_lost", "SELECT f FROM instance_lost($1::uuid, $2, $3) f", true };

int db_instance_lost(struct db *d, const char *instance, const char *code, const char *message, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, instance);
	db_add_str(&p, code);
	db_add_str(&p, message);
	return db_query(d, &instance_lost, &p, ret, err);
}

static const struct db_stmt cleanups_due = {
	"cleanups_due",
	"UPDATE runs SET cleanup_next_at = clock_timestamp() + $2::bigint * interval '1 ms' WHERE id IN ("
	"SELECT id FROM runs WHERE cleanup_pending AND cleanup_next_at <= clock_timestamp() ORDER BY cleanup_next_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED) RETURNING id",
	true,
};

int db_cleanups_due(struct db *d, int64_t limit, int64_t hold_ms, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_i64(&p, limit);
	db_add_i64(&p, hold_ms);
	return db_query(d, &cleanups_due, &p, ret, err);
}

static const struct db_stmt cleanups_of = { "cleanups_of", "SELECT id FROM runs WHERE user_id = $1::uuid AND cleanup_pending ORDER BY id LIMIT $2", false };

int db_cleanups_of(struct db *d, const char *user, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, user);
	db_add_i64(&p, limit);
	return db_query(d, &cleanups_of, &p, ret, err);
}

static const struct db_stmt cleanup_read = {
	"cleanup_read",
	"SELECT r.cleanup_pending, r.instance_id, coalesce(r.error_code = 'run_timeout', false), r.scope_id, r.scope_id <> r.instance_id "
	"FROM runs r WHERE r.id = $1::uuid",
	false,
};

int db_cleanup_read(struct db *d, const char *run, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	return db_query(d, &cleanup_read, &p, ret, err);
}

static const struct db_stmt cleanup_confirm = { "cleanup_confirm", "SELECT cleanup_confirm($1::uuid, $2::uuid, $3::uuid, $4)", true };

int db_cleanup_confirm(struct db *d, const char *run, const char *instance, const char *scope, int64_t running_ms, bool *ret_clear, err_t **err)
{
	struct db_params p = { 0 };
	cleanup_db_result struct db_result *r = NULL;
	db_add_str(&p, run);
	db_add_str(&p, instance);
	db_add_str(&p, scope);
	db_add_i64(&p, running_ms);
	if (db_query(d, &cleanup_confirm, &p, &r, err) < 0)
		return -1;
	*ret_clear = db_bool(r, 0, 0);
	return 0;
}

static const struct db_stmt cleanup_later = {
	"cleanup_later",
	"UPDATE runs SET cleanup_error = $2::text, cleanup_tries = CASE WHEN $2::text IS NULL THEN 0 ELSE cleanup_tries + 1 END, "
	"cleanup_next_at = clock_timestamp() + CASE WHEN $2::text IS NULL THEN $3::bigint ELSE "
	"least($4::bigint, $3::bigint * (1::bigint << least(cleanup_tries, 20))) END * interval '1 ms' "
	"WHERE id = $1::uuid AND cleanup_pending",
	true,
};

int db_cleanup_later(struct db *d, const char *run, const char *why, int64_t min_ms, int64_t max_ms, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	db_add_str(&p, why);
	db_add_i64(&p, min_ms);
	db_add_i64(&p, max_ms);
	return db_query(d, &cleanup_later, &p, NULL, err);
}

static const struct db_stmt ledger = {
	"ledger",
	"SELECT i.id, i.run_id, i.created_at < clock_timestamp() - $1::bigint * interval '1 ms', coalesce(r.cleanup_pending, i.retired_at IS NOT NULL), "
	"EXISTS (SELECT 1 FROM sandbox_commands c WHERE c.run_id = i.run_id AND c.instance_id = i.id AND c.started_at IS NOT NULL "
	"AND c.created_at < clock_timestamp() - $1::bigint * interval '1 ms'), "
	"(SELECT s.state FROM user_sandboxes s WHERE s.instance_id = i.id AND s.op_id IS NULL AND s.provider = $2) "
	"FROM instances i LEFT JOIN runs r ON r.id = i.run_id ORDER BY i.id",
	false,
};

int db_ledger(struct db *d, int64_t age_ms, const char *provider, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_i64(&p, age_ms);
	db_add_str(&p, provider);
	return db_query(d, &ledger, &p, ret, err);
}

static const struct db_stmt ledger_gone = {
	"ledger_gone", "UPDATE instances SET usage_ms = greatest(usage_ms, $2::bigint) WHERE id = $1::uuid AND run_id IS NOT NULL RETURNING run_id", true,
};

int db_ledger_gone(struct db *d, const char *instance, int64_t running_ms, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, instance);
	db_add_i64(&p, running_ms);
	return db_query(d, &ledger_gone, &p, ret, err);
}

static const struct db_stmt forget_keys = {
	"forget_keys",
	"WITH old AS (DELETE FROM idempotency_keys WHERE (user_id, scope, key) IN (SELECT user_id, scope, key FROM idempotency_keys "
	"WHERE created_at < clock_timestamp() - $1::bigint * interval '1 ms' ORDER BY created_at LIMIT $2) RETURNING 1) SELECT count(*) FROM old",
	true,
};

int db_forget_keys(struct db *d, int64_t age_ms, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_i64(&p, age_ms);
	db_add_i64(&p, limit);
	return db_query(d, &forget_keys, &p, ret, err);
}

static int retire(struct db *d, const struct db_stmt *s, int64_t days, int64_t limit, int64_t *ret, err_t **err)
{
	struct db_params p = { 0 };
	cleanup_db_result struct db_result *r = NULL;
	db_add_i64(&p, days);
	db_add_i64(&p, limit);
	if (db_query(d, s, &p, &r, err) < 0)
		return -1;
	*ret = db_i64(r, 0, 0);
	return 0;
}

static const struct db_stmt retire_outputs = { "retire_outputs", "SELECT retire_outputs($1, $2)", true };
static const struct db_stmt retire_runs = { "retire_runs", "SELECT retire_runs($1, $2)", true };
static const struct db_stmt retire_audit = { "retire_audit", "SELECT retire_audit($1, $2)", true };

int db_retire_outputs(struct db *d, int64_t days, int64_t limit, int64_t *ret, err_t **err)
{
	return retire(d, &retire_outputs, days, limit, ret, err);
}

int db_retire_runs(struct db *d, int64_t days, int64_t limit, int64_t *ret, err_t **err)
{
	return retire(d, &retire_runs, days, limit, ret, err);
}

int db_retire_audit(struct db *d, int64_t days, int64_t limit, int64_t *ret, err_t **err)
{
	return retire(d, &retire_audit, days, limit, ret, err);
}
