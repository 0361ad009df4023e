#include "domain/reports.h"

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "db/db_sweeps.h"
#include "domain/cleanup.h"
#include "domain/command_end.h"
#include "domain/executor_client.h"
#include "domain/sandbox_ask.h"

#define IDS_MAX (64u << 10)   /* at most 500 reports of 37 bytes */

/* A command that is merely queued is not worth a write. */
static const json_t *command_of(const json_t *report)
{
	const json_t *c = NULL;
	const char *status = "";
	if (json_get_obj(report, "command", false, &c, NULL) < 0 || !c || json_get_str(c, "status", true, &status, NULL) < 0)
		return NULL;
	return str_eq(status, "pending") ? NULL : c;
}

static size_t count_commands(const json_t *items)
{
	size_t n = 0;
	for (size_t i = 0; i < json_object_array_length(items); i++)
		n += command_of(json_object_array_get_idx(items, i)) != NULL;
	return n;
}

/* Reports from `from` up to `to`, in one durable commit. */
static int write_range(struct domain *d, const json_t *items, size_t from, size_t to, size_t expected, err_t **err)
{
	cleanup_ends struct ends batch = { 0 };
	cleanup_db_result struct db_result *r = NULL;
	if (expected == 0)
		return 0;
	if (ends_begin(&batch, expected, err) < 0)
		return -1;
	for (size_t i = from; i < to; i++) {
		const json_t *c = command_of(json_object_array_get_idx(items, i));
		if (c && ends_add(&batch, c, err) < 0)
			return -1;
	}
	if (ends_commit(d, &batch, &r, err) < 0)
		return -1;
	ends_follow(d, r);
	return 0;
}

/* Is it the database or the executor that fails, whatever the report? */
static bool is_outage(const err_t *e)
{
	enum err_code c = err_code(e);
	return c == ERR_UNAVAILABLE || c == ERR_UNKNOWN || c == ERR_BUSY || c == ERR_TIMEOUT;
}

/* One report that cannot be written must not hold up the others: it alone is left out, and comes again. */
static void leave_out(const json_t *report, bool *ok, err_t *why)
{
	const char *key = NULL;
	(void)json_get_str(report, "key", false, &key, NULL);
	log_kv(LOG_ERROR, "report_not_recorded", "report", key, "err", err_message(why), NULL);
	err_free(why);
	*ok = false;
}

static int write_singly(struct domain *d, const json_t *items, bool *ok, err_t **err)
{
	for (size_t i = 0; i < json_object_array_length(items); i++) {
		err_t *e = NULL;
		const json_t *report = json_object_array_get_idx(items, i);
		if (write_range(d, items, i, i + 1, command_of(report) != NULL, &e) == 0)
			continue;
		if (is_outage(e))
			return err_move(err, e);
		leave_out(report, &ok[i], e);
	}
	return 0;
}

static int write_commands(struct domain *d, const json_t *items, bool *ok, err_t **err)
{
	err_t *e = NULL;
	for (int tries = 0; tries < 3; tries++) {
		if (write_range(d, items, 0, json_object_array_length(items), count_commands(items), &e) == 0)
			return 0;
		if (err_code(e) != ERR_BUSY)
			break;
		err_free(steal_ptr(&e));
	}
	if (e && is_outage(e))
		return err_move(err, e);
	err_free(e);
	return write_singly(d, items, ok, err);
}

/* A sandbox that will never be ready, or ended by itself, ends its attempt. One that is gone confirms a clean-up. */
static int take_instance(struct domain *d, const json_t *inst, bool *away, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	const char *id = NULL, *state = "", *code = NULL, *message = "the sandbox ended by itself";
	const json_t *why = NULL;
	int64_t running_ms = 0;
	if (json_get_str(inst, "id", true, &id, err) < 0 || json_get_str(inst, "state", true, &state, err) < 0 ||
			json_get_i64(inst, "running_ms", false, 0, INT64_MAX, &running_ms, err) < 0)
		return -1;
	if (domain_persistent(d) && sandbox_take(d, inst, 0, err) < 0)
		return -1;
	bool failed = str_eq(state, "failed");
	if (failed || str_eq(state, "lost")) {
		if (json_get_obj(inst, "error", false, &why, NULL) == 0 && why)
			(void)json_get_str(why, "message", false, &message, NULL);
		code = failed ? "sandbox_failed" : "sandbox_lost";
		if (db_instance_lost(d->db, id, code, message, &r, err) < 0)
			return -1;
		log_kv(LOG_WARN, code, "sandbox", id, "err", message, NULL);
	} else if (!str_eq(state, "gone") || db_ledger_gone(d->db, id, running_ms, &r, err) < 0) {
		return str_eq(state, "gone") ? -1 : 0;
	}
	/* An executor that does not answer is not waited for again and again: the sweep goes on with it. */
	for (int i = 0; i < db_rows(r) && !*away; i++)
		*away = cleanup_run(d, db_str(r, i, 0), NULL) < 0;
	return 0;
}

static int acknowledge(struct domain *d, const json_t *items, const bool *ok, err_t **err)
{
	cleanup_json json_t *keys = json_object_new_array();
	if (!keys)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for acknowledgements");
	for (size_t i = 0; i < json_object_array_length(items); i++) {
		json_t *key = NULL;
		if (ok[i] && json_object_object_get_ex(json_object_array_get_idx(items, i), "key", &key))
			json_object_array_add(keys, json_object_get(key));
	}
	FAULT_POINT(reports_before_call);
	if (executor_client_ack(d->executor, keys, err) < 0)
		return -1;
	FAULT_POINT(reports_after_call);
	return 0;
}

/* A user's sandbox whose commands came and went was of use. */
static int note_use(struct domain *d, const json_t *items, err_t **err)
{
	cleanup_buf struct buf ids = BUF_INIT(IDS_MAX);
	if (!domain_persistent(d) || count_commands(items) == 0)
		return 0;
	buf_addf(&ids, "{");
	for (size_t i = 0; i < json_object_array_length(items); i++) {
		const char *id = NULL;
		const json_t *c = command_of(json_object_array_get_idx(items, i));
		if (c && json_get_str(c, "id", true, &id, NULL) == 0 && id_valid(id))
			buf_addf(&ids, "%s%s", ids.len > 1 ? "," : "", id);
	}
	buf_addf(&ids, "}");
	return buf_failed(&ids) ? err_set(err, ERR_NO_MEMORY, NULL, "no memory for reports") : db_sandbox_used(d->db, buf_str(&ids), err);
}

static int take_items(struct domain *d, const json_t *items, bool *ok, err_t **err)
{
	size_t n = json_object_array_length(items);
	bool away = false;
	for (size_t i = 0; i < n; i++)
		ok[i] = true;
	if (write_commands(d, items, ok, err) < 0 || note_use(d, items, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const json_t *inst = NULL, *report = json_object_array_get_idx(items, i);
		err_t *e = NULL;
		if (json_get_obj(report, "instance", false, &inst, NULL) < 0 || !inst || take_instance(d, inst, &away, &e) == 0)
			continue;
		if (is_outage(e))
			return err_move(err, e);
		leave_out(report, &ok[i], e);
	}
	return acknowledge(d, items, ok, err);
}

static size_t count_left_out(const bool *ok, size_t n)
{
	size_t left = 0;
	for (size_t i = 0; i < n; i++)
		left += !ok[i];
	return left;
}

int reports_take(struct domain *d, int64_t wait_ms, err_t **err)
{
	cleanup_json json_t *answer = NULL;
	const json_t *items = NULL;
	if (executor_client_reports(d->executor, wait_ms, d->limits.batch < 500 ? d->limits.batch : 500, &answer, err) < 0 ||
			json_get_arr(answer, "items", true, &items, err) < 0)
		return -1;
	size_t n = json_object_array_length(items);
	cleanup_free bool *ok = calloc(n + 1, sizeof *ok);
	if (!ok)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for reports");
	if (n == 0)
		return 0;
	if (take_items(d, items, ok, err) < 0)
		return -1;
	size_t left = count_left_out(ok, n);
	/* The same ones come again at once: the caller has to take its time. */
	return left ? err_set(err, ERR_INTERNAL, NULL, "%zu of %zu reports could not be recorded", left, n) : (int)n;
}
