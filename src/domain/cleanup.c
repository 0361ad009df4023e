#include "domain/cleanup.h"

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "db/db_sweeps.h"
#include "domain/command_end.h"
#include "domain/executor_client.h"
#include "domain/sandbox_ask.h"

/* A sweep's duties are out of other janitors' sight for so long. */
#define HOLD_MS 10000

/* What a Run's attempt holds. */
struct held {
	const char *instance, *scope;   /* NULL: it never had a sandbox */
	bool shared;                    /* the instance is its user's and stays */
	bool ceiling;
	int64_t running_ms;             /* of an instance of its own that is gone */
};

/* An executor that does not know the user's instance cannot say what is left in it. Only what the ledger has no more is known to be gone; one to be
 * destroyed has a duty of its own, and any other the executor is told of. */
static int unknown_there(struct domain *d, const struct held *h, err_t **err)
{
	int rc = sandbox_take_missing(d, h->instance, err);
	return rc < 0 ? -1 : rc == 0;
}

/* 1: the executor says that nothing of it is left. 0: it is at it. */
static int give_back(struct domain *d, struct held *h, err_t **err)
{
	cleanup_json json_t *i = NULL;
	const char *state = "";
	err_t *e = NULL;
	FAULT_POINT(cleanup_before_call);
	int rc = h->shared ? executor_client_scope_delete(d->executor, h->instance, h->scope, h->ceiling ? "timeout" : "cancelled", &i, &e) :
		executor_client_instance_delete(d->executor, h->instance, 0, &i, &e);
	if (rc < 0 && h->shared && err_code(e) == ERR_NOT_FOUND) {
		err_free(e);
		return unknown_there(d, h, err);
	}
	if (rc < 0)
		return err_move(err, e);
	FAULT_POINT(cleanup_after_call);
	if (json_get_str(i, "state", true, &state, err) < 0 || (!h->shared && json_get_i64(i, "running_ms", false, 0, INT64_MAX, &h->running_ms, err) < 0))
		return -1;
	return str_eq(state, "gone");
}

/* 1, 0 or -1 as cleanup_run. */
static int release(struct domain *d, const char *run_id, struct held *h, err_t **err)
{
	bool clear = false;
	/* Before they end with their sandbox, and whoever cleans up: their answer says that it was the Run's time that was over. */
	if (h->ceiling && h->instance && command_end_kill_open(d, run_id, "timeout", err) < 0)
		return -1;
	if (h->instance) {
		int rc = give_back(d, h, err);
		if (rc <= 0)
			return rc;
	}
	/* Only now can no command start any more: the executor refuses the id. */
	int left = command_end_settle(d, run_id, err);
	if (left != 0)
		return left < 0 ? -1 : 0;
	FAULT_POINT(cleanup_before_row);
	if (db_cleanup_confirm(d->db, run_id, h->instance, h->scope, h->running_ms, &clear, err) < 0)
		return -1;
	FAULT_POINT(cleanup_after_row);
	return clear;
}

int cleanup_run(struct domain *d, const char *run_id, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *e = NULL;
	if (db_cleanup_read(d->db, run_id, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0 || !db_bool(r, 0, CLEANUP_PENDING))
		return 1;
	struct held h = { .instance = db_str(r, 0, CLEANUP_INSTANCE), .scope = db_str(r, 0, CLEANUP_SCOPE), .shared = db_bool(r, 0, CLEANUP_SHARED),
		.ceiling = db_bool(r, 0, CLEANUP_CEILING) };
	int rc = release(d, run_id, &h, &e);
	if (rc == 1) {
		log_kv(LOG_INFO, "cleanup_done", "run", run_id, "sandbox", db_str(r, 0, CLEANUP_INSTANCE), NULL);
		return 1;
	}
	(void)db_cleanup_later(d->db, run_id, rc < 0 ? err_message(e) : NULL, d->limits.backoff_min_ms, d->limits.backoff_max_ms, NULL);
	if (rc == 0)
		return 0;
	log_kv(LOG_WARN, "cleanup_failed", "run", run_id, "sandbox", db_str(r, 0, CLEANUP_INSTANCE), "err", err_message(e), NULL);
	return err_move(err, e);
}

int cleanup_sweep(struct domain *d, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *first = NULL;
	if (db_cleanups_due(d->db, d->limits.batch, HOLD_MS, &r, err) < 0)
		return -1;
	for (int i = 0; i < db_rows(r); i++) {
		err_t *e = NULL;
		if (cleanup_run(d, db_str(r, i, 0), &e) == 0 || !e)
			continue;
		bool away = err_code(e) == ERR_UNAVAILABLE || err_code(e) == ERR_UNKNOWN;
		err_move(first ? NULL : &first, e);
		/* The others would only wait for their time-outs, too; they are due again in HOLD_MS. */
		if (away)
			break;
	}
	if (first)
		return err_move(err, first);
	return db_rows(r);
}
