/* db_runs.h - Runs, attempts, leases. Times come as timestamptz: db_time(). */
#ifndef PADDOCK_DB_DB_RUNS_H
#define PADDOCK_DB_DB_RUNS_H

#include "db/db.h"

/* Who acts: for the audit and for whose things they are. Empty strings become NULL. */
struct db_origin {
	const char *actor_id, *user_id, *token_id, *request_id, *source;
};
#define DB_ORIGIN_PARAMS 5
void db_add_origin(struct db_params *p, const struct db_origin *o);

/* Columns of a Run, from the column at which they start. */
enum run_col {
	RUN_ID, RUN_THREAD, RUN_STATUS, RUN_ATTEMPT, RUN_BACKEND, RUN_PROJECT, RUN_WORKDIR, RUN_INPUT, RUN_METADATA, RUN_CLEANUP, RUN_LEASE_OWNER,
	RUN_LEASE_EXPIRES, RUN_ERROR_CODE, RUN_ERROR_MESSAGE, RUN_CREATED, RUN_STARTED, RUN_ENDED, RUN_SUCCESSOR, RUN_TIMEOUT, RUN_LEASE_NONCE, RUN_COLS
};
/* SQL for them; R is a string literal that names the row. */
#define DB_RUN_COLUMNS(R) R ".id, " R ".thread_id, " R ".status, " R ".attempt, " R ".backend, " R ".project_id, " R ".workdir, " R ".input, " R ".metadata, " \
	R ".cleanup_pending, " R ".lease_owner, " R ".lease_expires_at, " R ".error_code, " R ".error_message, " R ".created_at, " \
	R ".started_at, " R ".ended_at, " R ".successor_id, " R ".timeout_ms, " R ".lease_nonce"

struct db_lease {
	const char *worker;      /* NULL: no lease is wanted */
	int64_t lease_ms;
	const char *nonce;
	const void *hash;        /* of the token; NULL: none */
	size_t hash_len;
};

struct db_idem {
	const char *key;         /* NULL: none */
	const void *body_hash;
	size_t body_hash_len;
};

struct db_run_new {
	const char *id, *thread, *backend, *workdir, *input, *metadata;   /* input and metadata: JSON text or NULL */
	int64_t timeout_ms, max_attempts;
};

/* Each gives one row: the result word (see sql/) in column 0, the Run from column RUN_ANSWER_AT on (NULL unless it went well). */
#define RUN_ANSWER_AT 1
int db_run_create(struct db *d, const struct db_run_new *n, const struct db_lease *l, const struct db_idem *i, const struct db_origin *o, struct db_result **ret, err_t **err);
int db_run_claim(struct db *d, const char *thread, const struct db_lease *l, const struct db_origin *o, struct db_result **ret, err_t **err);
int db_run_heartbeat(struct db *d, const char *run, const struct db_lease *l, const char *user, struct db_result **ret, err_t **err);
int db_run_finish(struct db *d, const char *run, const struct db_lease *l, const char *status, const char *code, const char *message, const struct db_origin *o,
	struct db_result **ret, err_t **err);
int db_run_cancel(struct db *d, const char *run, const struct db_origin *o, struct db_result **ret, err_t **err);
/* input: JSON text. Behind the Run's columns its successor's, from RUN_SUCCESSOR_AT on; of a Run that has ended its own alone. */
#define RUN_SUCCESSOR_AT (RUN_ANSWER_AT + RUN_COLS)
int db_run_steer(struct db *d, const char *run, const char *successor, const char *input, const struct db_idem *i, const struct db_origin *o, struct db_result **ret, err_t **err);

/* Run columns from 0 on. */
int db_run_get(struct db *d, const char *run, const char *user, struct db_result **ret, err_t **err);
/* Pages end early when their rows have so many bytes: a page of large rows must fit in an answer, even where each byte is escaped with six. */
#define DB_PAGE_BYTES "4194304"
/* SQL for the rows of a page: those of INNER (which ends in LIMIT) before which fewer bytes stand, and page_rows, how many INNER gave. */
#define DB_PAGE(INNER, BYTES, ORDER) "(SELECT * FROM (SELECT p.*, count(*) OVER () AS page_rows, " \
	"sum(" BYTES ") OVER (ORDER BY " ORDER " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_bytes FROM (" INNER ") p) q " \
	"WHERE coalesce(q.before_bytes, 0) < " DB_PAGE_BYTES ")"
/* Newest first, below `before` (an id; NULL: all). Column RUN_COLS says how many rows there were before the page's bytes were looked at. */
int db_run_list(struct db *d, const char *user, const char *thread, const char *status, const char *before, int64_t limit, struct db_result **ret, err_t **err);

#endif
