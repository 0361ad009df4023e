#include "db/db_conn.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#define BACKOFF_MIN_MS 20
#define BACKOFF_MAX_MS 1000

struct db *db_new(const struct db_config *c, err_t **err)
{
	struct db *d = calloc(1, sizeof *d);
	if (d) {
		d->conninfo = str_dup(c->conninfo);
		d->user = c->user ? str_dup(c->user) : NULL;
		d->connect_timeout_ms = c->connect_timeout_ms;
		d->statement_timeout_ms = c->statement_timeout_ms;
		d->any_schema = c->any_schema;
	}
	if (!d || !d->conninfo || (c->user && !d->user)) {
		db_free(d);
		err_set(err, ERR_NO_MEMORY, NULL, "no memory for a database connection");
		return NULL;
	}
	return d;
}

void db_drop(struct db *d)
{
	PQfinish(d->conn);
	d->conn = NULL;
	d->n_prepared = 0;
}

void db_free(struct db *d)
{
	if (!d)
		return;
	db_drop(d);
	free(d->conninfo);
	free(d->user);
	free(d);
}

static int wait_fd(int fd, short events, int64_t deadline)
{
	for (;;) {
		int64_t left = deadline - clock_boot_ms();
		struct pollfd p = { .fd = fd, .events = events };
		int n = poll(&p, 1, left < 0 ? 0 : (int)left);
		if (n > 0)
			return 0;
		if (n == 0)
			return -1;
		if (errno != EINTR)
			return -1;
	}
}

/* The first line of libpq's text; it may hold several. */
static int away(const PGconn *c, const char *what, err_t **err)
{
	const char *m = c ? PQerrorMessage(c) : "";
	int n = (int)strcspn(m, "\n");
	return err_set(err, ERR_UNAVAILABLE, "database_unavailable", "%s%s%.*s", what, n ? ": " : "", n, m);
}

static int poll_connect(PGconn *c, int64_t deadline, err_t **err)
{
	PostgresPollingStatusType st = PGRES_POLLING_WRITING;
	while (st != PGRES_POLLING_OK) {
		if (st == PGRES_POLLING_FAILED)
			return away(c, "cannot connect to the database", err);
		if (wait_fd(PQsocket(c), st == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline) < 0)
			return away(NULL, "the database did not answer in time", err);
		st = PQconnectPoll(c);
	}
	return 0;
}

/* Index scans only: a plan made while a table was small is kept by the session, and must not become a scan of a large one. */
static PGconn *start_connect(const struct db *d)
{
	char options[256];
	if (str_fmt(options, sizeof options, "-c statement_timeout=%lld -c TimeZone=UTC -c DateStyle=ISO -c jit=off -c enable_seqscan=off",
			(long long)d->statement_timeout_ms) < 0)
		return NULL;
	const char *keys[] = { "dbname", "options", "client_encoding", "fallback_application_name", d->user ? "user" : NULL, NULL };
	const char *values[] = { d->conninfo, options, "UTF8", "paddock", d->user, NULL };
	return PQconnectStartParams(keys, values, 1);
}

static int connect_now(struct db *d, err_t **err)
{
	d->conn = start_connect(d);
	if (!d->conn)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a database connection");
	if (PQstatus(d->conn) == CONNECTION_BAD)
		return away(d->conn, "cannot connect to the database", err);
	if (poll_connect(d->conn, clock_boot_ms() + d->connect_timeout_ms, err) < 0)
		return -1;
	if (PQsetnonblocking(d->conn, 1) != 0)
		return away(d->conn, "cannot set up the database connection", err);
	return d->any_schema ? 0 : db_schema_check(d, err);
}

/* A server has nothing to say on an idle connection but that it goes (or, rarely, that a setting changed): better seen now, when nothing has
 * been sent and a new connection is all that it takes. */
static bool idle_broken(struct db *d)
{
	struct pollfd p = { .fd = PQsocket(d->conn), .events = POLLIN };
	return PQstatus(d->conn) == CONNECTION_BAD || poll(&p, 1, 0) != 0;
}

static void notice(void *arg, const PGresult *r)
{
	(void)arg;
	log_kv(LOG_DEBUG, "database_notice", "text", PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY), NULL);
}

int db_connect(struct db *d, err_t **err)
{
	if (d->conn && !idle_broken(d))
		return 0;
	db_drop(d);
	int64_t now = clock_boot_ms();
	if (now < d->retry_at)
		return err_set(err, ERR_UNAVAILABLE, "database_unavailable", "the database is away; next try in %lld ms", (long long)(d->retry_at - now));
	if (connect_now(d, err) < 0) {
		db_drop(d);
		d->backoff_ms = d->backoff_ms ? d->backoff_ms * 2 : BACKOFF_MIN_MS;
		if (d->backoff_ms > BACKOFF_MAX_MS)
			d->backoff_ms = BACKOFF_MAX_MS;
		d->retry_at = clock_boot_ms() + d->backoff_ms;
		return -1;
	}
	PQsetNoticeReceiver(d->conn, notice, NULL);
	d->retry_at = d->backoff_ms = 0;
	return 0;
}

static int flush(struct db *d, int64_t deadline)
{
	int n;
	while ((n = PQflush(d->conn)) > 0) {
		/* The server may be blocked writing to us: read as well. */
		if (wait_fd(PQsocket(d->conn), POLLIN | POLLOUT, deadline) < 0)
			return -1;
		if (!PQconsumeInput(d->conn))
			return -1;
	}
	return n;
}

int db_await(struct db *d, int64_t deadline, PGresult **ret, err_t **err)
{
	PGresult *last = NULL;
	if (flush(d, deadline) < 0)
		goto broken;
	for (;;) {
		while (PQisBusy(d->conn))
			if (wait_fd(PQsocket(d->conn), POLLIN, deadline) < 0 || !PQconsumeInput(d->conn))
				goto broken;
		PGresult *r = PQgetResult(d->conn);
		if (!r)
			break;
		/* The first failure is the one that matters. */
		if (last && PQresultStatus(last) == PGRES_FATAL_ERROR) {
			PQclear(r);
			continue;
		}
		PQclear(last);
		last = r;
	}
	if (!last)
		goto broken;
	*ret = last;
	return 0;
broken:
	PQclear(last);
	away(d->conn, "the database connection broke or did not answer in time", err);
	db_drop(d);
	return -1;
}

struct sqlstate {
	const char *prefix;
	enum err_code code;
	const char *detail;
};

static const struct sqlstate sqlstates[] = {
	{ "23505", ERR_EXISTS, "exists" },
	{ "40001", ERR_BUSY, "busy" },
	{ "40P01", ERR_BUSY, "busy" },
	{ "55P03", ERR_BUSY, "busy" },
	{ "57", ERR_UNAVAILABLE, "database_unavailable" },    /* cancelled by statement_timeout, shut down, starting up */
	{ "53", ERR_UNAVAILABLE, "database_unavailable" },    /* disk or memory full, too many connections */
	{ "58", ERR_UNAVAILABLE, "database_unavailable" },
	{ "25006", ERR_UNAVAILABLE, "database_unavailable" }, /* a read-only standby */
	{ "08", ERR_UNAVAILABLE, "database_unavailable" },
};

int db_result_error(const PGresult *r, const char *what, bool sent, err_t **err)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
	/* Without an SQLSTATE it is libpq that speaks: the connection went while we waited. */
	if (!state)
		return err_set(err, sent ? ERR_UNKNOWN : ERR_UNAVAILABLE, sent ? "outcome_unknown" : "database_unavailable", "%s: the database's answer was lost", what);
	/* A server that is told to stop may say so after it committed. */
	if (sent && (str_eq(state, "57P01") || str_eq(state, "57P02")))
		return err_set(err, ERR_UNKNOWN, "outcome_unknown", "%s: %s", what, text ? text : "");
	for (size_t i = 0; i < sizeof sqlstates / sizeof *sqlstates; i++)
		if (str_prefix(state, sqlstates[i].prefix))
			return err_set(err, sqlstates[i].code, sqlstates[i].detail, "%s: %s (%s)", what, text ? text : "", state);
	return err_set(err, ERR_INTERNAL, NULL, "%s: %s (%s)", what, text ? text : "", state);
}
