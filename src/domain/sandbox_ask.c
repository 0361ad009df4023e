#include "domain/sandbox_ask.h"

#include <poll.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "domain/answer.h"
#include "domain/executor_client.h"

#define LOSER_WAIT_MS 100

static int read_seen(const json_t *instance, struct db_seen *s, err_t **err)
{
	const json_t *why = NULL;
	if (json_get_str(instance, "id", true, &s->instance, err) < 0 || json_get_str(instance, "state", true, &s->state, err) < 0 ||
			json_get_str(instance, "ref", false, &s->ref, err) < 0 || json_get_i64(instance, "running_ms", false, 0, INT64_MAX, &s->running_ms, err) < 0 ||
			json_get_obj(instance, "error", false, &why, err) < 0)
		return -1;
	if (!why)
		return 0;
	return json_get_str(why, "code", false, &s->code, err) < 0 ? -1 : json_get_str(why, "message", false, &s->message, err);
}

static int observe(struct domain *d, const struct db_seen *s, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	FAULT_POINT(observe_before_row);
	if (db_sandbox_observe(d->db, s, &r, err) < 0)
		return -1;
	FAULT_POINT(observe_after_row);
	return 0;
}

int sandbox_take(struct domain *d, const json_t *instance, int64_t version, err_t **err)
{
	struct db_seen s = { .version = version, .running_ms = -1 };
	if (read_seen(instance, &s, err) < 0)
		return -1;
	if (str_eq(s.state, "gone"))
		return db_instance_gone(d->db, s.instance, s.running_ms, "the sandbox was destroyed", err);
	return observe(d, &s, err);
}

/* Whoever cannot be asked: nothing was done. */
static int away(err_t *e, err_t **err)
{
	if (err_code(e) != ERR_UNAVAILABLE && err_code(e) != ERR_UNKNOWN && err_code(e) != ERR_TIMEOUT)
		return err_move(err, e);
	err_set(err, ERR_UNAVAILABLE, "control_plane_unavailable", "%s", err_message(e));
	err_free(e);
	return -1;
}

int sandbox_tell_make(struct domain *d, const char *instance, const char *workspace, const char *previous, err_t **err)
{
	cleanup_json json_t *i = NULL;
	err_t *e = NULL;
	FAULT_POINT(make_before_call);
	if (executor_client_instance_put(d->executor, instance, workspace, previous, &i, &e) < 0)
		return away(e, err);
	FAULT_POINT(make_after_call);
	return sandbox_take(d, i, 0, err);
}

/* The executor's books are younger than the instance: it is told of what the ledger has, and asks the provider what that is. *ret: the Instance; NULL,
 * without an error, of one that is nobody's present one, or another provider's. */
static int tell_of(struct domain *d, const char *instance, bool *ret_in_ledger, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *e = NULL;
	if (db_instance_in_ledger(d->db, instance, &r, err) < 0)
		return -1;
	*ret_in_ledger = db_rows(r) == 1;
	if (!*ret_in_ledger || db_null(r, 0, IN_LEDGER_STATE) || !str_eq(db_str(r, 0, IN_LEDGER_PROVIDER), d->backend))
		return 0;
	const char *state = db_str(r, 0, IN_LEDGER_STATE), *workspace = db_str(r, 0, IN_LEDGER_WORKSPACE);
	bool to_make = str_eq(state, "creating") || str_eq(state, "rebuilding"), paused = str_eq(state, "paused") || str_eq(state, "waking");
	if (!to_make)
		log_kv(LOG_WARN, "sandbox_missing", "sandbox", instance, "state", state, NULL);
	FAULT_POINT(make_before_call);
	int rc = to_make ? executor_client_instance_put(d->executor, instance, workspace, db_str(r, 0, IN_LEDGER_PREVIOUS), ret, &e) :
		executor_client_instance_take_back(d->executor, instance, workspace, paused, db_i64(r, 0, IN_LEDGER_USAGE), ret, &e);
	FAULT_POINT(make_after_call);
	return rc < 0 ? away(e, err) : 0;
}

int sandbox_take_missing(struct domain *d, const char *instance, err_t **err)
{
	cleanup_json json_t *i = NULL;
	bool in_ledger = false;
	if (tell_of(d, instance, &in_ledger, &i, err) < 0 || (i && sandbox_take(d, i, 0, err) < 0))
		return -1;
	return in_ledger;
}

int sandbox_look(struct domain *d, const char *instance, err_t **err)
{
	cleanup_json json_t *i = NULL;
	err_t *e = NULL;
	if (executor_client_instance_get(d->executor, instance, false, &i, &e) == 0)
		return sandbox_take(d, i, 0, err);
	if (err_code(e) != ERR_NOT_FOUND)
		return away(e, err);
	err_free(e);
	return sandbox_take_missing(d, instance, err) < 0 ? -1 : 0;
}

/* A call on an instance; when the executor does not know it, once more after it was told of it. */
struct asked {
	const char *instance;
	int64_t ms;
};

static int ask(struct domain *d, int (*call)(struct domain *d, const struct asked *a, json_t **ret, err_t **err), const struct asked *a, json_t **ret, err_t **err)
{
	cleanup_json json_t *i = NULL;
	bool in_ledger;
	err_t *e = NULL;
	if (call(d, a, ret, &e) == 0)
		return 0;
	if (err_code(e) != ERR_NOT_FOUND)
		return err_move(err, e);
	err_free(e);
	return tell_of(d, a->instance, &in_ledger, &i, err) < 0 ? -1 : call(d, a, ret, err);
}

static int call_pause(struct domain *d, const struct asked *a, json_t **ret, err_t **err)
{
	FAULT_POINT(pause_before_call);
	int rc = executor_client_instance_pause(d->executor, a->instance, a->ms, ret, err);
	FAULT_POINT(pause_after_call);
	return rc;
}

static int call_keep(struct domain *d, const struct asked *a, json_t **ret, err_t **err)
{
	FAULT_POINT(keepalive_before_call);
	int rc = executor_client_instance_keep(d->executor, a->instance, a->ms, ret, err);
	FAULT_POINT(keepalive_after_call);
	return rc;
}

static int call_wake(struct domain *d, const struct asked *a, json_t **ret, err_t **err)
{
	FAULT_POINT(wake_before_call);
	int rc = executor_client_instance_wake(d->executor, a->instance, ret, err);
	FAULT_POINT(wake_after_call);
	return rc;
}

int sandbox_tell_pause(struct domain *d, const char *instance, int64_t wait_ms, err_t **err)
{
	cleanup_json json_t *i = NULL;
	err_t *e = NULL;
	if (ask(d, call_pause, &(struct asked){ instance, wait_ms }, &i, &e) == 0)
		return sandbox_take(d, i, 0, err);
	if (err_code(e) != ERR_CONFLICT && err_code(e) != ERR_GONE)
		return away(e, err);
	err_free(e);
	return sandbox_look(d, instance, err);   /* busy, or no more: what it is then is the answer */
}

int sandbox_tell_keep(struct domain *d, const char *instance, int64_t ms, err_t **err)
{
	cleanup_json json_t *i = NULL;
	err_t *e = NULL;
	if (ask(d, call_keep, &(struct asked){ instance, ms }, &i, &e) == 0)
		return db_sandbox_kept(d->db, instance, err);
	enum err_code why = err_code(e);
	if (why != ERR_CONFLICT && why != ERR_NOT_FOUND && why != ERR_GONE)
		return away(e, err);
	err_free(e);
	if (why == ERR_GONE && sandbox_look(d, instance, err) < 0)
		return -1;
	return answer_check(why == ERR_CONFLICT ? "sandbox_not_running" : "sandbox_not_found", err);
}

static int tell_wake(struct domain *d, const char *instance, err_t **err)
{
	cleanup_json json_t *i = NULL;
	err_t *e = NULL;
	if (ask(d, call_wake, &(struct asked){ .instance = instance }, &i, &e) < 0)
		return away(e, err);
	return sandbox_take(d, i, 0, err);
}

int sandbox_tell_destroy(struct domain *d, const char *instance, err_t **err)
{
	cleanup_json json_t *i = NULL;
	const char *state = "", *why = NULL;
	const json_t *error = NULL;
	bool stuck = false;
	err_t *e = NULL;
	FAULT_POINT(retire_before_call);
	int rc = executor_client_instance_delete(d->executor, instance, 0, &i, &e);
	FAULT_POINT(retire_after_call);
	if (rc < 0) {
		(void)db_instance_later(d->db, instance, err_message(e), false, d->limits.backoff_min_ms, d->limits.backoff_max_ms, NULL);
		return away(e, err);
	}
	if (json_get_str(i, "state", true, &state, err) < 0 || json_get_bool(i, "stuck", false, &stuck, err) < 0 || json_get_obj(i, "error", false, &error, err) < 0)
		return -1;
	if (str_eq(state, "gone"))
		return sandbox_take(d, i, 0, err) < 0 ? -1 : 1;
	if (stuck && (!error || json_get_str(error, "message", false, &why, NULL) < 0 || !why))
		why = "its destruction fails again and again";
	return db_instance_later(d->db, instance, why, stuck, d->limits.backoff_min_ms, d->limits.backoff_max_ms, err);
}

/* The executor knows it: what it says is the truth, unless it has not heard yet what the row wants. */
static int compare(struct domain *d, const struct db_result *r, int row, int at, const json_t *i, err_t **err)
{
	const char *wanted = db_str(r, row, at + SANDBOX_STATE), *instance = db_str(r, row, at + SANDBOX_INSTANCE), *is = "";
	if (json_get_str(i, "state", true, &is, err) < 0)
		return -1;
	if (str_eq(wanted, "pausing") && str_eq(is, "ready"))
		return sandbox_tell_pause(d, instance, 0, err);
	if (str_eq(wanted, "waking") && str_eq(is, "paused"))
		return tell_wake(d, instance, err);
	return sandbox_take(d, i, db_i64(r, row, at + SANDBOX_VERSION), err);
}

int sandbox_go_on(struct domain *d, const struct db_result *r, int row, int at, err_t **err)
{
	const char *instance = db_str(r, row, at + SANDBOX_INSTANCE);
	cleanup_json json_t *i = NULL;
	bool in_ledger;
	err_t *e = NULL;
	if (executor_client_instance_get(d->executor, instance, true, &i, &e) == 0)
		return compare(d, r, row, at, i, err);
	if (err_code(e) != ERR_NOT_FOUND)
		return away(e, err);
	err_free(e);
	/* It was never told, or its books are lost: what was only being made is asked for again under the same id. */
	if (tell_of(d, instance, &in_ledger, &i, err) < 0)
		return -1;
	return i ? compare(d, r, row, at, i, err) : 0;
}

int sandbox_unstick(struct domain *d, const char *instance, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_sandbox_doubt(d->db, instance, d->limits.sandbox_stale_ms, &r, err) < 0)
		return -1;
	if (db_rows(r) == 1) {
		log_kv(LOG_WARN, "sandbox_stale", "sandbox", instance, "state", db_str(r, 0, SANDBOX_STATE), NULL);
		if (sandbox_go_on(d, r, 0, 0, err) < 0)
			return -1;
	}
	poll(NULL, 0, LOSER_WAIT_MS);
	return 0;
}
