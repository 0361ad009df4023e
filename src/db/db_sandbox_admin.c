#include "db/db_sandbox_admin.h"

static const struct db_stmt sandboxes = {
	"sandboxes",
	"SELECT u.name, s.provider, s.state, s.generation, s.instance_id, s.provider_ref, s.op_at, "
	"CASE WHEN s.op_id IS NOT NULL THEN (extract(epoch FROM clock_timestamp() - s.op_at) * 1000)::bigint END, s.last_activity_at, s.keep_until, s.error_code, "
	"s.error_message, s.created_at, s.lock_version, (SELECT count(*) FROM instances i WHERE i.user_id = s.user_id AND i.retired_at IS NOT NULL), "
	"(SELECT count(*) FROM runs r WHERE r.user_id = s.user_id AND r.cleanup_pending) "
	"FROM user_sandboxes s JOIN users u ON u.id = s.user_id WHERE s.generation > 0 AND ($1::text IS NULL OR u.name = $1) ORDER BY u.name",
	false,
};

int db_sandboxes(struct db *d, const char *user, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, user);
	return db_query(d, &sandboxes, &p, ret, err);
}

static const struct db_stmt left = {
	"instances_left",
	"SELECT i.id, u.name, i.generation, i.created_at, i.retired_at, i.quarantined_at, i.destroy_tries, i.destroy_error, i.destroy_next_at = 'infinity' "
	"FROM instances i JOIN users u ON u.id = i.user_id "
	"WHERE i.retired_at IS NOT NULL AND ($1::text IS NULL OR u.name = $1) AND (NOT $2 OR i.quarantined_at IS NOT NULL) AND ($3::uuid IS NULL OR i.id > $3) "
	"ORDER BY i.id LIMIT $4",
	false,
};

int db_instances_left(struct db *d, const char *user, bool quarantined, const char *after, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, user);
	db_add_bool(&p, quarantined);
	db_add_str(&p, after);
	db_add_i64(&p, limit);
	return db_query(d, &left, &p, ret, err);
}

/* The rows of user_sandboxes and instances are locked in the order that all others lock them in; instances that no row knew stay as they are. */
static const struct db_stmt retry = {
	"sandbox_retry",
	"WITH who AS (SELECT id, sandbox_lock(id) FROM users WHERE name = $1), "
	"op AS (UPDATE user_sandboxes SET op_at = least(op_at, clock_timestamp() - interval '1 hour') FROM who WHERE user_id = who.id AND op_id IS NOT NULL), "
	"due AS (UPDATE instances SET destroy_next_at = clock_timestamp() FROM who WHERE user_id = who.id AND retired_at IS NOT NULL AND destroy_next_at <> 'infinity') "
	"SELECT 1 FROM who",
	true,
};

int db_sandbox_retry(struct db *d, const char *user, bool *ret_found, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct db_params p = { 0 };
	db_add_str(&p, user);
	if (db_query(d, &retry, &p, &r, err) < 0)
		return -1;
	*ret_found = db_rows(r) > 0;
	return 0;
}
