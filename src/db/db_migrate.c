#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "db/db_conn.h"
#include "db/db_schema.h"

#define FILE_MAX (4u << 20)
#define MIGRATION_MS 3600000
#define LOCK_KEY "7030000"

/* One statement list by the simple protocol; the last result. */
static PGresult *run(struct db *d, const char *sql, const char *what, err_t **err)
{
	PGresult *r = NULL;
	if (!PQsendQuery(d->conn, sql)) {
		err_set(err, ERR_UNAVAILABLE, "database_unavailable", "%s: the database connection broke", what);
		return NULL;
	}
	if (db_await(d, clock_boot_ms() + MIGRATION_MS, &r, err) < 0) {
		err_wrap(err, "%s", what);
		return NULL;
	}
	if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK)
		return r;
	const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY), *at = PQresultErrorField(r, PG_DIAG_STATEMENT_POSITION);
	err_set(err, ERR_REFUSED, "migration_failed", "%s: %s%s%s", what, text ? text : "failed", at ? " at character " : "", at ? at : "");
	PQclear(r);
	return NULL;
}

static int run_done(struct db *d, const char *sql, const char *what, err_t **err)
{
	PGresult *r = run(d, sql, what, err);
	if (!r)
		return -1;
	PQclear(r);
	return 0;
}

/* NNNN_name.sql: its number, else 0. */
static int64_t file_version(const char *name)
{
	int64_t v = 0;
	if (strlen(name) < 10 || name[4] != '_' || !str_suffix(name, ".sql") || strspn(name, "0123456789") != 4)
		return 0;
	for (int i = 0; i < 4; i++)
		v = v * 10 + (name[i] - '0');
	return v;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_migration(const struct dirent *e)
{
	return file_version(e->d_name) > 0;
}

/* 1: the database has it with the same sum. 0: not yet. */
static int seen(struct db *d, int64_t version, const char *file, const char *sum, err_t **err)
{
	char sql[128];
	(void)str_fmt(sql, sizeof sql, "SELECT checksum FROM schema_migrations WHERE version = %" PRId64, version);
	PGresult *r = run(d, sql, file, err);
	if (!r)
		return -1;
	int rc = PQntuples(r) > 0;
	if (rc && !str_eq(PQgetvalue(r, 0, 0), sum))
		rc = err_set(err, ERR_REFUSED, "migration_changed", "%s has changed since it was run on this database; restore the file, corrections need a new one", file);
	PQclear(r);
	return rc;
}

/* The server computes the sum, so that nobody needs another hash function. */
static int checksum(struct db *d, const char *text, char *ret, size_t size, err_t **err)
{
	const char *values[] = { text };
	PGresult *r = NULL;
	if (!PQsendQueryParams(d->conn, "SELECT encode(sha256(convert_to($1, 'UTF8')), 'hex')", 1, NULL, values, NULL, NULL, 0))
		return err_set(err, ERR_UNAVAILABLE, "database_unavailable", "the database connection broke");
	if (db_await(d, clock_boot_ms() + MIGRATION_MS, &r, err) < 0)
		return -1;
	int rc = PQresultStatus(r) == PGRES_TUPLES_OK ? str_copy(ret, size, PQgetvalue(r, 0, 0)) : -1;
	PQclear(r);
	return rc < 0 ? err_set(err, ERR_REFUSED, "migration_failed", "cannot compute a checksum") : 0;
}

static int apply(struct db *d, int64_t version, const char *file, const char *text, const char *sum, err_t **err)
{
	/* The names are digits, hex and a checked file name: nothing to quote. */
	cleanup_free char *note = str_dupf("INSERT INTO schema_migrations (version, name, checksum) VALUES (%" PRId64 ", $q$%s$q$, '%s')", version, file, sum);
	if (!note)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory");
	if (run_done(d, "BEGIN", file, err) < 0)
		return -1;
	if (run_done(d, text, file, err) == 0 && run_done(d, note, file, err) == 0 && run_done(d, "COMMIT", file, err) == 0)
		return 0;
	if (d->conn)
		(void)run_done(d, "ROLLBACK", file, NULL);
	return -1;
}

static int one_file(struct db *d, int dirfd, const char *file, int64_t expected, bool *done, err_t **err)
{
	cleanup_free char *text = NULL;
	size_t len = 0;
	char sum[72];
	int64_t version = file_version(file);
	if (version != expected)
		return err_set(err, ERR_REFUSED, "migration_gap", "%s: expected number %04" PRId64, file, expected);
	if (io_read_file(dirfd, file, FILE_MAX, &text, &len, err) < 0)
		return -1;
	if (strlen(text) != len)
		return err_set(err, ERR_REFUSED, "migration_failed", "%s holds a NUL byte", file);
	if (checksum(d, text, sum, sizeof sum, err) < 0)
		return -1;
	int rc = seen(d, version, file, sum, err);
	if (rc < 0)
		return -1;
	*done = rc == 0;
	return rc ? 0 : apply(d, version, file, text, sum, err);
}

static int newest_known(struct db *d, int64_t *ret, err_t **err)
{
	PGresult *r = run(d, "SELECT coalesce(max(version), 0) FROM schema_migrations", "schema_migrations", err);
	if (!r)
		return -1;
	int rc = num_i64(PQgetvalue(r, 0, 0), 0, 9999, ret);
	PQclear(r);
	return rc < 0 ? err_set(err, ERR_INTERNAL, NULL, "schema_migrations holds a version out of range") : 0;
}

static int all_files(struct db *d, int dirfd, struct dirent **list, int n, db_migrate_fn *fn, void *arg, err_t **err)
{
	int64_t newest = 0;
	if (newest_known(d, &newest, err) < 0)
		return -1;
	if (newest > n)
		return err_set(err, ERR_REFUSED, "migration_unknown", "the database is at version %" PRId64 ", the files end at %d: a newer Paddock was here", newest, n);
	for (int i = 0; i < n; i++) {
		bool done = false;
		if (one_file(d, dirfd, list[i]->d_name, i + 1, &done, err) < 0)
			return -1;
		fn(arg, list[i]->d_name, done);
	}
	return 0;
}

static const char prepare_sql[] =
	"SET statement_timeout = 0; SET client_min_messages = warning; SELECT pg_advisory_lock(" LOCK_KEY ");"
	"CREATE TABLE IF NOT EXISTS schema_migrations (version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,"
	" applied_at timestamptz NOT NULL DEFAULT clock_timestamp());"
	"GRANT SELECT ON schema_migrations TO paddock_api, paddock_read";

int db_migrate(struct db *d, const char *dir, db_migrate_fn *fn, void *arg, err_t **err)
{
	cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **list = NULL;
	if (fd < 0)
		return err_sys(err, errno, "%s", dir);
	int n = scandir(dir, &list, is_migration, by_name);
	if (n < 0)
		return err_sys(err, errno, "%s", dir);
	int rc = n > 0 ? 0 : err_set(err, ERR_REFUSED, "migration_gap", "%s holds no migration", dir);
	if (rc == 0)
		rc = db_connect(d, err);
	if (rc == 0)
		rc = run_done(d, prepare_sql, "schema_migrations", err);
	if (rc == 0)
		rc = all_files(d, fd, list, n, fn, arg, err);
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
	db_drop(d);   /* frees the advisory lock */
	return rc;
}

int db_schema_check(struct db *d, err_t **err)
{
	PGresult *r = NULL;
	if (!PQsendQuery(d->conn, "SELECT coalesce(max(version), 0) FROM schema_migrations"))
		return err_set(err, ERR_UNAVAILABLE, "database_unavailable", "the database connection broke");
	if (db_await(d, clock_boot_ms() + d->statement_timeout_ms, &r, err) < 0)
		return -1;
	int64_t v = 0;
	int rc = 0;
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	if (state && !str_eq(state, "42P01"))
		rc = db_result_error(r, "schema_migrations", false, err);
	else if (state || num_i64(PQgetvalue(r, 0, 0), 0, 9999, &v) < 0 || v != DB_SCHEMA_VERSION)
		rc = err_set(err, ERR_UNAVAILABLE, "schema_mismatch", "the database has schema version %" PRId64 ", this program needs %d; run paddockctl migrate", v, DB_SCHEMA_VERSION);
	PQclear(r);
	return rc;
}
