#include "domain/run_json.h"

#include <string.h>

#define STORED_JSON_MAX (2u << 20)
#define STORED_JSON_DEPTH 40

int run_json_time(json_t *o, const char *key, const struct db_result *r, int row, int col)
{
	char text[CLOCK_RFC3339_SIZE];
	return db_time(r, row, col, text) ? json_add_str(o, key, text) : json_add_null(o, key);
}

/* A json column: what was once a checked part of a request. */
static int add_stored(json_t *o, const char *key, const char *text)
{
	if (!text)
		return json_add_null(o, key);
	json_t *v = json_parse(text, strlen(text), STORED_JSON_MAX, STORED_JSON_DEPTH, NULL);
	return v ? json_add(o, key, v) : json_add_null(o, key);
}

static json_t *lease_of(const struct db_result *r, int row, int at)
{
	json_t *l = json_object_new_object();
	if (l && (json_add_str(l, "owner", db_str(r, row, at + RUN_LEASE_OWNER)) < 0 || run_json_time(l, "expires_at", r, row, at + RUN_LEASE_EXPIRES) < 0)) {
		json_object_put(l);
		return NULL;
	}
	return l;
}

static json_t *error_of(const struct db_result *r, int row, int at)
{
	json_t *e = json_object_new_object();
	const char *message = db_str(r, row, at + RUN_ERROR_MESSAGE);
	if (e && (json_add_str(e, "code", db_str(r, row, at + RUN_ERROR_CODE)) < 0 || json_add_str(e, "message", message ? message : "") < 0)) {
		json_object_put(e);
		return NULL;
	}
	return e;
}

static int add_optional(json_t *o, const char *key, bool absent, json_t *(*make)(const struct db_result *, int, int), const struct db_result *r, int row, int at)
{
	if (absent)
		return json_add_null(o, key);
	json_t *v = make(r, row, at);
	return v ? json_add(o, key, v) : -1;
}

static int fill(json_t *o, const struct db_result *r, int row, int at, const char *user)
{
	int bad = 0;
	bad |= json_add_str(o, "id", db_str(r, row, at + RUN_ID));
	bad |= json_add_str(o, "thread_id", db_str(r, row, at + RUN_THREAD));
	bad |= json_add_str(o, "user", user);
	bad |= json_add_str(o, "status", db_str(r, row, at + RUN_STATUS));
	bad |= json_add_i64(o, "attempt", db_i64(r, row, at + RUN_ATTEMPT));
	bad |= json_add_str(o, "backend", db_str(r, row, at + RUN_BACKEND));
	bad |= json_add_str(o, "project_id", db_str(r, row, at + RUN_PROJECT));
	bad |= json_add_str(o, "workdir", db_str(r, row, at + RUN_WORKDIR));
	bad |= add_stored(o, "input", db_str(r, row, at + RUN_INPUT));
	bad |= add_stored(o, "metadata", db_str(r, row, at + RUN_METADATA));
	bad |= json_add_i64(o, "timeout_ms", db_i64(r, row, at + RUN_TIMEOUT));
	bad |= json_add_bool(o, "runtime_cleanup_pending", db_bool(r, row, at + RUN_CLEANUP));
	bad |= add_optional(o, "lease", db_null(r, row, at + RUN_LEASE_OWNER), lease_of, r, row, at);
	bad |= add_optional(o, "error", db_null(r, row, at + RUN_ERROR_CODE), error_of, r, row, at);
	bad |= run_json_time(o, "created_at", r, row, at + RUN_CREATED);
	bad |= run_json_time(o, "started_at", r, row, at + RUN_STARTED);
	bad |= run_json_time(o, "ended_at", r, row, at + RUN_ENDED);
	bad |= json_add_str(o, "successor_id", db_str(r, row, at + RUN_SUCCESSOR));
	return bad;
}

json_t *run_json(const struct db_result *r, int row, int at, const char *user, err_t **err)
{
	json_t *o = json_object_new_object();
	if (!o || fill(o, r, row, at, user)) {
		json_object_put(o);
		err_set(err, ERR_NO_MEMORY, NULL, "no memory for a Run");
		return NULL;
	}
	return o;
}
