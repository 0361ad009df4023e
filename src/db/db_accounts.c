#include "db/db_accounts.h"

#include "db/db_auth_sql.h"

#define RUN ", " DB_RUN_COLUMNS("r")

static const struct db_stmt auth = { "auth", DB_AUTH(DB_AUTH_NOBODY, "", ""), false };
static const struct db_stmt auth_for = { "auth_for", DB_AUTH(DB_AUTH_ONE, "", DB_AUTH_JOIN_ONE), false };
/* The Run must be the acting user's: of a service token that is the user it acts for. */
static const struct db_stmt auth_run = {
	"auth_run",
	DB_AUTH(DB_AUTH_NOBODY, RUN, "LEFT JOIN runs r ON r.id = $2::uuid AND r.user_id = u.id AND t.kind <> 'service'"),
	false,
};
static const struct db_stmt auth_run_for = {
	"auth_run_for",
	DB_AUTH(DB_AUTH_ONE, RUN, DB_AUTH_JOIN_ONE "LEFT JOIN runs r ON r.id = $3::uuid AND r.user_id = CASE t.kind WHEN 'service' THEN f.id ELSE u.id END"),
	false,
};

int db_auth(struct db *d, const char *token_id, const char *act_for, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, token_id);
	if (act_for)
		db_add_str(&p, act_for);
	return db_query(d, act_for ? &auth_for : &auth, &p, ret, err);
}

int db_auth_run(struct db *d, const char *token_id, const char *act_for, const char *run_id, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, token_id);
	if (act_for)
		db_add_str(&p, act_for);
	db_add_str(&p, run_id);
	return db_query(d, act_for ? &auth_run_for : &auth_run, &p, ret, err);
}

/* A change and its row in the audit are one statement: neither is there without the other. FROM: the WITH query that made the change, and its user. */
#define NOTED(ACTOR, FOR, TOKEN, REQUEST, SOURCE, NAME, ACTION, OBJECT, FROM) \
	"INSERT INTO audit (actor_id, user_id, token_id, request_id, source, actor, action, object, result) " \
	"SELECT " ACTOR "::uuid, coalesce(" FOR "::uuid, user_id), " TOKEN ", " REQUEST ", " SOURCE ", " NAME ", " ACTION ", " OBJECT ", 'ok' FROM " FROM

static void add_act(struct db_params *p, const struct db_act *a)
{
	db_add_origin(p, &a->origin);
	db_add_str(p, a->actor);
}

static const struct db_stmt user_insert = {
	"user_insert",
	"WITH made AS (INSERT INTO users (id, name, is_admin) VALUES ($1::uuid, $2, $3) RETURNING id AS user_id, name, is_admin) "
	NOTED("$4", "$5", "$6", "$7", "$8", "$9", "CASE WHEN is_admin THEN 'user.create_admin' ELSE 'user.create' END", "name", "made"),
	true,
};

int db_user_insert(struct db *d, const char *id, const char *name, bool admin, const struct db_act *a, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, id);
	db_add_str(&p, name);
	db_add_bool(&p, admin);
	add_act(&p, a);
	return db_query(d, &user_insert, &p, NULL, err);
}

static const struct db_stmt users = {
	"users",
	"SELECT id, name, is_admin, disabled_at IS NOT NULL, created_at FROM users WHERE $1::text IS NULL OR name = $1 ORDER BY name",
	false,
};

int db_users(struct db *d, const char *name, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, name);
	return db_query(d, &users, &p, ret, err);
}

static const struct db_stmt token_insert = {
	"token_insert",
	"WITH made AS (INSERT INTO tokens (id, user_id, kind, hash, label, expires_at) "
	"VALUES ($1, $2::uuid, $3, $4, $5, clock_timestamp() + nullif($6::bigint, 0) * interval '1 ms') RETURNING id, user_id) "
	NOTED("$7", "$8", "$9", "$10", "$11", "$12", "'token.create'", "id", "made"),
	true,
};

int db_token_insert(struct db *d, const struct db_token_new *t, const struct db_act *a, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, t->id);
	db_add_str(&p, t->user_id);
	db_add_str(&p, t->kind);
	db_add_bytes(&p, t->hash, t->hash_len);
	db_add_str(&p, t->label);
	db_add_i64(&p, t->lifetime_ms);
	add_act(&p, a);
	return db_query(d, &token_insert, &p, NULL, err);
}

#define TOKEN_SELECT "SELECT t.id, u.name, t.kind, t.label, t.created_at, t.expires_at, t.revoked_at " \
	"FROM tokens t JOIN users u ON u.id = t.user_id "

static const struct db_stmt tokens = {
	"tokens",
	TOKEN_SELECT
	"WHERE $1::text IS NULL OR u.name = $1 ORDER BY u.name, t.created_at",
	false,
};

int db_tokens(struct db *d, const char *user, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, user);
	return db_query(d, &tokens, &p, ret, err);
}

static const struct db_stmt tokens_of = {
	"tokens_of",
	TOKEN_SELECT
	"WHERE t.user_id = $1::uuid AND ($2::text IS NULL OR (t.created_at, t.id) > (SELECT a.created_at, a.id FROM tokens a WHERE a.id = $2)) "
	"ORDER BY t.created_at, t.id LIMIT $3",
	false,
};

int db_tokens_of(struct db *d, const char *user_id, const char *after, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, user_id);
	db_add_str(&p, after);
	db_add_i64(&p, limit);
	return db_query(d, &tokens_of, &p, ret, err);
}

static const struct db_stmt token_is_of = { "token_is_of", "SELECT 1 FROM tokens WHERE id = $1 AND user_id = $2::uuid", false };

int db_token_is_of(struct db *d, const char *id, const char *user_id, bool *ret, err_t **err)
{
	struct db_params p = { 0 };
	cleanup_db_result struct db_result *r = NULL;
	db_add_str(&p, id);
	db_add_str(&p, user_id);
	if (db_query(d, &token_is_of, &p, &r, err) < 0)
		return -1;
	*ret = db_rows(r) > 0;
	return 0;
}

static const struct db_stmt token_revoke = {
	"token_revoke",
	"WITH t AS (SELECT id, user_id, revoked_at FROM tokens WHERE id = $1 AND ($2::uuid IS NULL OR user_id = $2::uuid) FOR NO KEY UPDATE), "
	"done AS (UPDATE tokens k SET revoked_at = clock_timestamp() FROM t WHERE k.id = t.id AND t.revoked_at IS NULL RETURNING k.id, k.user_id), "
	"noted AS (" NOTED("$3", "$4", "$5", "$6", "$7", "$8", "'token.revoke'", "id", "done") ") SELECT id FROM t",
	true,
};

int db_token_revoke(struct db *d, const char *id, const char *user_id, const struct db_act *a, bool *ret_found, err_t **err)
{
	struct db_params p = { 0 };
	cleanup_db_result struct db_result *r = NULL;
	db_add_str(&p, id);
	db_add_str(&p, user_id);
	add_act(&p, a);
	if (db_query(d, &token_revoke, &p, &r, err) < 0)
		return -1;
	*ret_found = db_rows(r) > 0;
	return 0;
}

static const struct db_stmt audit = {
	"audit",
	"INSERT INTO audit (actor_id, user_id, token_id, request_id, source, actor, action, object, result) VALUES ($1::uuid, $2::uuid, $3, $4, $5, $6, $7, $8, $9)",
	true,
};

int db_audit(struct db *d, const struct db_act *a, const char *action, const char *object, const char *result, err_t **err)
{
	struct db_params p = { 0 };
	add_act(&p, a);
	db_add_str(&p, action);
	db_add_str(&p, object);
	db_add_str(&p, result);
	return db_query(d, &audit, &p, NULL, err);
}
