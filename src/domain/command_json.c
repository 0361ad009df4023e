#include "domain/command_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "core/crypto.h"
#include "domain/run_json.h"

#define ARGV_TEXT_MAX (8u << 20)

int command_json_text(json_t *o, const char *key, const char *encoding_key, const void *p, size_t n)
{
	if (utf8_valid(p, n))
		return json_add_mem(o, key, p, n) | json_add_str(o, encoding_key, "utf-8");
	size_t len = 0;
	cleanup_free char *text = crypto_base64(p, n, &len);
	if (!text)
		return -1;
	return json_add_mem(o, key, text, len) | json_add_str(o, encoding_key, "base64");
}

static int add_number(json_t *o, const char *key, const struct db_result *r, int row, int col)
{
	return db_null(r, row, col) ? json_add_null(o, key) : json_add_i64(o, key, db_i64(r, row, col));
}

static int add_what(json_t *o, const struct db_result *r, int row)
{
	const char *argv = db_str(r, row, COMMAND_ARGV);
	if (!argv)
		return json_add_str(o, "command", db_str(r, row, COMMAND_TEXT));
	json_t *v = json_parse(argv, strlen(argv), ARGV_TEXT_MAX, 4, NULL);
	return v ? json_add(o, "argv", v) : -1;
}

static int add_error(json_t *o, const struct db_result *r, int row)
{
	if (db_null(r, row, COMMAND_ERROR_CODE))
		return json_add_null(o, "error");
	json_t *e = json_object_new_object();
	if (!e || json_add_str(e, "code", db_str(r, row, COMMAND_ERROR_CODE)) | json_add_str(e, "message", db_str(r, row, COMMAND_ERROR_MESSAGE))) {
		json_object_put(e);
		return -1;
	}
	return json_add(o, "error", e);
}

static int add_text(json_t *o, const char *key, const char *encoding_key, const struct db_result *r, int row, int col)
{
	cleanup_free char *p = NULL;
	size_t n = 0;
	if (db_bytes(r, row, col, &p, &n, NULL) < 0)
		return -1;
	return command_json_text(o, key, encoding_key, p ? p : "", n);
}

static int fill(json_t *o, const struct db_result *r, int row, bool texts)
{
	int bad = 0;
	bad |= json_add_str(o, "id", db_str(r, row, COMMAND_ID));
	bad |= json_add_str(o, "run_id", db_str(r, row, COMMAND_RUN));
	bad |= json_add_i64(o, "attempt", db_i64(r, row, COMMAND_ATTEMPT));
	bad |= add_what(o, r, row);
	bad |= json_add_str(o, "cwd", db_str(r, row, COMMAND_CWD));
	bad |= json_add_i64(o, "timeout_ms", db_i64(r, row, COMMAND_TIMEOUT));
	bad |= json_add_str(o, "status", db_str(r, row, COMMAND_STATUS));
	bad |= json_add_str(o, "reason", db_str(r, row, COMMAND_REASON));
	bad |= json_add_str(o, "timeout", db_str(r, row, COMMAND_TIMER));
	bad |= add_number(o, "exit_code", r, row, COMMAND_EXIT);
	bad |= add_number(o, "signal", r, row, COMMAND_SIGNAL);
	bad |= add_number(o, "process_group", r, row, COMMAND_PGID);
	bad |= run_json_time(o, "started_at", r, row, COMMAND_STARTED);
	bad |= run_json_time(o, "ended_at", r, row, COMMAND_ENDED);
	bad |= add_number(o, "duration_ms", r, row, COMMAND_DURATION);
	if (texts) {
		bad |= add_text(o, "stdout", "stdout_encoding", r, row, COMMAND_OUT);
		bad |= add_text(o, "stderr", "stderr_encoding", r, row, COMMAND_ERR);
	}
	bad |= json_add_i64(o, "stdout_bytes", db_i64(r, row, COMMAND_OUT_BYTES));
	bad |= json_add_i64(o, "stderr_bytes", db_i64(r, row, COMMAND_ERR_BYTES));
	bad |= json_add_bool(o, "stdout_truncated", db_bool(r, row, COMMAND_OUT_CUT));
	bad |= json_add_bool(o, "stderr_truncated", db_bool(r, row, COMMAND_ERR_CUT));
	bad |= add_error(o, r, row);
	return bad;
}

json_t *command_json(const struct db_result *r, int row, bool texts, err_t **err)
{
	json_t *o = json_object_new_object();
	if (!o || fill(o, r, row, texts)) {
		json_object_put(o);
		err_set(err, ERR_NO_MEMORY, NULL, "no memory for a command");
		return NULL;
	}
	return o;
}
