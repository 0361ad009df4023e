#include "db/db_runs.h"

#define ORIGIN(A, B, C, D, E) "ROW($" #A "::uuid, $" #B "::uuid, $" #C "::text, $" #D "::text, $" #E "::text)::origin"
#define ANSWER "a.result, " DB_RUN_COLUMNS("(a.run)")

static const char *or_null(const char *s)
{
	return s && *s ? s : NULL;
}

void db_add_origin(struct db_params *p, const struct db_origin *o)
{
	db_add_str(p, or_null(o->actor_id));
	db_add_str(p, or_null(o->user_id));
	db_add_str(p, or_null(o->token_id));
	db_add_str(p, or_null(o->request_id));
	db_add_str(p, or_null(o->source));
}

static void add_lease(struct db_params *p, const struct db_lease *l)
{
	db_add_str(p, l->worker);
	db_add_i64(p, l->lease_ms);
	db_add_str(p, l->nonce);
	db_add_bytes(p, l->hash, l->hash_len);
}

static const struct db_stmt run_create = {
	"run_create",
	"SELECT " ANSWER " FROM run_create($1::uuid, $2, $3, $4, $5::json, $6::json, $7, $8::integer, $9, $10, $11, $12::bytea, $13, $14::bytea, " ORIGIN(15, 16, 17, 18, 19) ") a",
	true,
};

int db_run_create(struct db *d, const struct db_run_new *n, const struct db_lease *l, const struct db_idem *i, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, n->id);
	db_add_str(&p, n->thread);
	db_add_str(&p, n->backend);
	db_add_str(&p, n->workdir);
	db_add_str(&p, n->input);
	db_add_str(&p, n->metadata);
	db_add_i64(&p, n->timeout_ms);
	db_add_i64(&p, n->max_attempts);
	add_lease(&p, l);
	db_add_str(&p, i->key);
	db_add_bytes(&p, i->body_hash, i->body_hash_len);
	db_add_origin(&p, o);
	return db_query(d, &run_create, &p, ret, err);
}

static const struct db_stmt run_claim = {
	"run_claim",
	"SELECT " ANSWER " FROM run_claim($1, $2, $3, $4, $5::bytea, " ORIGIN(6, 7, 8, 9, 10) ") a",
	true,
};

int db_run_claim(struct db *d, const char *thread, const struct db_lease *l, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, thread);
	add_lease(&p, l);
	db_add_origin(&p, o);
	return db_query(d, &run_claim, &p, ret, err);
}

static const struct db_stmt run_heartbeat = {
	"run_heartbeat",
	"SELECT " ANSWER " FROM run_heartbeat($1::uuid, $2::bytea, $3, $4::uuid) a",
	true,
};

int db_run_heartbeat(struct db *d, const char *run, const struct db_lease *l, const char *user, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	db_add_bytes(&p, l->hash, l->hash_len);
	db_add_i64(&p, l->lease_ms);
	db_add_str(&p, user);
	return db_query(d, &run_heartbeat, &p, ret, err);
}

static const struct db_stmt run_finish = {
	"run_finish",
	"SELECT " ANSWER " FROM run_finish($1::uuid, $2::bytea, $3, $4, $5, " ORIGIN(6, 7, 8, 9, 10) ") a",
	true,
};

int db_run_finish(struct db *d, const char *run, const struct db_lease *l, const char *status, const char *code, const char *message, const struct db_origin *o,
	struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	db_add_bytes(&p, l->hash, l->hash_len);
	db_add_str(&p, status);
	db_add_str(&p, code);
	db_add_str(&p, message);
	db_add_origin(&p, o);
	return db_query(d, &run_finish, &p, ret, err);
}

static const struct db_stmt run_cancel = {
	"run_cancel",
	"SELECT " ANSWER " FROM run_cancel($1::uuid, " ORIGIN(2, 3, 4, 5, 6) ") a",
	true,
};

int db_run_cancel(struct db *d, const char *run, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	db_add_origin(&p, o);
	return db_query(d, &run_cancel, &p, ret, err);
}

static const struct db_stmt run_steer = {
	"run_steer",
	"SELECT " ANSWER ", " DB_RUN_COLUMNS("(a.successor)") " FROM run_steer($1::uuid, $2::uuid, $3::json, $4, $5::bytea, " ORIGIN(6, 7, 8, 9, 10) ") a",
	true,
};

int db_run_steer(struct db *d, const char *run, const char *successor, const char *input, const struct db_idem *i, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	db_add_str(&p, successor);
	db_add_str(&p, input);
	db_add_str(&p, i->key);
	db_add_bytes(&p, i->body_hash, i->body_hash_len);
	db_add_origin(&p, o);
	return db_query(d, &run_steer, &p, ret, err);
}

static const struct db_stmt run_get = {
	"run_get",
	"SELECT " DB_RUN_COLUMNS("r") " FROM runs r WHERE r.id = $1::uuid AND r.user_id = $2::uuid",
	false,
};

int db_run_get(struct db *d, const char *run, const char *user, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	db_add_str(&p, user);
	return db_query(d, &run_get, &p, ret, err);
}

#define LIST(WHERE) "SELECT " DB_RUN_COLUMNS("r") ", r.page_rows FROM " DB_PAGE( \
	"SELECT * FROM runs WHERE user_id = $1::uuid AND ($2::text IS NULL OR status = $2) AND ($3::uuid IS NULL OR id < $3::uuid)" WHERE " ORDER BY id DESC LIMIT $4", \
	"coalesce(octet_length(p.input::text), 0) + coalesce(octet_length(p.metadata::text), 0)", "p.id DESC") " r ORDER BY r.id DESC"

static const struct db_stmt run_list = { "run_list", LIST(""), false };
static const struct db_stmt run_list_thread = { "run_list_thread", LIST(" AND thread_id = $5"), false };

int db_run_list(struct db *d, const char *user, const char *thread, const char *status, const char *before, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, user);
	db_add_str(&p, status);
	db_add_str(&p, before);
	db_add_i64(&p, limit);
	if (thread)
		db_add_str(&p, thread);
	return db_query(d, thread ? &run_list_thread : &run_list, &p, ret, err);
}
