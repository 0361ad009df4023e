#include "domain/sandbox_duties.h"

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "domain/executor_client.h"
#include "domain/sandbox_ask.h"

#define GO_ON_AFTER_MS 2000
/* Those taken are out of other janitors' sight for so long. */
#define HOLD_MS 10000

/* One that cannot be served must not hold up the others, unless it is the executor that does not answer. Takes e; true: stop. */
static bool note(const char *event, const char *instance, err_t *e, err_t **first)
{
	bool away = err_code(e) == ERR_UNAVAILABLE || err_code(e) == ERR_UNKNOWN;
	log_kv(LOG_WARN, event, "sandbox", instance, "err", err_message(e), NULL);
	err_move(*first ? NULL : first, e);
	return away;
}

int sandboxes_go_on(struct domain *d, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *first = NULL;
	if (!domain_persistent(d))
		return 0;
	if (db_sandboxes_moving(d->db, d->backend, GO_ON_AFTER_MS, d->limits.batch, &r, err) < 0)
		return -1;
	for (int i = 0; i < db_rows(r); i++) {
		err_t *e = NULL;
		if (sandbox_go_on(d, r, i, 0, &e) < 0 && note("sandbox_in_doubt", db_str(r, i, SANDBOX_INSTANCE), e, &first))
			break;
	}
	return first ? err_move(err, first) : db_rows(r);
}

static int pause_one(struct domain *d, const char *user, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct db_origin o = { .user_id = user, .source = "janitor" };
	FAULT_POINT(idle_pause_before_row);
	if (db_sandbox_pause(d->db, d->backend, d->limits.sandbox_idle_ms, d->limits.sandbox_stale_ms, &o, &r, err) < 0)
		return -1;
	FAULT_POINT(idle_pause_after_row);
	if (!str_eq(db_str(r, 0, 0), "pausing"))
		return 0;   /* somebody came first */
	return sandbox_tell_pause(d, db_str(r, 0, SANDBOX_ANSWER_AT + SANDBOX_INSTANCE), 0, err);
}

int sandboxes_pause_idle(struct domain *d, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *first = NULL;
	if (!domain_persistent(d))
		return 0;
	if (db_sandboxes_idle(d->db, d->backend, d->limits.sandbox_idle_ms, d->limits.batch, &r, err) < 0)
		return -1;
	for (int i = 0; i < db_rows(r); i++) {
		err_t *e = NULL;
		if (pause_one(d, db_str(r, i, SANDBOX_USER), &e) < 0 && note("idle_pause_failed", db_str(r, i, SANDBOX_INSTANCE), e, &first))
			break;
	}
	return first ? err_move(err, first) : db_rows(r);
}

int sandboxes_keep(struct domain *d, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *first = NULL;
	if (!domain_persistent(d))
		return 0;
	if (db_sandboxes_to_keep(d->db, d->backend, d->limits.sandbox_keepalive_ms, d->limits.batch, &r, err) < 0)
		return -1;
	for (int i = 0; i < db_rows(r); i++) {
		err_t *e = NULL;
		if (sandbox_tell_keep(d, db_str(r, i, SANDBOX_INSTANCE), d->limits.sandbox_idle_ms, &e) == 0)
			continue;
		/* It is being paused or has vanished: its reports say so. */
		if (err_code(e) == ERR_CONFLICT)
			err_free(e);
		else if (note("keepalive_failed", db_str(r, i, SANDBOX_INSTANCE), e, &first))
			break;
	}
	return first ? err_move(err, first) : db_rows(r);
}

int sandboxes_retire(struct domain *d, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *first = NULL;
	/* The executor of another provider would say that it is gone. */
	if (!domain_persistent(d))
		return 0;
	if (db_instances_retired(d->db, d->backend, d->limits.batch, HOLD_MS, &r, err) < 0)
		return -1;
	for (int i = 0; i < db_rows(r); i++) {
		err_t *e = NULL;
		if (sandbox_tell_destroy(d, db_str(r, i, 0), &e) < 0 && note("retire_failed", db_str(r, i, 0), e, &first))
			break;
	}
	return first ? err_move(err, first) : db_rows(r);
}
