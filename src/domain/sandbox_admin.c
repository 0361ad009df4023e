#include "domain/sandbox_admin.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "db/db_sandbox_admin.h"
#include "domain/answer.h"
#include "domain/audit.h"
#include "domain/check.h"
#include "domain/run_json.h"

#define LEFT_MAX 10000
#define TEXT_MAX 1024

static int add_text(json_t *list, const char *text)
{
	json_t *v = json_object_new_string(text);

	if (!v || json_object_array_add(list, v) < 0) {
		json_object_put(v);
		return -1;
	}
	return 0;
}

static int add_counted(json_t *list, const char *format, int64_t n)
{
	char text[TEXT_MAX];

	if (n == 0)
		return 0;
	snprintf(text, sizeof text, "%lld %s", (long long)n, format);
	return add_text(list, text);
}

/* Reasons why it does not do what its user expects of it. */
static json_t *stuck_json(const struct domain *d, const struct db_result *r, int i)
{
	json_t *list = json_object_new_array();
	const char *code = db_str(r, i, SBA_ERROR_CODE), *message = db_str(r, i, SBA_ERROR_MESSAGE);
	char text[TEXT_MAX];
	int bad = list ? 0 : -1;

	if (!bad && db_i64(r, i, SBA_STILL_MS) > d->limits.sandbox_stale_ms) {
		snprintf(text, sizeof text, "%s without progress for %lld s", db_str(r, i, SBA_STATE), (long long)(db_i64(r, i, SBA_STILL_MS) / 1000));
		bad = add_text(list, text);
	}
	if (!bad && code) {
		snprintf(text, sizeof text, "%s: %s", code, message ? message : "");
		bad = add_text(list, text);
	}
	if (!bad && !str_eq(db_str(r, i, SBA_PROVIDER), d->backend) && !str_eq(db_str(r, i, SBA_STATE), "none"))
		bad = add_text(list, "of another provider than the configured one");
	if (!bad)
		bad = add_counted(list, "former instance(s) not gone yet", db_i64(r, i, SBA_LEFT)) | add_counted(list, "Run(s) not cleaned up", db_i64(r, i, SBA_CLEANUPS));
	if (!bad)
		return list;
	json_object_put(list);
	return NULL;
}

static json_t *sandbox_row(const struct domain *d, const struct db_result *r, int i)
{
	json_t *o = json_object_new_object(), *stuck = stuck_json(d, r, i);
	int bad = o && stuck ? 0 : -1;

	if (!bad) {
		bad |= json_add_str(o, "user", db_str(r, i, SBA_USER)) | json_add_str(o, "provider", db_str(r, i, SBA_PROVIDER));
		bad |= json_add_str(o, "state", db_str(r, i, SBA_STATE)) | json_add_i64(o, "generation", db_i64(r, i, SBA_GENERATION));
		bad |= json_add_str(o, "instance_id", db_str(r, i, SBA_INSTANCE)) | json_add_str(o, "provider_ref", db_str(r, i, SBA_REF));
		bad |= run_json_time(o, "since", r, i, SBA_SINCE) | run_json_time(o, "last_activity_at", r, i, SBA_ACTIVITY);
		bad |= run_json_time(o, "keep_until", r, i, SBA_KEEP_UNTIL) | run_json_time(o, "created_at", r, i, SBA_CREATED);
		bad |= json_add_i64(o, "lock_version", db_i64(r, i, SBA_VERSION)) | json_add_str(o, "error", db_str(r, i, SBA_ERROR_CODE));
		bad |= json_add(o, "stuck", steal_ptr(&stuck));
	}
	if (!bad)
		return o;
	json_object_put(stuck);
	json_object_put(o);
	return NULL;
}

int sandbox_admin_list(struct domain *d, const char *user, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_sandboxes(d->db, user, &r, err) < 0)
		return -1;
	cleanup_json json_t *list = json_object_new_array();
	for (int i = 0; list && i < db_rows(r); i++) {
		json_t *o = sandbox_row(d, r, i);
		if (!o || json_object_array_add(list, o) < 0) {
			json_object_put(o);
			return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a list");
		}
	}
	if (!list)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a list");
	*ret = steal_ptr(&list);
	return 0;
}

/* NULL for one that is merely on its way. */
static const char *advice_of(const struct db_result *r, int i, char text[TEXT_MAX])
{
	const char *id = db_str(r, i, SBI_ID), *why = db_str(r, i, SBI_ERROR);

	if (db_null(r, i, SBI_QUARANTINED))
		return NULL;
	if (db_bool(r, i, SBI_STRANGER))
		snprintf(text, TEXT_MAX, "No row knows it, as after the database was restored from a backup; nobody destroys it, for it may hold its user's things. Save what is "
			"wanted, remove it at its provider, then: paddockctl sandboxes retire %s", id);
	else if (why)
		snprintf(text, TEXT_MAX, "It could not be removed in %lld tries: %.400s. It is tried again by itself: mend that, or remove it by hand at its provider. When nothing of it "
			"is left: paddockctl sandboxes retire %s", (long long)db_i64(r, i, SBI_TRIES), why, id);
	else
		snprintf(text, TEXT_MAX, "It is being removed. If it stays: see the executor's log for it, remove it by hand at its provider, and when nothing of it is left: "
			"paddockctl sandboxes retire %s", id);
	return text;
}

static json_t *left_row(const struct db_result *r, int i)
{
	json_t *o = json_object_new_object();
	char text[TEXT_MAX];
	int bad = o ? 0 : -1;

	if (!bad) {
		bad |= json_add_str(o, "id", db_str(r, i, SBI_ID)) | json_add_str(o, "user", db_str(r, i, SBI_USER));
		bad |= json_add_i64(o, "generation", db_i64(r, i, SBI_GENERATION)) | run_json_time(o, "created_at", r, i, SBI_CREATED);
		bad |= run_json_time(o, "retired_at", r, i, SBI_RETIRED) | run_json_time(o, "quarantined_at", r, i, SBI_QUARANTINED);
		bad |= json_add_i64(o, "tries", db_i64(r, i, SBI_TRIES)) | json_add_str(o, "error", db_str(r, i, SBI_ERROR));
		bad |= json_add_str(o, "advice", advice_of(r, i, text));
	}
	if (!bad)
		return o;
	json_object_put(o);
	return NULL;
}

int sandbox_admin_left(struct domain *d, const char *user, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	return db_instances_left(d->db, user, false, NULL, LEFT_MAX, &r, err) < 0 ? -1 : answer_list(r, left_row, ret, err);
}

int sandbox_admin_quarantine(struct domain *d, const struct sandbox_page *q, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	int64_t limit;
	if (q->cursor && !id_valid(q->cursor))
		return err_set(err, ERR_INVALID, "bad_cursor", "cursor is not one that was given");
	if (check_limit(q->limit, &limit, err) < 0 || db_instances_left(d->db, NULL, true, q->cursor, limit + 1, &r, err) < 0)
		return -1;
	cleanup_json json_t *items = json_object_new_array();
	bool more;
	int n = answer_page(db_rows(r), limit, db_rows(r), &more);
	for (int i = 0; items && i < n; i++) {
		json_t *o = left_row(r, i);
		if (!o || json_object_array_add(items, o) < 0) {
			json_object_put(o);
			return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a list");
		}
	}
	return answer_items(steal_ptr(&items), more ? db_str(r, n - 1, SBI_ID) : NULL, ret, err);
}

int sandbox_admin_retry(struct domain *d, const struct caller *by, const char *user, err_t **err)
{
	bool found = false;
	if (db_sandbox_retry(d->db, user, &found, err) < 0)
		return -1;
	if (!found)
		return answer_not_found("user", err);
	return audit_write(d, by, "sandbox.retry", user, "ok", err);
}
