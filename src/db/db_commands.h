/* db_commands.h - sandbox_commands. Times come as timestamptz: db_time(). */
#ifndef PADDOCK_DB_DB_COMMANDS_H
#define PADDOCK_DB_DB_COMMANDS_H

#include "db/db.h"
#include "db/db_runs.h"

struct db_command_new {
	const char *id;
	const char *command, *argv;      /* one of them; argv is JSON text */
	const char *cwd;                 /* NULL: the Run's workdir */
	int64_t timeout_ms;
	bool background;
	int64_t max_run, max_user, max_all;
	int64_t max_user_instances, max_all_instances;
	const char *stage;               /* NULL: none */
	int64_t stage_ms;                /* in place of timeout_ms: what the stage has in all; 0: timeout_ms holds */
	const char *scope;               /* a fresh id, for an attempt that has none yet in its user's sandbox */
	const char *kind;                /* command, file, verify; NULL: command */
	const char *provider;            /* of sandboxes that outlive Runs; NULL: each attempt has one of its own */
	int64_t stale_ms;                /* an operation on the sandbox without progress for so long has to be asked for first */
	bool renew;                      /* a sandbox that is no more is replaced */
};

/* One row: the result word, then what the executor needs. */
enum { START_RESULT, START_COMMAND, START_RUN, START_ATTEMPT, START_INSTANCE, START_CWD, START_WORKDIR, START_TIMEOUT, START_ENDED, START_SCOPE, START_PREVIOUS,
	START_FRESH };
int db_command_start(struct db *d, const char *run, const struct db_lease *l, const char *instance, const char *workspace, const struct db_command_new *n,
	const struct db_idem *i, const struct db_origin *o, struct db_result **ret, err_t **err);

struct db_execute {
	const char *run, *instance, *workspace, *backend, *workdir;
	int64_t timeout_ms;
};
int db_execute_start(struct db *d, const struct db_execute *x, const struct db_command_new *n, const struct db_idem *i, const struct db_origin *o,
	struct db_result **ret, err_t **err);

/* A second row for a command that was not started because its sandbox is no more; of n: id, scope, provider, stale_ms. As db_command_start. */
int db_command_again(struct db *d, const char *first, const char *instance, const char *workspace, const struct db_command_new *n, const struct db_origin *o,
	struct db_result **ret, err_t **err);

/* For good refused: gives the ids of Runs that ended with it (column 0). */
int db_command_refused(struct db *d, const char *command, const char *code, const char *message, struct db_result **ret, err_t **err);

enum command_col {
	COMMAND_ID, COMMAND_RUN, COMMAND_ATTEMPT, COMMAND_STATUS, COMMAND_REASON, COMMAND_EXIT, COMMAND_SIGNAL, COMMAND_PGID, COMMAND_TEXT, COMMAND_ARGV, COMMAND_CWD,
	COMMAND_TIMEOUT, COMMAND_STARTED, COMMAND_ENDED, COMMAND_DURATION, COMMAND_OUT_BYTES, COMMAND_ERR_BYTES, COMMAND_OUT_CUT, COMMAND_ERR_CUT,
	COMMAND_ERROR_CODE, COMMAND_ERROR_MESSAGE, COMMAND_INSTANCE, COMMAND_TIMER, COMMAND_COLS, COMMAND_OUT = COMMAND_COLS, COMMAND_ERR,
	COMMAND_PAGE_ROWS = COMMAND_COLS
};
/* With COMMAND_OUT and COMMAND_ERR. */
int db_command_get(struct db *d, const char *command, const char *user, struct db_result **ret, err_t **err);
/* One row: has it an end (bool), and its instance. None when the user has no such command. */
enum { PEEK_ENDED, PEEK_INSTANCE };
int db_command_peek(struct db *d, const char *command, const char *user, struct db_result **ret, err_t **err);
/* Without; oldest first, above `after` (an id; NULL: all). Pages end early when their rows are large; COMMAND_PAGE_ROWS says how many there were. */
int db_command_list(struct db *d, const char *run, const char *user, const char *after, int64_t limit, struct db_result **ret, err_t **err);

/* Open commands (without an end), as the columns id, run id, status, instance id: of one Run, or all that are older than age_ms, above `after`. */
enum { OPEN_ID, OPEN_RUN, OPEN_STATUS, OPEN_INSTANCE };
int db_commands_open_of(struct db *d, const char *run, struct db_result **ret, err_t **err);
int db_commands_open(struct db *d, int64_t age_ms, const char *after, int64_t limit, struct db_result **ret, err_t **err);

/* See commands_record in sql/. Rows ('ended', run) and ('stray', command). */
enum { RECORD_WHAT, RECORD_ID };
int db_commands_record(struct db *d, const char *items_json, const void *out, size_t out_len, const void *errs, size_t errs_len, struct db_result **ret, err_t **err);

#endif
