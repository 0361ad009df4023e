#include "db/db_sandbox.h"

#define COLUMNS(S) S ".user_id, (SELECT name FROM users u WHERE u.id = " S ".user_id), " S ".state, " S ".generation, " S ".instance_id, " S ".previous_id, " S ".lock_version"
#define ANSWER "a.result, (a.sandbox).user_id, (SELECT name FROM users u WHERE u.id = (a.sandbox).user_id), (a.sandbox).state, (a.sandbox).generation, " \
	"(a.sandbox).instance_id, (a.sandbox).previous_id, (a.sandbox).lock_version, array_to_string(a.blockers, ',')"

static const struct db_stmt rebuild = {
	"sandbox_rebuild",
	"SELECT " ANSWER " FROM sandbox_rebuild($1, $2::uuid, $3, $4, $5, $6, ROW($7::uuid, $8::uuid, $9::text, $10::text, $11::text)::origin) a",
	true,
};
static const struct db_stmt release_it = {
	"sandbox_release", "SELECT " ANSWER " FROM sandbox_release($1, $2, ROW($3::uuid, $4::uuid, $5::text, $6::text, $7::text)::origin) a", true,
};
static const struct db_stmt pause_it = {
	"sandbox_pause",
	"SELECT " ANSWER " FROM sandbox_pause($1, nullif($2::bigint, -1), $3, ROW($4::uuid, $5::uuid, $6::text, $7::text, $8::text)::origin) a",
	true,
};
static const struct db_stmt keep = {
	"sandbox_keep", "SELECT " ANSWER " FROM sandbox_keep($1, $2, $3, ROW($4::uuid, $5::uuid, $6::text, $7::text, $8::text)::origin) a", true,
};
static const struct db_stmt quarantine = {
	"sandbox_quarantine",
	"SELECT " ANSWER " FROM users w, sandbox_quarantine(w.id, ROW($2::uuid, w.id, $3::text, $4::text, $5::text)::origin) a WHERE w.name = $1",
	true,
};

int db_sandbox_rebuild(struct db *d, const struct db_rebuild *b, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, b->provider);
	db_add_str(&p, b->instance);
	db_add_str(&p, b->workspace);
	db_add_i64(&p, b->stale_ms);
	db_add_i64(&p, b->max_user_instances);
	db_add_i64(&p, b->max_all_instances);
	db_add_origin(&p, o);
	return db_query(d, &rebuild, &p, ret, err);
}

int db_sandbox_release(struct db *d, const char *provider, int64_t stale_ms, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, provider);
	db_add_i64(&p, stale_ms);
	db_add_origin(&p, o);
	return db_query(d, &release_it, &p, ret, err);
}

/* A decision with one number. */
static int decide(struct db *d, const struct db_stmt *s, const char *provider, int64_t ms, int64_t stale_ms, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, provider);
	db_add_i64(&p, ms);
	db_add_i64(&p, stale_ms);
	db_add_origin(&p, o);
	return db_query(d, s, &p, ret, err);
}

int db_sandbox_pause(struct db *d, const char *provider, int64_t idle_ms, int64_t stale_ms, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	return decide(d, &pause_it, provider, idle_ms < 0 ? -1 : idle_ms, stale_ms, o, ret, err);
}

int db_sandbox_keep(struct db *d, const char *provider, int64_t ms, int64_t stale_ms, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	return decide(d, &keep, provider, ms, stale_ms, o, ret, err);
}

int db_sandbox_quarantine(struct db *d, const char *user, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, user);
	db_add_str(&p, o->actor_id && *o->actor_id ? o->actor_id : NULL);
	db_add_str(&p, o->token_id);
	db_add_str(&p, o->request_id);
	db_add_str(&p, o->source);
	return db_query(d, &quarantine, &p, ret, err);
}

static const struct db_stmt observe = {
	"sandbox_observe", "SELECT " COLUMNS("s") " FROM sandbox_observe($1::uuid, nullif($2::bigint, 0), $3, $4, nullif($5::bigint, -1), $6, $7) s", true,
};
static const struct db_stmt gone = { "instance_gone", "SELECT instance_gone($1::uuid, nullif($2::bigint, -1), $3)", true };
static const struct db_stmt used = {
	"sandbox_used",
	"UPDATE user_sandboxes s SET last_activity_at = greatest(s.last_activity_at, clock_timestamp()) "
	"WHERE s.user_id IN (SELECT x.user_id FROM user_sandboxes x WHERE x.instance_id IN "
	"(SELECT c.instance_id FROM sandbox_commands c WHERE c.id = ANY ($1::uuid[]) AND c.started_at IS NOT NULL) ORDER BY x.user_id FOR NO KEY UPDATE)",
	true,
};
static const struct db_stmt kept = {
	"sandbox_kept", "UPDATE user_sandboxes SET last_activity_at = greatest(last_activity_at, clock_timestamp()) WHERE instance_id = $1::uuid", true,
};

int db_sandbox_observe(struct db *d, const struct db_seen *s, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, s->instance);
	db_add_i64(&p, s->version);
	db_add_str(&p, s->state);
	db_add_str(&p, s->ref);
	db_add_i64(&p, s->running_ms);
	db_add_str(&p, s->code);
	db_add_str(&p, s->message);
	return db_query(d, &observe, &p, ret, err);
}

int db_instance_gone(struct db *d, const char *instance, int64_t running_ms, const char *message, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, instance);
	db_add_i64(&p, running_ms);
	db_add_str(&p, message);
	return db_query(d, &gone, &p, NULL, err);
}

static int by_text(struct db *d, const struct db_stmt *s, const char *text, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, text);
	return db_query(d, s, &p, ret, err);
}

int db_sandbox_used(struct db *d, const char *ids, err_t **err)
{
	return by_text(d, &used, ids, NULL, err);
}

int db_sandbox_kept(struct db *d, const char *instance, err_t **err)
{
	return by_text(d, &kept, instance, NULL, err);
}

static const struct db_stmt of = { "sandbox_of", "SELECT " COLUMNS("s") " FROM user_sandboxes s WHERE s.instance_id = $1::uuid", false };
static const struct db_stmt doubt = {
	"sandbox_doubt",
	"UPDATE user_sandboxes s SET op_at = clock_timestamp(), lock_version = s.lock_version + 1 WHERE s.instance_id = $1::uuid AND s.op_id IS NOT NULL "
	"AND s.op_at < clock_timestamp() - $2::bigint * interval '1 ms' RETURNING " COLUMNS("s"),
	true,
};
static const struct db_stmt moving = {
	"sandboxes_moving",
	"SELECT " COLUMNS("s") " FROM user_sandboxes s WHERE s.op_id IS NOT NULL AND s.op_at <= clock_timestamp() - $1::bigint * interval '1 ms' "
	"AND s.provider = $3 ORDER BY s.op_at LIMIT $2",
	false,
};
/* A first sight without a lock: sandbox_pause() looks again, under it. */
static const struct db_stmt idle = {
	"sandboxes_idle",
	"SELECT " COLUMNS("s") " FROM user_sandboxes s WHERE s.state = 'ready' AND s.provider = $1 "
	"AND sandbox_idle_since(s) <= clock_timestamp() - $2::bigint * interval '1 ms' AND (s.keep_until IS NULL OR s.keep_until <= clock_timestamp()) "
	"AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.user_id = s.user_id AND r.ended_at IS NULL AND r.status IN ('running', 'cancel_requested')) "
	"AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.user_id = s.user_id AND r.cleanup_pending) "
	"AND NOT EXISTS (SELECT 1 FROM sandbox_commands c WHERE c.user_id = s.user_id AND c.ended_at IS NULL) LIMIT $3",
	false,
};
static const struct db_stmt to_keep = {
	"sandboxes_to_keep",
	"UPDATE user_sandboxes s SET kept_at = clock_timestamp() WHERE s.user_id IN ("
	"SELECT x.user_id FROM user_sandboxes x WHERE x.state = 'ready' AND x.provider = $3 AND (x.kept_at IS NULL OR x.kept_at <= clock_timestamp() - $1::bigint * interval '1 ms') "
	"AND EXISTS (SELECT 1 FROM runs r WHERE r.user_id = x.user_id AND r.ended_at IS NULL AND r.status IN ('running', 'cancel_requested') AND r.instance_id = x.instance_id) "
	"LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) RETURNING " COLUMNS("s"),
	true,
};

int db_sandbox_of(struct db *d, const char *instance, struct db_result **ret, err_t **err)
{
	return by_text(d, &of, instance, ret, err);
}

int db_sandbox_doubt(struct db *d, const char *instance, int64_t age_ms, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, instance);
	db_add_i64(&p, age_ms);
	return db_query(d, &doubt, &p, ret, err);
}

static int by_age(struct db *d, const struct db_stmt *s, const char *provider, int64_t ms, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_i64(&p, ms);
	db_add_i64(&p, limit);
	db_add_str(&p, provider);
	return db_query(d, s, &p, ret, err);
}

int db_sandboxes_moving(struct db *d, const char *provider, int64_t age_ms, int64_t limit, struct db_result **ret, err_t **err)
{
	return by_age(d, &moving, provider, age_ms, limit, ret, err);
}

int db_sandboxes_idle(struct db *d, const char *provider, int64_t idle_ms, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, provider);
	db_add_i64(&p, idle_ms);
	db_add_i64(&p, limit);
	return db_query(d, &idle, &p, ret, err);
}

int db_sandboxes_to_keep(struct db *d, const char *provider, int64_t period_ms, int64_t limit, struct db_result **ret, err_t **err)
{
	return by_age(d, &to_keep, provider, period_ms, limit, ret, err);
}

static const struct db_stmt retired = {
	"instances_retired",
	"UPDATE instances SET destroy_next_at = clock_timestamp() + $1::bigint * interval '1 ms' WHERE id IN ("
	"SELECT id FROM instances WHERE retired_at IS NOT NULL AND destroy_next_at <= clock_timestamp() AND coalesce(provider, $3) = $3 "
	"ORDER BY destroy_next_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED) "
	"RETURNING id",
	true,
};
static const struct db_stmt later = { "instance_later", "SELECT instance_destroy_later($1::uuid, $2, $3, $4, $5)", true };
static const struct db_stmt stranger = {
	"instance_stranger",
	"WITH put AS (INSERT INTO instances (id, user_id, workspace, generation, provider, retired_at, destroy_next_at, quarantined_at, destroy_error) "
	"SELECT $1::uuid, u.id, u.name, 0, $3, clock_timestamp(), 'infinity', clock_timestamp(), 'no row knows it' FROM users u WHERE u.name = $2 "
	"ON CONFLICT DO NOTHING RETURNING id, user_id) SELECT audit_add(own_origin(put.user_id), 'sandbox.quarantine', put.id::text, 'no row knows it') FROM put",
	true,
};
static const struct db_stmt in_ledger = {
	"instance_in_ledger",
	"SELECT i.workspace, coalesce(i.provider, s.provider), i.usage_ms, s.state, s.previous_id "
	"FROM instances i LEFT JOIN user_sandboxes s ON s.instance_id = i.id AND i.retired_at IS NULL WHERE i.id = $1::uuid AND i.run_id IS NULL",
	false,
};
static const struct db_stmt quarantined = { "instance_quarantined", "SELECT id FROM instances WHERE id = $1::uuid AND quarantined_at IS NOT NULL", false };

int db_instances_retired(struct db *d, const char *provider, int64_t limit, int64_t hold_ms, struct db_result **ret, err_t **err)
{
	return by_age(d, &retired, provider, hold_ms, limit, ret, err);
}

int db_instance_later(struct db *d, const char *instance, const char *why, bool stuck, int64_t min_ms, int64_t max_ms, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, instance);
	db_add_str(&p, why);
	db_add_bool(&p, stuck);
	db_add_i64(&p, min_ms);
	db_add_i64(&p, max_ms);
	return db_query(d, &later, &p, NULL, err);
}

int db_instance_stranger(struct db *d, const char *instance, const char *workspace, const char *provider, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, instance);
	db_add_str(&p, workspace);
	db_add_str(&p, provider);
	return db_query(d, &stranger, &p, NULL, err);
}

int db_instance_in_ledger(struct db *d, const char *instance, struct db_result **ret, err_t **err)
{
	return by_text(d, &in_ledger, instance, ret, err);
}

int db_instance_quarantined(struct db *d, const char *instance, struct db_result **ret, err_t **err)
{
	return by_text(d, &quarantined, instance, ret, err);
}
