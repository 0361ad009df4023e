#include "domain/command_end.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "core/crypto.h"
#include "db/db_array.h"
#include "db/db_commands.h"
#include "domain/audit.h"
#include "domain/cleanup.h"
#include "domain/executor_client.h"

#define BATCH_BYTES (512u << 20)   /* PostgreSQL takes messages below 1 GiB */

static const char *const copied[] = { "id", "status", "reason", "timeout", "exit_code", "signal", "process_group", "started_at", "ended_at", "duration_ms", "stdout_bytes",
	"stderr_bytes", "stdout_truncated", "stderr_truncated" };

static int no_memory(err_t **err)
{
	return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a batch of reports");
}

int ends_begin(struct ends *e, size_t expected, err_t **err)
{
	memset(e, 0, sizeof *e);
	e->expected = expected;
	db_array_begin(&e->out, BATCH_BYTES, expected);
	db_array_begin(&e->err, BATCH_BYTES, expected);
	e->items = json_object_new_array();
	return e->items ? 0 : no_memory(err);
}

void ends_free(struct ends *e)
{
	json_object_put(e->items);
	buf_free(&e->out);
	buf_free(&e->err);
	e->items = NULL;
}

/* A text of the executor's Command as the bytes that it stands for; absent: NULL in the array. */
static int add_bytes(struct buf *array, const json_t *command, const char *key, const char *encoding_key, err_t **err)
{
	const char *text = NULL, *encoding = "utf-8";
	size_t n = 0;
	if (json_get_mem(command, key, false, &text, &n, err) < 0 || json_get_str(command, encoding_key, false, &encoding, err) < 0)
		return -1;
	if (!text || str_eq(encoding, "utf-8")) {
		db_array_add(array, text, n);
		return 0;
	}
	size_t len = 0;
	cleanup_free char *raw = malloc(n + 1);
	if (!raw)
		return no_memory(err);
	if (crypto_base64_decode(text, n, raw, n + 1, &len) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "the executor's base64 is malformed");
	db_array_add(array, raw, len);
	return 0;
}

static int copy_error(json_t *to, const json_t *command)
{
	const json_t *e = NULL;
	const char *code = NULL, *message = NULL;
	if (json_get_obj(command, "error", false, &e, NULL) < 0 || !e)
		return 0;
	(void)json_get_str(e, "code", false, &code, NULL);
	(void)json_get_str(e, "message", false, &message, NULL);
	return json_add_str(to, "error_code", code) | json_add_str(to, "error_message", message);
}

static int push(struct ends *e, json_t *item, err_t **err)
{
	if (json_object_array_add(e->items, item) != 0) {
		json_object_put(item);
		return no_memory(err);
	}
	e->n++;
	return 0;
}

int ends_add(struct ends *e, const json_t *command, err_t **err)
{
	cleanup_json json_t *item = json_object_new_object();
	int bad = item ? 0 : -1;
	const char *id = NULL;
	if (json_get_str(command, "id", true, &id, err) < 0)
		return -1;
	if (!id_valid(id))
		return err_set(err, ERR_INTERNAL, NULL, "the executor reports a command whose id is no UUID");
	for (size_t i = 0; !bad && i < sizeof copied / sizeof *copied; i++) {
		json_t *v = NULL;
		if (json_object_object_get_ex(command, copied[i], &v))
			bad |= json_add(item, copied[i], json_object_get(v));
	}
	if (bad || copy_error(item, command) < 0)
		return no_memory(err);
	if (add_bytes(&e->out, command, "stdout", "stdout_encoding", err) < 0 || add_bytes(&e->err, command, "stderr", "stderr_encoding", err) < 0)
		return -1;
	return push(e, steal_ptr(&item), err);
}

int ends_add_lost(struct ends *e, const char *command_id, err_t **err)
{
	cleanup_json json_t *item = json_object_new_object();
	if (!item || json_add_str(item, "id", command_id) | json_add_str(item, "status", "lost") | json_add_str(item, "reason", "lost"))
		return no_memory(err);
	db_array_add(&e->out, NULL, 0);
	db_array_add(&e->err, NULL, 0);
	return push(e, steal_ptr(&item), err);
}

int ends_commit(struct domain *d, struct ends *e, struct db_result **ret, err_t **err)
{
	if (e->n != e->expected || buf_failed(&e->out) || buf_failed(&e->err))
		return no_memory(err);
	const char *items = json_text(e->items, NULL);
	if (!items)
		return no_memory(err);
	FAULT_POINT(ends_before_row);
	if (db_commands_record(d->db, items, e->out.data, e->out.len, e->err.data, e->err.len, ret, err) < 0)
		return -1;
	FAULT_POINT(ends_after_row);
	return 0;
}

void ends_follow(struct domain *d, const struct db_result *r)
{
	bool away = false;
	for (int i = 0; i < db_rows(r) && !away; i++) {
		cleanup_err err_t *e = NULL;
		const char *id = db_str(r, i, RECORD_ID);
		int rc;
		if (str_eq(db_str(r, i, RECORD_WHAT), "stray")) {
			log_kv(LOG_WARN, "stray_command_killed", "command", id, NULL);
			rc = executor_client_kill(d->executor, id, NULL, "cancelled", &e);
			audit_own(d, "command.kill_stray", id, rc < 0 ? err_detail(e) : "ok");
		} else {
			rc = cleanup_run(d, id, &e);
		}
		away = rc < 0 && (err_code(e) == ERR_UNAVAILABLE || err_code(e) == ERR_UNKNOWN);
	}
}

/* The executor said that the command is over or unknown to it: nothing is left to kill. */
static bool kill_is_moot(const err_t *e)
{
	return err_code(e) == ERR_CONFLICT || err_code(e) == ERR_NOT_FOUND;
}

int command_end_kill_open(struct domain *d, const char *run_id, const char *reason, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_commands_open_of(d->db, run_id, &r, err) < 0)
		return -1;
	for (int i = 0; i < db_rows(r); i++) {
		err_t *e = NULL;
		FAULT_POINT(cancel_before_call);
		if (executor_client_kill(d->executor, db_str(r, i, OPEN_ID), db_str(r, i, OPEN_INSTANCE), reason, &e) < 0 && !kill_is_moot(e))
			return err_move(err, e);
		FAULT_POINT(cancel_after_call);
		err_free(e);
	}
	return db_rows(r);
}

/* 1: *ret has the executor's final word. 0: it knows the command, which has no end yet. ERR_NOT_FOUND: it does not know it. */
static int final_word(struct domain *d, const char *command_id, json_t **ret, err_t **err)
{
	cleanup_json json_t *c = NULL;
	const char *status = "";
	if (executor_client_command_get(d->executor, command_id, true, &c, err) < 0 || json_get_str(c, "status", true, &status, err) < 0)
		return -1;
	if (!str_eq(status, "exited") && !str_eq(status, "lost"))
		return 0;
	*ret = steal_ptr(&c);
	return 1;
}

int command_end_settle_one(struct domain *d, const char *command_id, struct db_result **ret, err_t **err)
{
	cleanup_ends struct ends batch = { 0 };
	cleanup_json json_t *c = NULL;
	err_t *e = NULL;
	int rc = final_word(d, command_id, &c, &e);
	if (rc == 0)
		return 1;
	bool unknown = rc < 0 && err_code(e) == ERR_NOT_FOUND;
	if (rc < 0 && !unknown)
		return err_move(err, e);
	err_free(e);
	if (ends_begin(&batch, 1, err) < 0)
		return -1;
	if ((unknown ? ends_add_lost(&batch, command_id, err) : ends_add(&batch, c, err)) < 0)
		return -1;
	return ends_commit(d, &batch, ret, err);
}

int command_end_settle(struct domain *d, const char *run_id, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	int left = 0;
	if (db_commands_open_of(d->db, run_id, &r, err) < 0)
		return -1;
	for (int i = 0; i < db_rows(r); i++) {
		int rc = command_end_settle_one(d, db_str(r, i, OPEN_ID), NULL, err);
		if (rc < 0)
			return -1;
		left += rc;
	}
	return left;
}
