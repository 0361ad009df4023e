#include "domain/runs.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "domain/answer.h"
#include "domain/check.h"
#include "domain/cleanup.h"
#include "domain/command_end.h"
#include "domain/idempotency_db.h"
#include "domain/lease.h"
#include "domain/run_json.h"

#define TRIES 4
#define ERROR_CODE_MAX 64
#define ERROR_MESSAGE_MAX 4096

static const char *const statuses[] = { "pending", "running", "cancel_requested", "completed", "failed", "cancelled", "yielded" };

/* The Run of an answer, and the token of its lease when it has one and the caller may see it. */
static int give(struct domain *d, const struct db_result *r, const char *user, json_t **ret, char *token, err_t **err)
{
	json_t *run = run_json(r, 0, RUN_ANSWER_AT, user, err);
	if (!run)
		return -1;
	if (token) {
		const char *nonce = db_str(r, 0, RUN_ANSWER_AT + RUN_LEASE_NONCE);
		token[0] = 0;
		if (nonce)
			lease_token(d, nonce, token);
	}
	*ret = run;
	return 0;
}

static int check_new(const struct domain *d, const struct run_new *n, struct db_run_new *row, char **workdir, err_t **err)
{
	if (check_name(n->thread_id, RUN_THREAD_MAX, "bad_thread_id", "thread_id", err) < 0 ||
			check_path(n->workdir ? n->workdir : CHECK_WORKSPACE, true, "bad_workdir", workdir, err) < 0 ||
			check_timeout(n->has_timeout, n->timeout_ms, d->limits.run_timeout_ms, d->limits.run_timeout_ms, &row->timeout_ms, err) < 0)
		return -1;
	if (n->metadata && !json_object_is_type(n->metadata, json_type_object))
		return err_set(err, ERR_REFUSED, "bad_metadata", "metadata must be an object");
	row->thread = n->thread_id;
	row->workdir = *workdir;
	row->backend = d->backend;
	row->max_attempts = d->limits.max_attempts;
	row->input = n->input ? json_text((json_t *)n->input, NULL) : NULL;
	row->metadata = n->metadata ? json_text((json_t *)n->metadata, NULL) : NULL;
	return 0;
}

int runs_create(struct domain *d, const struct caller *c, const struct run_new *n, json_t **ret, char token[LEASE_TOKEN_SIZE], err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	cleanup_free char *workdir = NULL;
	char id[ID_SIZE];
	struct db_run_new row = { .id = id };
	struct db_origin o = answer_origin(c);
	struct idempotency_hash idem;
	struct lease lease;
	if (check_new(d, n, &row, &workdir, err) < 0 || lease_offer(d, n->claim, &lease, err) < 0 || idempotency_check(d, &n->idempotency, &idem, err) < 0)
		return -1;
	id_v7(id);
	FAULT_POINT(create_before_row);
	err_t *e = NULL;
	for (int tries = TRIES; db_run_create(d->db, &row, &lease.db, &idem.db, &o, &r, &e) < 0;)
		if (!answer_again(&tries, n->idempotency.key, &e))
			return err_move(err, e);
	FAULT_POINT(create_after_row);
	return answer_check(db_str(r, 0, 0), err) < 0 ? -1 : give(d, r, c->user, ret, token, err);
}

int runs_get(struct domain *d, const struct caller *c, const char *run_id, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (!id_valid(run_id))
		return answer_not_found("Run", err);
	if (db_run_get(d->db, run_id, c->user_id, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0)
		return answer_not_found("Run", err);
	json_t *run = run_json(r, 0, 0, c->user, err);
	if (!run)
		return -1;
	*ret = run;
	return 0;
}

static bool status_known(const char *s)
{
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		if (str_eq(statuses[i], s))
			return true;
	return false;
}

static int check_list(const struct run_list *q, int64_t *limit, err_t **err)
{
	if (q->status && !status_known(q->status))
		return err_set(err, ERR_REFUSED, "bad_status", "status is none of a Run's");
	if (q->cursor && !id_valid(q->cursor))
		return err_set(err, ERR_INVALID, "bad_cursor", "cursor is not one that was given");
	if (q->thread_id && check_name(q->thread_id, RUN_THREAD_MAX, "bad_thread_id", "thread_id", err) < 0)
		return -1;
	return check_limit(q->limit, limit, err);
}

int runs_list(struct domain *d, const struct caller *c, const struct run_list *q, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	int64_t limit;
	if (check_list(q, &limit, err) < 0 || db_run_list(d->db, c->user_id, q->thread_id, q->status, q->cursor, limit + 1, &r, err) < 0)
		return -1;
	cleanup_json json_t *items = json_object_new_array();
	bool more = false;
	int n = db_rows(r) > 0 ? answer_page(db_rows(r), limit, db_i64(r, 0, RUN_COLS), &more) : 0;
	for (int i = 0; items && i < n; i++) {
		json_t *run = run_json(r, i, 0, c->user, err);
		if (!run)
			return -1;
		json_object_array_add(items, run);
	}
	return answer_items(steal_ptr(&items), more ? db_str(r, n - 1, RUN_ID) : NULL, ret, err);
}

int runs_claim(struct domain *d, const struct caller *c, const struct run_claim *cl, const char *thread_id, json_t **ret, char token[LEASE_TOKEN_SIZE], err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct db_origin o = answer_origin(c);
	struct lease lease;
	if (lease_offer(d, cl, &lease, err) < 0 || (thread_id && check_name(thread_id, RUN_THREAD_MAX, "bad_thread_id", "thread_id", err) < 0))
		return -1;
	FAULT_POINT(claim_before_row);
	err_t *e = NULL;
	for (int tries = TRIES; db_run_claim(d->db, thread_id, &lease.db, &o, &r, &e) < 0;)
		if (!answer_again(&tries, false, &e))
			return err_move(err, e);
	FAULT_POINT(claim_after_row);
	if (answer_check(db_str(r, 0, 0), err) < 0)
		return -1;
	if (str_eq(db_str(r, 0, 0), "nothing"))
		return 0;
	return give(d, r, c->user, ret, token, err) < 0 ? -1 : 1;
}

int runs_heartbeat(struct domain *d, const struct caller *c, const char *run_id, const char *lease_token, int64_t lease_ms, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct lease lease;
	if (!id_valid(run_id))
		return answer_not_found("Run", err);
	lease_present(d, lease_token ? lease_token : "", &lease);
	if (check_lease_ms(lease_ms, d->limits.lease_ms, d->limits.lease_max_ms, &lease.db.lease_ms, err) < 0)
		return -1;
	if (db_run_heartbeat(d->db, run_id, &lease.db, c->user_id, &r, err) < 0 || answer_check(db_str(r, 0, 0), err) < 0)
		return -1;
	cleanup_json json_t *o = json_object_new_object();
	if (!o || run_json_time(o, "expires_at", r, 0, RUN_ANSWER_AT + RUN_LEASE_EXPIRES) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for an answer");
	*ret = steal_ptr(&o);
	return 0;
}

static int check_finish(const struct run_finish *f, err_t **err)
{
	if (!f->status || (!str_eq(f->status, "completed") && !str_eq(f->status, "failed")))
		return err_set(err, ERR_REFUSED, "bad_status", "status must be completed or failed");
	if ((f->error_code || f->error_message) && str_eq(f->status, "completed"))
		return err_set(err, ERR_REFUSED, "bad_error", "a completed Run has no error");
	if (f->error_code && check_name(f->error_code, ERROR_CODE_MAX, "bad_error", "error.code", err) < 0)
		return -1;
	if (f->error_message && strlen(f->error_message) > ERROR_MESSAGE_MAX)
		return err_set(err, ERR_REFUSED, "bad_error", "error.message has at most %d bytes", ERROR_MESSAGE_MAX);
	return 0;
}

int runs_finish(struct domain *d, const struct caller *c, const char *run_id, const struct run_finish *f, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct db_origin o = answer_origin(c);
	struct lease lease;
	if (!id_valid(run_id))
		return answer_not_found("Run", err);
	if (check_finish(f, err) < 0)
		return -1;
	bool failed = str_eq(f->status, "failed");
	const char *code = !failed ? NULL : f->error_code ? f->error_code : "failed";
	lease_present(d, f->lease_token, &lease);
	FAULT_POINT(finish_before_row);
	err_t *e = NULL;
	for (int tries = TRIES; db_run_finish(d->db, run_id, &lease.db, f->status, code, failed ? f->error_message : NULL, &o, &r, &e) < 0;)
		if (!answer_again(&tries, false, &e))
			return err_move(err, e);
	FAULT_POINT(finish_after_row);
	if (answer_check(db_str(r, 0, 0), err) < 0)
		return -1;
	/* The duty is on record; asking at once only makes it sooner. */
	(void)cleanup_run(d, run_id, NULL);
	return give(d, r, c->user, ret, NULL, err);
}

int runs_cancel(struct domain *d, const struct caller *c, const char *run_id, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct db_origin o = answer_origin(c);
	if (!id_valid(run_id))
		return answer_not_found("Run", err);
	FAULT_POINT(cancel_before_row);
	err_t *e = NULL;
	for (int tries = TRIES; db_run_cancel(d->db, run_id, &o, &r, &e) < 0;)
		if (!answer_again(&tries, false, &e))
			return err_move(err, e);
	FAULT_POINT(cancel_after_row);
	const char *word = db_str(r, 0, 0);
	if (answer_check(word, err) < 0)
		return -1;
	if (str_eq(word, "requested"))
		(void)command_end_kill_open(d, run_id, "cancelled", NULL);
	else if (str_eq(word, "cancelled"))
		(void)cleanup_run(d, run_id, NULL);
	return give(d, r, c->user, ret, NULL, err);
}
