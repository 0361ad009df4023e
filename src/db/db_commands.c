#include "db/db_commands.h"

#define ANSWER "a.result, a.command_id, a.run_id, a.attempt, a.instance_id, a.cwd, a.workdir, a.timeout_ms, a.ended, a.scope_id, a.previous_id, a.fresh"

static void add_wish(struct db_params *p, const struct db_command_new *n)
{
	db_add_str(p, n->id);
	db_add_str(p, n->command);
	db_add_str(p, n->argv);
	db_add_str(p, n->cwd);
	db_add_i64(p, n->timeout_ms);
	db_add_bool(p, n->background);
	db_add_i64(p, n->max_run);
	db_add_i64(p, n->max_user);
	db_add_i64(p, n->max_all);
	db_add_str(p, n->stage);
	db_add_i64(p, n->stage_ms);
	db_add_i64(p, n->max_user_instances);
	db_add_i64(p, n->max_all_instances);
	db_add_str(p, n->scope);
	db_add_str(p, n->kind);
	db_add_str(p, n->provider);
	db_add_i64(p, n->stale_ms);
	db_add_bool(p, n->renew);
}

static void add_idem(struct db_params *p, const struct db_idem *i)
{
	db_add_str(p, i->key);
	db_add_bytes(p, i->body_hash, i->body_hash_len);
}

static const struct db_stmt command_start = {
	"command_start",
	"SELECT " ANSWER " FROM command_start($1::uuid, $2::bytea, $3::uuid, $4, "
	"ROW($5::uuid, $6::text, $7::json, $8::text, $9::bigint, $10::boolean, $11::bigint, $12::bigint, $13::bigint, $14::text, "
	"nullif($15::bigint, 0), $16::bigint, $17::bigint, $18::uuid, $19::text, $20::text, $21::bigint, $22::boolean)::command_wish, $23, $24::bytea, "
	"ROW($25::uuid, $26::uuid, $27::text, $28::text, $29::text)::origin) a",
	true,
};

int db_command_start(struct db *d, const char *run, const struct db_lease *l, const char *instance, const char *workspace, const struct db_command_new *n,
	const struct db_idem *i, const struct db_origin *o, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	db_add_bytes(&p, l->hash, l->hash_len);
	db_add_str(&p, instance);
	db_add_str(&p, workspace);
	add_wish(&p, n);
	add_idem(&p, i);
	db_add_origin(&p, o);
	return db_query(d, &command_start, &p, ret, err);
}

static const struct db_stmt execute_start = {
	"execute_start",
	"SELECT " ANSWER " FROM execute_start($1::uuid, $2::uuid, $3, $4, $5, $6, "
	"ROW($7::uuid, $8::text, $9::json, $10::text, $11::bigint, $12::boolean, $13::bigint, $14::bigint, $15::bigint, $16::text, "
	"nullif($17::bigint, 0), $18::bigint, $19::bigint, $20::uuid, $21::text, $22::text, $23::bigint, $24::boolean)::command_wish, $25, $26::bytea, "
	"ROW($27::uuid, $28::uuid, $29::text, $30::text, $31::text)::origin) a",
	true,
};

int db_execute_start(struct db *d, const struct db_execute *x, const struct db_command_new *n, const struct db_idem *i, const struct db_origin *o,
	struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, x->run);
	db_add_str(&p, x->instance);
	db_add_str(&p, x->workspace);
	db_add_str(&p, x->backend);
	db_add_str(&p, x->workdir);
	db_add_i64(&p, x->timeout_ms);
	add_wish(&p, n);
	add_idem(&p, i);
	db_add_origin(&p, o);
	return db_query(d, &execute_start, &p, ret, err);
}

/* The command's text and limits are the first one's. */
static const struct db_stmt command_again = {
	"command_again",
	"SELECT " ANSWER " FROM command_again($1::uuid, $2::uuid, $3, ROW($4::uuid, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
	"$5::uuid, NULL, $6::text, $7::bigint, true)::command_wish, ROW($8::uuid, $9::uuid, $10::text, $11::text, $12::text)::origin) a",
	true,
};

int db_command_again(struct db *d, const char *first, const char *instance, const char *workspace, const struct db_command_new *n, const struct db_origin *o,
	struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, first);
	db_add_str(&p, instance);
	db_add_str(&p, workspace);
	db_add_str(&p, n->id);
	db_add_str(&p, n->scope);
	db_add_str(&p, n->provider);
	db_add_i64(&p, n->stale_ms);
	db_add_origin(&p, o);
	return db_query(d, &command_again, &p, ret, err);
}

static const struct db_stmt command_refused = { "command_refused", "SELECT f FROM command_refused($1::uuid, $2, $3) f", true };

int db_command_refused(struct db *d, const char *command, const char *code, const char *message, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, command);
	db_add_str(&p, code);
	db_add_str(&p, message);
	return db_query(d, &command_refused, &p, ret, err);
}

#define COLUMNS "c.id, c.run_id, c.attempt, c.status, c.reason, c.exit_code, c.signal, c.process_group, c.command, c.argv, c.cwd, c.timeout_ms, " \
	"c.started_at, c.ended_at, c.duration_ms, c.stdout_bytes, c.stderr_bytes, c.stdout_truncated, c.stderr_truncated, " \
	"c.error_code, c.error_message, c.instance_id, c.timeout"

static const struct db_stmt command_get = {
	"command_get",
	"SELECT " COLUMNS ", c.stdout, c.stderr FROM sandbox_commands c WHERE c.id = $1::uuid AND c.user_id = $2::uuid",
	false,
};

int db_command_get(struct db *d, const char *command, const char *user, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, command);
	db_add_str(&p, user);
	return db_query(d, &command_get, &p, ret, err);
}

static const struct db_stmt command_peek = {
	"command_peek",
	"SELECT ended_at IS NOT NULL, instance_id FROM sandbox_commands WHERE id = $1::uuid AND user_id = $2::uuid",
	false,
};

int db_command_peek(struct db *d, const char *command, const char *user, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, command);
	db_add_str(&p, user);
	return db_query(d, &command_peek, &p, ret, err);
}

/* The first row, with a NULL id, says that the Run is there when it has no commands in this range. */
static const struct db_stmt command_list = {
	"command_list",
	"SELECT " COLUMNS ", c.page_rows FROM runs r LEFT JOIN LATERAL " DB_PAGE(
	"SELECT * FROM sandbox_commands s WHERE s.run_id = r.id AND ($3::uuid IS NULL OR s.id > $3::uuid) ORDER BY s.id LIMIT $4",
	"coalesce(octet_length(p.command), 0) + coalesce(octet_length(p.argv::text), 0)", "p.id") " c ON true "
	"WHERE r.id = $1::uuid AND r.user_id = $2::uuid ORDER BY c.id",
	false,
};

int db_command_list(struct db *d, const char *run, const char *user, const char *after, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	db_add_str(&p, user);
	db_add_str(&p, after);
	db_add_i64(&p, limit);
	return db_query(d, &command_list, &p, ret, err);
}

static const struct db_stmt commands_open_of = {
	"commands_open_of",
	"SELECT c.id, c.run_id, c.status, c.instance_id FROM runs r JOIN sandbox_commands c ON c.user_id = r.user_id AND c.run_id = r.id "
	"WHERE r.id = $1::uuid AND c.ended_at IS NULL ORDER BY c.id",
	false,
};

int db_commands_open_of(struct db *d, const char *run, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, run);
	return db_query(d, &commands_open_of, &p, ret, err);
}

static const struct db_stmt commands_open = {
	"commands_open",
	"SELECT c.id, c.run_id, c.status, c.instance_id FROM sandbox_commands c WHERE c.ended_at IS NULL AND c.created_at < clock_timestamp() - $1::bigint * interval '1 ms' "
	"AND ($2::uuid IS NULL OR c.id > $2::uuid) ORDER BY c.id LIMIT $3",
	false,
};

int db_commands_open(struct db *d, int64_t age_ms, const char *after, int64_t limit, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_i64(&p, age_ms);
	db_add_str(&p, after);
	db_add_i64(&p, limit);
	return db_query(d, &commands_open, &p, ret, err);
}

static const struct db_stmt commands_record = { "commands_record", "SELECT a.what, a.id FROM commands_record($1::json, $2::bytea[], $3::bytea[]) a", true };

int db_commands_record(struct db *d, const char *items_json, const void *out, size_t out_len, const void *errs, size_t errs_len, struct db_result **ret, err_t **err)
{
	struct db_params p = { 0 };
	db_add_str(&p, items_json);
	db_add_bytes(&p, out, out_len);
	db_add_bytes(&p, errs, errs_len);
	return db_query(d, &commands_record, &p, ret, err);
}
