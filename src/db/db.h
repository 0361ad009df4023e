/* db.h - one connection to PostgreSQL. src/db is the only user of libpq and the only place with SQL text.
 *
 * A connection makes itself when it is needed, and again after it broke, with a bounded back-off; meanwhile calls fail at once with
 * ERR_UNAVAILABLE "database_unavailable". Every call has a deadline (connect_timeout_ms, statement_timeout_ms and a second). Statements are prepared, each
 * is a transaction of its own and durable when it succeeded. One that reads is sent once more when a connection from before breaks under it.
 *
 * Errors of a statement: ERR_UNAVAILABLE (nothing was done), ERR_UNKNOWN "outcome_unknown" (a writing statement whose answer was lost),
 * ERR_EXISTS (unique violation), ERR_BUSY (deadlock, serialisation: nothing was done, try again), ERR_INTERNAL. Not for use by several threads. */
#ifndef PADDOCK_DB_DB_H
#define PADDOCK_DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

#define DB_PARAMS_MAX 32

struct db;

struct db_config {
	const char *conninfo;          /* copied */
	const char *user;              /* in place of the conninfo's; NULL: as it stands */
	int64_t connect_timeout_ms;
	int64_t statement_timeout_ms;
	bool any_schema;               /* do not look at the schema's version (paddockctl migrate) */
};

struct db *db_new(const struct db_config *c, err_t **err);   /* does not connect */
void db_free(struct db *d);                                   /* NULL is fine */
int db_connect(struct db *d, err_t **err);                    /* now, unless it is */

/* A statement is static data; it is prepared once a connection. */
struct db_stmt {
	const char *name;
	const char *sql;
	bool writes;
};

/* Parameters in order; pointers are borrowed until db_query returns. Adding more than DB_PARAMS_MAX aborts. */
struct db_params {
	int n;
	const char *value[DB_PARAMS_MAX];
	int length[DB_PARAMS_MAX];
	int format[DB_PARAMS_MAX];
	char digits[DB_PARAMS_MAX][24];
};
void db_add_str(struct db_params *p, const char *s);                  /* NULL: SQL NULL */
void db_add_i64(struct db_params *p, int64_t v);
void db_add_bool(struct db_params *p, bool v);
void db_add_bytes(struct db_params *p, const void *v, size_t n);      /* binary; v NULL: SQL NULL */

struct db_result;
/* p may be NULL. ret may be NULL when the rows do not matter. */
int db_query(struct db *d, const struct db_stmt *s, const struct db_params *p, struct db_result **ret, err_t **err);
void db_result_free(struct db_result *r);

int db_rows(const struct db_result *r);
const char *db_str(const struct db_result *r, int row, int col);      /* NULL for SQL NULL; owned by r */
int64_t db_i64(const struct db_result *r, int row, int col);          /* 0 for SQL NULL */
bool db_bool(const struct db_result *r, int row, int col);
bool db_null(const struct db_result *r, int row, int col);
/* A timestamptz as RFC 3339 in UTC with milliseconds; false for SQL NULL (dst is not touched then). */
bool db_time(const struct db_result *r, int row, int col, char dst[CLOCK_RFC3339_SIZE]);
/* A bytea: malloc'ed and NUL-terminated. *ret NULL for SQL NULL. */
int db_bytes(const struct db_result *r, int row, int col, char **ret, size_t *len, err_t **err);

static inline void cleanup_db_result_(struct db_result **r) { db_result_free(*r); }
#define cleanup_db_result __attribute__((__cleanup__(cleanup_db_result_)))

#endif
