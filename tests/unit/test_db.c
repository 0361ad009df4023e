#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"
#include "db/db_array.h"
#include "db/db_schema.h"
#include "lib/stand.h"

static struct stand st;

static int up(void **state)
{
	(void)state;
	stand_up(&st);
	return 0;
}

static int down(void **state)
{
	(void)state;
	stand_down(&st);
	return 0;
}

static struct db *open_as(const char *user, int64_t statement_ms, bool any_schema)
{
	struct db_config c = { .conninfo = config_str(st.config, "database.conninfo"), .user = user, .connect_timeout_ms = 2000,
		.statement_timeout_ms = statement_ms, .any_schema = any_schema };
	struct db *d = db_new(&c, NULL);
	assert_non_null(d);
	return d;
}

static void nap(int ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
	nanosleep(&ts, NULL);
}

static const struct db_stmt echo = { "t_echo", "SELECT $1::text, $2::bigint, $3::boolean, $4::bytea, NULL::text", false };

static void test_values(void **state)
{
	(void)state;
	struct db *d = open_as(NULL, 5000, false);
	struct db_params p = { 0 };
	cleanup_db_result struct db_result *r = NULL;
	char *bytes = NULL;
	size_t n = 0;
	db_add_str(&p, "d\xc3\xa9j\xc3\xa0 'vu' \\");
	db_add_i64(&p, INT64_MIN);
	db_add_bool(&p, true);
	db_add_bytes(&p, "a\0\xff", 3);
	assert_int_equal(db_query(d, &echo, &p, &r, NULL), 0);
	assert_int_equal(db_rows(r), 1);
	assert_string_equal(db_str(r, 0, 0), "d\xc3\xa9j\xc3\xa0 'vu' \\");
	assert_true(db_i64(r, 0, 1) == INT64_MIN);
	assert_true(db_bool(r, 0, 2));
	assert_int_equal(db_bytes(r, 0, 3, &bytes, &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_memory_equal(bytes, "a\0\xff", 4);
	assert_null(db_str(r, 0, 4));
	assert_true(db_null(r, 0, 4));
	free(bytes);
	db_free(d);
}

static const struct db_stmt unnest = { "t_unnest", "SELECT count(*), count(b), sum(octet_length(b)) FROM unnest($1::bytea[]) b", false };

static void test_array(void **state)
{
	(void)state;
	struct db *d = open_as(NULL, 5000, false);
	struct db_params p = { 0 };
	cleanup_db_result struct db_result *r = NULL;
	cleanup_buf struct buf b = { 0 };
	db_array_begin(&b, 1000, 3);
	db_array_add(&b, "xyz", 3);
	db_array_add(&b, NULL, 0);
	db_array_add(&b, "", 0);
	assert_false(buf_failed(&b));
	db_add_bytes(&p, b.data, b.len);
	assert_int_equal(db_query(d, &unnest, &p, &r, NULL), 0);
	assert_int_equal(db_i64(r, 0, 0), 3);
	assert_int_equal(db_i64(r, 0, 1), 2);
	assert_int_equal(db_i64(r, 0, 2), 3);
	db_free(d);
}

static const struct db_stmt one_write = { "t_one_write", "SELECT 1", true };
static const struct db_stmt doze = { "t_doze", "SELECT pg_sleep(5)", false };
static const struct db_stmt doze_write = { "t_doze_write", "SELECT pg_sleep(5)", true };
static const struct db_stmt one = { "t_one", "SELECT 1", false };
static const struct db_stmt bad = { "t_bad", "SELECT 1 / $1::integer", false };
static const struct db_stmt forbidden = { "t_forbidden", "DELETE FROM runs", true };

static void assert_error(struct db *d, const struct db_stmt *s, const struct db_params *p, enum err_code code)
{
	err_t *e = NULL;
	assert_int_equal(db_query(d, s, p, NULL, &e), -1);
	if (err_code(e) != code)
		fail_msg("%s: %s", err_code_name(err_code(e)), err_message(e));
	err_free(e);
}

static void test_errors(void **state)
{
	(void)state;
	struct db *d = open_as(NULL, 200, false);
	struct db_params p = { 0 };
	int64_t t = clock_boot_ms();
	assert_error(d, &doze, NULL, ERR_UNAVAILABLE);
	assert_true(clock_boot_ms() - t < 1500);
	db_add_i64(&p, 0);
	assert_error(d, &bad, &p, ERR_INTERNAL);
	assert_error(d, &forbidden, NULL, ERR_INTERNAL);
	assert_int_equal(db_query(d, &one, NULL, NULL, NULL), 0);
	db_free(d);
}

/* A restart is seen before a writing statement is sent; a reading one is sent again. Either goes to the new server. */
static void test_restart_while_idle(void **state)
{
	(void)state;
	struct db *d = open_as(NULL, 5000, false);
	assert_int_equal(db_query(d, &one, NULL, NULL, NULL), 0);
	stand_pg(&st, "restart");
	assert_int_equal(db_query(d, &one, NULL, NULL, NULL), 0);
	stand_pg(&st, "restart");
	assert_int_equal(db_query(d, &one_write, NULL, NULL, NULL), 0);
	db_free(d);
}

static void test_away(void **state)
{
	(void)state;
	struct db *d = open_as(NULL, 5000, false);
	assert_int_equal(db_query(d, &one, NULL, NULL, NULL), 0);
	stand_pg(&st, "halt");
	int64_t t = clock_boot_ms();
	for (int i = 0; i < 20; i++)
		assert_error(d, &doze_write, NULL, ERR_UNAVAILABLE);
	assert_true(clock_boot_ms() - t < 1000);
	stand_pg(&st, "resume");
	nap(1050);
	assert_int_equal(db_query(d, &one, NULL, NULL, NULL), 0);
	db_free(d);
}

static void terminate_dozing_after_300_ms(void)
{
	if (fork() > 0)
		return;
	nap(300);
	free(stand_sql(&st, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(%)' AND usename = 'paddock_api'"));
	_exit(0);
}

/* The server dies while it works: a writing statement may have been done, a reading one is asked again. */
static void test_lost_answer(void **state)
{
	static const struct db_stmt nap_once = { "t_nap", "SELECT pg_sleep(1)", false };
	(void)state;
	struct db *d = open_as(NULL, 5000, false);
	assert_int_equal(db_query(d, &one, NULL, NULL, NULL), 0);
	terminate_dozing_after_300_ms();
	assert_error(d, &doze_write, NULL, ERR_UNKNOWN);
	assert_int_equal(db_query(d, &one, NULL, NULL, NULL), 0);
	terminate_dozing_after_300_ms();
	int64_t t = clock_boot_ms();
	assert_int_equal(db_query(d, &nap_once, NULL, NULL, NULL), 0);
	assert_true(clock_boot_ms() - t >= 1300);
	db_free(d);
}

static void test_times(void **state)
{
	static const struct db_stmt times = {
		"t_times",
		"SELECT timestamptz '2026-01-31 12:00:00+00', timestamptz '2026-01-31 12:00:00.5+00', timestamptz '2026-01-31 23:59:59.123456-01', NULL::timestamptz",
		false,
	};
	static const char *const want[] = { "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00.500Z", "2026-02-01T00:59:59.123Z" };
	(void)state;
	struct db *d = open_as(NULL, 5000, false);
	cleanup_db_result struct db_result *r = NULL;
	char got[CLOCK_RFC3339_SIZE] = "kept";
	assert_int_equal(db_query(d, &times, NULL, &r, NULL), 0);
	assert_false(db_time(r, 0, 3, got));
	assert_string_equal(got, "kept");
	for (int i = 0; i < 3; i++) {
		assert_true(db_time(r, 0, i, got));
		assert_string_equal(got, want[i]);
	}
	db_free(d);
}

/* A server that hangs is given up after the time-outs. */
static void test_frozen(void **state)
{
	(void)state;
	struct db *d = open_as(NULL, 200, false);
	assert_int_equal(db_query(d, &one, NULL, NULL, NULL), 0);
	char *pid = stand_sql(&st, "SELECT pid FROM pg_stat_activity WHERE usename = 'paddock_api' ORDER BY backend_start DESC LIMIT 1");
	pid_t backend = (pid_t)strtol(pid, NULL, 10);
	free(pid);
	assert_int_equal(kill(backend, SIGSTOP), 0);
	int64_t t = clock_boot_ms();
	assert_error(d, &doze_write, NULL, ERR_UNAVAILABLE);
	assert_true(clock_boot_ms() - t < 3000);
	kill(backend, SIGCONT);
	assert_int_equal(db_query(d, &one, NULL, NULL, NULL), 0);
	db_free(d);
}

static void test_schema_version(void **state)
{
	(void)state;
	struct db *d = open_as(NULL, 5000, false);
	err_t *e = NULL;
	free(stand_sql(&st, "INSERT INTO schema_migrations (version, name, checksum) VALUES (9000, 'x', 'x')"));
	assert_int_equal(db_connect(d, &e), -1);
	assert_string_equal(err_detail(e), "schema_mismatch");
	err_free(e);
	e = NULL;
	struct db *owner = open_as("paddock_owner", 5000, true);
	assert_int_equal(db_migrate(owner, TEST_SRCDIR "/sql", NULL, NULL, &e), -1);
	assert_string_equal(err_detail(e), "migration_unknown");
	err_free(e);
	free(stand_sql(&st, "DELETE FROM schema_migrations WHERE version = 9000"));
	nap(100);
	assert_int_equal(db_connect(d, NULL), 0);
	db_free(d);
	db_free(owner);
}

static void copy(const char *name, const char *dir, const char *extra)
{
	char from[512], *text = NULL;
	size_t n = 0;
	snprintf(from, sizeof from, "%s/sql/%s", TEST_SRCDIR, name);
	assert_int_equal(io_read_file(AT_FDCWD, from, 1 << 20, &text, &n, NULL), 0);
	char *all = str_dupf("%s%s", text, extra);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(io_write_file(fd, name, all, strlen(all), 0644, 0, NULL), 0);
	close(fd);
	free(all);
	free(text);
}

static int migrated;

static void count(void *arg, const char *file, bool done)
{
	(void)arg;
	(void)file;
	migrated += done;
}

static void assert_refused(const char *dir, const char *word)
{
	err_t *e = NULL;
	struct db *owner = open_as("paddock_owner", 5000, true);
	assert_int_equal(db_migrate(owner, dir, count, NULL, &e), -1);
	assert_string_equal(err_detail(e), word);
	err_free(e);
	db_free(owner);
}

static void test_migrations(void **state)
{
	(void)state;
	static const char *const files[] = { "0001_tables.sql", "0002_runs.sql", "0003_commands.sql", "0004_plans.sql", "0005_stages.sql",
		"0006_limits.sql", "0007_sandboxes.sql", "0008_steer.sql", "0009_sandbox_views.sql", "0010_sandbox_look.sql",
		"0011_usage_of_user.sql" };
	char dir[160], next[32], gap[32];
	int fd;
	snprintf(dir, sizeof dir, "%s/sql", st.dir);
	snprintf(next, sizeof next, "%04zu_broken.sql", UNIT_LEN(files) + 1);
	snprintf(gap, sizeof gap, "%04zu_gap.sql", UNIT_LEN(files) + 2);
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_refused(dir, "migration_gap");
	for (size_t i = 0; i < UNIT_LEN(files); i++)
		copy(files[i], dir, "");
	copy("0002_runs.sql", dir, "-- a later thought\n");
	assert_refused(dir, "migration_changed");
	copy("0002_runs.sql", dir, "");
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* One that fails in its middle leaves nothing behind. */
	static const char broken[] = "CREATE TABLE half (x int);\nSELECT 1/0;\n";
	assert_int_equal(io_write_file(fd, next, broken, strlen(broken), 0644, 0, NULL), 0);
	assert_refused(dir, "migration_failed");
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM pg_class WHERE relname = 'half'"), 0);
	assert_int_equal(unlinkat(fd, next, 0), 0);
	assert_int_equal(io_write_file(fd, gap, "SELECT 1;", 9, 0644, 0, NULL), 0);
	assert_refused(dir, "migration_gap");
	assert_int_equal(unlinkat(fd, gap, 0), 0);
	struct db *owner = open_as("paddock_owner", 5000, true);
	migrated = 0;
	assert_int_equal(db_migrate(owner, dir, count, NULL, NULL), 0);
	assert_int_equal(migrated, 0);
	assert_int_equal(stand_count(&st, "SELECT max(version) FROM schema_migrations"), DB_SCHEMA_VERSION);
	db_free(owner);
	close(fd);
}

/* The newest file and the number that is compiled in belong together. */
static void test_version_is_newest_file(void **state)
{
	(void)state;
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM schema_migrations WHERE version <= %d", DB_SCHEMA_VERSION);
	assert_int_equal(stand_count(&st, sql), DB_SCHEMA_VERSION);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM schema_migrations"), DB_SCHEMA_VERSION);
}

static void test_rights(void **state)
{
	(void)state;
	static const struct db_stmt hash = { "t_hash", "SELECT hash FROM tokens", false };
	static const struct db_stmt drop = { "t_drop", "DROP TABLE users", true };
	static const struct db_stmt read = { "t_read", "SELECT id, user_id FROM tokens", false };
	static const struct db_stmt write = { "t_write", "UPDATE runs SET status = 'failed'", true };
	struct db *reader = open_as("paddock_read", 5000, false), *api = open_as(NULL, 5000, false);
	assert_int_equal(db_query(reader, &read, NULL, NULL, NULL), 0);
	assert_error(reader, &hash, NULL, ERR_INTERNAL);
	assert_int_equal(db_query(reader, &write, NULL, NULL, NULL), -1);
	assert_error(api, &drop, NULL, ERR_INTERNAL);
	assert_error(api, &forbidden, NULL, ERR_INTERNAL);
	db_free(reader);
	db_free(api);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values), cmocka_unit_test(test_array), cmocka_unit_test(test_errors), cmocka_unit_test(test_restart_while_idle),
		cmocka_unit_test(test_away), cmocka_unit_test(test_lost_answer), cmocka_unit_test(test_times), cmocka_unit_test(test_frozen), cmocka_unit_test(test_schema_version),
		cmocka_unit_test(test_migrations), cmocka_unit_test(test_version_is_newest_file), cmocka_unit_test(test_rights),
	};

	return cmocka_run_group_tests_name("db", tests, up, down);
}
