/* db_conn.h - the inside of a connection; for src/db alone. */
#ifndef PADDOCK_DB_DB_CONN_H
#define PADDOCK_DB_DB_CONN_H

#include <libpq-fe.h>

#include "db/db.h"

#define DB_STMTS_MAX 96

struct db {
	PGconn *conn;                  /* NULL: none */
	char *conninfo, *user;
	int64_t connect_timeout_ms, statement_timeout_ms;
	bool any_schema;
	int64_t retry_at, backoff_ms;  /* CLOCK_BOOTTIME; no connection is tried before */
	const struct db_stmt *prepared[DB_STMTS_MAX];
	size_t n_prepared;
};

/* Drops the connection; what it was doing is the server's to roll back. */
void db_drop(struct db *d);
/* Waits for the whole answer of what was sent; the last result goes to *ret. -1: the connection broke or the deadline passed (it is then dropped). */
int db_await(struct db *d, int64_t deadline, PGresult **ret, err_t **err);
/* An error for a failed result. `sent`: it may have been done when the connection is gone. */
int db_result_error(const PGresult *r, const char *what, bool sent, err_t **err);
/* 0, or ERR_UNAVAILABLE "schema_mismatch". */
int db_schema_check(struct db *d, err_t **err);

#endif
