#include "db/db_operator.h"

/* Longer than the janitor lets anything lie while it and the executor are well. */
#define PATIENCE "interval '60 s'"
/* Texts that a user chose the length of. */
#define SHORT(TEXT) "left(" TEXT ", 1000)"

/* The filter's values, in the order in which the queries number them. */
static void add_filter(struct db_params *p, const struct db_operator_filter *f)
{
	db_add_i64(p, f->limit);
	db_add_str(p, f->user);
	db_add_str(p, f->run);
}

#define FENCE "(SELECT f.id FROM runs f WHERE f.user_id = r.user_id AND f.thread_id = r.thread_id AND f.cleanup_pending AND f.id <> r.id ORDER BY f.id LIMIT 1)"
#define WHY "CASE WHEN r.cleanup_pending AND r.cleanup_tries > 0 THEN 'cleanup_failed' WHEN r.cleanup_pending THEN 'cleanup' " \
	"WHEN r.status = 'cancel_requested' THEN 'cancelling' WHEN r.status = 'pending' AND x.fence IS NOT NULL THEN 'fenced' " \
	"WHEN r.status = 'pending' THEN 'unclaimed' WHEN r.lease_expires_at <= clock_timestamp() THEN 'lease_expired' WHEN r.lease_owner IS NOT NULL THEN 'leased' " \
	"WHEN r.status = 'running' THEN 'running' END"
/* A fenced one is stuck when what holds it is. */
#define STUCK(R) "(" R ".cleanup_pending AND (" R ".cleanup_tries > 0 OR " R ".cleanup_next_at < clock_timestamp() - " PATIENCE ")) " \
	"OR (" R ".status = 'cancel_requested' AND " R ".cancel_requested_at < clock_timestamp() - " PATIENCE ") " \
	"OR " R ".lease_expires_at < clock_timestamp() - " PATIENCE " " \
	"OR (" R ".ended_at IS NULL AND " R ".deadline_at < clock_timestamp() - " PATIENCE ")"

static const struct db_stmt list_runs = {
	"operator_runs",
	"SELECT r.id, r.created_at, r.status, r.attempt, " WHY ", CASE WHEN r.status = 'pending' AND NOT r.cleanup_pending THEN x.fence END, u.name, r.thread_id, "
	SHORT("r.lease_owner") ", r.lease_expires_at, r.cancel_requested_at, r.cleanup_tries, r.cleanup_next_at, "
	SHORT("coalesce(r.cleanup_error, r.error_code)") ", r.successor_id "
	"FROM runs r JOIN users u ON u.id = r.user_id CROSS JOIN LATERAL (SELECT CASE WHEN r.status = 'pending' THEN " FENCE " END AS fence) x "
	"WHERE ($2::text IS NULL OR u.name = $2) AND ($3::uuid IS NULL OR r.id = $3::uuid) AND ($4::text IS NULL OR r.status = $4) "
	"AND ($5 OR r.ended_at IS NULL OR r.cleanup_pending) "
	"AND (NOT $6 OR " STUCK("r") " OR (x.fence IS NOT NULL AND EXISTS (SELECT 1 FROM runs g WHERE g.id = x.fence AND (" STUCK("g") ")))) "
	"ORDER BY r.id DESC LIMIT $1",
	false,
};

int db_operator_runs(struct db *d, const struct db_operator_filter *f, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	add_filter(&p, f);
	db_add_str(&p, f->status);
	db_add_bool(&p, f->all || f->status || f->run);
	db_add_bool(&p, f->stuck);
	return db_query(d, &list_runs, &p, ret, err);
}

static const struct db_stmt list_commands = {
	"operator_commands",
	"SELECT c.id, c.created_at, c.status, c.reason, coalesce(c.duration_ms, (1000 * extract(epoch FROM clock_timestamp() - c.created_at))::bigint), u.name, c.run_id, "
	"c.instance_id, " SHORT("coalesce(c.command, c.argv::text)") " "
	"FROM sandbox_commands c JOIN users u ON u.id = c.user_id "
	"WHERE ($2::text IS NULL OR u.name = $2) AND ($3::uuid IS NULL OR c.run_id = $3::uuid) AND (NOT $4 OR c.ended_at IS NULL) ORDER BY c.id DESC LIMIT $1",
	false,
};

int db_operator_commands(struct db *d, const struct db_operator_filter *f, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	add_filter(&p, f);
	db_add_bool(&p, f->open);
	return db_query(d, &list_commands, &p, ret, err);
}

static const struct db_stmt find_command = {
	"operator_command",
	"SELECT instance_id, ended_at IS NOT NULL, user_id FROM sandbox_commands WHERE id = $1::uuid",
	false,
};

int db_operator_command(struct db *d, const char *command, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, command);
	return db_query(d, &find_command, &p, ret, err);
}

static const struct db_stmt list_cleanups = {
	"operator_cleanups",
	"SELECT r.id, coalesce(r.ended_at, (SELECT max(t.ended_at) FROM run_attempts t WHERE t.run_id = r.id)) AS since, r.status, r.cleanup_tries, r.cleanup_next_at, "
	"u.name, r.thread_id, r.instance_id, " SHORT("r.cleanup_error") " FROM runs r JOIN users u ON u.id = r.user_id "
	"WHERE r.cleanup_pending AND ($2::text IS NULL OR u.name = $2) AND ($3::uuid IS NULL OR r.id = $3::uuid) ORDER BY since, r.id LIMIT $1",
	false,
};

int db_operator_cleanups(struct db *d, const struct db_operator_filter *f, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	add_filter(&p, f);
	return db_query(d, &list_cleanups, &p, ret, err);
}

static const struct db_stmt retry = {
	"operator_retry",
	"WITH moved AS (UPDATE runs SET cleanup_next_at = clock_timestamp() WHERE cleanup_pending AND ($1::uuid IS NULL OR id = $1::uuid) RETURNING id, user_id), "
	"noted AS (INSERT INTO audit (actor_id, user_id, token_id, request_id, source, actor, action, object, result) "
	"SELECT $2::uuid, coalesce($3::uuid, user_id), $4, $5, $6, $7, 'run.cleanup_retry', id::text, 'ok' FROM moved) SELECT id FROM moved ORDER BY id",
	true,
};

int db_operator_retry(struct db *d, const char *run, const struct db_act *a, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	db_add_origin(&p, &a->origin);
	db_add_str(&p, a->actor);
	return db_query(d, &retry, &p, ret, err);
}
