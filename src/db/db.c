#include "db/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "db/db_conn.h"

static int slot(struct db_params *p)
{
	if (p->n >= DB_PARAMS_MAX)
		abort();
	return p->n++;
}

void db_add_str(struct db_params *p, const char *s)
{
	int i = slot(p);
	p->value[i] = s;
	p->format[i] = 0;
	p->length[i] = 0;
}

void db_add_i64(struct db_params *p, int64_t v)
{
	int i = slot(p);
	snprintf(p->digits[i], sizeof p->digits[i], "%lld", (long long)v);
	p->value[i] = p->digits[i];
	p->format[i] = 0;
	p->length[i] = 0;
}

void db_add_bool(struct db_params *p, bool v)
{
	db_add_str(p, v ? "t" : "f");
}

void db_add_bytes(struct db_params *p, const void *v, size_t n)
{
	int i = slot(p);
	p->value[i] = v;
	p->format[i] = 1;
	p->length[i] = (int)n;
}

static bool is_prepared(const struct db *d, const struct db_stmt *s)
{
	for (size_t i = 0; i < d->n_prepared; i++)
		if (d->prepared[i] == s)
			return true;
	return false;
}

static void drop_if_broken(struct db *d)
{
	if (PQstatus(d->conn) == CONNECTION_BAD)
		db_drop(d);
}

/* Preparing changes nothing, so a connection lost here is never an unknown outcome. */
static int prepare(struct db *d, const struct db_stmt *s, int64_t deadline, err_t **err)
{
	if (is_prepared(d, s))
		return 0;
	if (d->n_prepared == DB_STMTS_MAX)
		abort();
	PGresult *r = NULL;
	if (!PQsendPrepare(d->conn, s->name, s->sql, 0, NULL)) {
		db_drop(d);
		return err_set(err, ERR_UNAVAILABLE, "database_unavailable", "%s: the database connection broke", s->name);
	}
	if (db_await(d, deadline, &r, err) < 0)
		return err_wrap(err, "%s", s->name);
	int rc = 0;
	if (PQresultStatus(r) == PGRES_COMMAND_OK)
		d->prepared[d->n_prepared++] = s;
	else
		rc = db_result_error(r, s->name, false, err);
	PQclear(r);
	drop_if_broken(d);
	return rc;
}

/* After sending: a writing statement without an answer may have been done. */
static int lost_answer(const struct db_stmt *s, err_t *why, err_t **err)
{
	if (s->writes)
		err_set(err, ERR_UNKNOWN, "outcome_unknown", "%s: the database's answer was lost: %s", s->name, err_message(why));
	else
		err_set(err, ERR_UNAVAILABLE, "database_unavailable", "%s: %s", s->name, err_message(why));
	err_free(why);
	return -1;
}

/* Over the connection that is there; it is dropped when it turns out to be broken. */
static int run(struct db *d, const struct db_stmt *s, const struct db_params *p, int64_t deadline, struct db_result **ret, err_t **err)
{
	if (prepare(d, s, deadline, err) < 0)
		return -1;
	err_t *why = NULL;
	PGresult *r = NULL;
	if (!PQsendQueryPrepared(d->conn, s->name, p->n, p->value, p->length, p->format, 0)) {
		err_set(&why, ERR_UNAVAILABLE, NULL, "%s", PQerrorMessage(d->conn));
		db_drop(d);
		return lost_answer(s, why, err);
	}
	if (db_await(d, deadline, &r, &why) < 0)
		return lost_answer(s, why, err);
	ExecStatusType st = PQresultStatus(r);
	if (st != PGRES_TUPLES_OK && st != PGRES_COMMAND_OK) {
		int rc = db_result_error(r, s->name, s->writes, err);
		PQclear(r);
		drop_if_broken(d);
		return rc;
	}
	if (ret)
		*ret = (struct db_result *)r;
	else
		PQclear(r);
	return 0;
}

/* A second more than the server gives a statement by itself. */
static int64_t deadline_of(const struct db *d)
{
	return clock_boot_ms() + d->statement_timeout_ms + 1000;
}

/* The server may have left an idle connection. A statement that writes looks first, so that nothing is sent in vain; for one that reads that look
 * would cost more than it saves: it is sent, and again over a new connection when that was in vain. */
int db_query(struct db *d, const struct db_stmt *s, const struct db_params *p, struct db_result **ret, err_t **err)
{
	static const struct db_params none;
	err_t *e = NULL;
	if (!p)
		p = &none;
	if (d->conn && !s->writes) {
		int64_t deadline = deadline_of(d);
		if (run(d, s, p, deadline, ret, &e) == 0)
			return 0;
		if (d->conn || clock_boot_ms() >= deadline)
			return err_move(err, e);
		err_free(e);
	}
	if (db_connect(d, err) < 0)
		return -1;
	return run(d, s, p, deadline_of(d), ret, err);
}

/* A db_result is a PGresult under a name that does not need libpq's header. */
static const PGresult *pg(const struct db_result *r)
{
	return (const PGresult *)r;
}

void db_result_free(struct db_result *r)
{
	if (r)
		PQclear((PGresult *)r);
}

int db_rows(const struct db_result *r)
{
	return PQntuples(pg(r));
}

bool db_null(const struct db_result *r, int row, int col)
{
	return PQgetisnull(pg(r), row, col) != 0;
}

const char *db_str(const struct db_result *r, int row, int col)
{
	return db_null(r, row, col) ? NULL : PQgetvalue(pg(r), row, col);
}

/* "2026-01-31 12:00:00[.123456]+00" as the session's settings make PostgreSQL write it. */
bool db_time(const struct db_result *r, int row, int col, char dst[CLOCK_RFC3339_SIZE])
{
	const char *s = db_str(r, row, col);
	size_t n = s ? strcspn(s, " ") : 0, time = s && s[n] ? strspn(s + n + 1, "0123456789:") : 0;
	if (!time)
		return false;
	const char *rest = s + n + 1 + time;
	size_t frac = *rest == '.' ? strspn(rest + 1, "0123456789") : 0;
	char ms[4] = "000";
	memcpy(ms, rest + 1, frac < 3 ? frac : 3);
	return str_fmt(dst, CLOCK_RFC3339_SIZE, "%.*sT%.*s.%sZ", (int)n, s, (int)time, s + n + 1, ms) >= 0;
}

int64_t db_i64(const struct db_result *r, int row, int col)
{
	int64_t v = 0;
	const char *s = db_str(r, row, col);
	if (s)
		(void)num_i64(s, INT64_MIN, INT64_MAX, &v);
	return v;
}

bool db_bool(const struct db_result *r, int row, int col)
{
	const char *s = db_str(r, row, col);
	return s && *s == 't';
}

int db_bytes(const struct db_result *r, int row, int col, char **ret, size_t *len, err_t **err)
{
	const char *s = db_str(r, row, col);
	*ret = NULL;
	*len = 0;
	if (!s)
		return 0;
	size_t n = 0;
	unsigned char *raw = PQunescapeBytea((const unsigned char *)s, &n);
	if (!raw)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a column of %zu bytes", strlen(s) / 2);
	char *copy = malloc(n + 1);
	if (copy) {
		memcpy(copy, raw, n);
		copy[n] = 0;
	}
	PQfreemem(raw);
	if (!copy)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a column of %zu bytes", n);
	*ret = copy;
	*len = n;
	return 0;
}
