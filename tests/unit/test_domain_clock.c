/* The application's clock of day steps by an hour either way: nothing that the database's time decides is harmed. */
#include "domain_kit.h"

#include <sys/syscall.h>
#include <unistd.h>

#define HOUR INT64_C(3600)

static int64_t off_s;

/* In place of the C library's, for everything in this process. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc = (int)syscall(SYS_clock_gettime, id, ts);
	if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ts->tv_sec += off_s;
	return rc;
}

static const int64_t offs[] = { HOUR, -HOUR, 0 };

static void all_duties(void)
{
	for (size_t i = 0; i < duties_count; i++) {
		err_t *e = NULL;
		if (duties[i].run(D, &e) < 0)
			fail_msg("%s: %s", duties[i].name, err_message(e));
	}
}

/* A test that steps nothing would prove nothing. */
static void test_the_clock_steps(void **state)
{
	(void)state;
	int64_t wall = clock_wall_ms(), boot = clock_boot_ms();
	off_s = HOUR;
	assert_true(clock_wall_ms() - wall >= HOUR * 1000);
	assert_true(clock_boot_ms() - boot < 60000);
	off_s = 0;
}

static void test_leases_and_ceilings(void **state)
{
	(void)state;
	for (size_t a = 0; a < UNIT_LEN(offs); a++) {
		off_s = offs[a];
		char thread[16];
		snprintf(thread, sizeof thread, "lease%zu", a);
		struct made m = make_run(thread, true, 30000);
		struct command_started s = start(&m, m.token);
		for (size_t b = 0; b < UNIT_LEN(offs); b++) {
			json_t *o = NULL;
			off_s = offs[b];
			all_duties();
			assert_status(m.id, "running");
			assert_ok(runs_heartbeat(D, C, m.id, m.token, 30000, &o, err));
			json_object_put(o);
			assert_ok(commands_get(D, C, s.id, &o, err));
			assert_string_equal(str_of(o, "status"), "running");
			json_object_put(o);
		}
	}
	/* And what the database says is over is over. */
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs WHERE status = 'running'"), 3);
	free(stand_sql(&st, "UPDATE runs SET lease_expires_at = now() WHERE thread_id = 'lease0'; UPDATE runs SET deadline_at = now() WHERE thread_id = 'lease1'"));
	off_s = -HOUR;
	all_duties();
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs WHERE status = 'running'"), 1);
	assert_int_equal(stand_count(&st, "SELECT count(*) FROM runs WHERE error_code = 'run_timeout'"), 1);
	free(stand_sql(&st, "UPDATE runs SET deadline_at = now() WHERE thread_id = 'lease2'"));
	settle();
	off_s = 0;
}

static void instance_state(const char *id, char dst[32])
{
	json_t *all = stand_state(&st);
	const json_t *list = NULL, *i = NULL;
	assert_int_equal(json_get_obj(all, "instances", true, &list, NULL), 0);
	assert_int_equal(json_get_obj(list, id, true, &i, NULL), 0);
	str_copy(dst, 32, str_of(i, "state"));
	json_object_put(all);
}

/* An instance without a row is left alone for orphan_grace_ms, whatever its id's time says, and destroyed then. */
static void test_orphans(void **state)
{
	(void)state;
	for (size_t a = 0; a < UNIT_LEN(offs); a++)
		for (size_t b = 0; b < UNIT_LEN(offs); b++) {
			char s[32];
			off_s = offs[a];
			D->limits.orphan_grace_ms = 60000;
			struct made m = make_run("orphan", true, 0);
			start(&m, m.token);
			char *iid = stand_sql(&st, "SELECT instance_id FROM runs WHERE thread_id = 'orphan' AND status = 'running'");
			free(stand_sql(&st, "BEGIN; DELETE FROM instances WHERE run_id IN (SELECT id FROM runs WHERE thread_id = 'orphan');"
				"UPDATE runs SET instance_id = NULL WHERE thread_id = 'orphan'; COMMIT"));
			off_s = offs[b];
			for (int i = 0; i < 2; i++)
				assert_int_equal(orphans_instances(D, NULL), 0);
			instance_state(iid, s);
			assert_string_equal(s, "ready");
			usleep(30000);
			D->limits.orphan_grace_ms = 20;
			assert_int_equal(orphans_instances(D, NULL), 1);
			instance_state(iid, s);
			assert_string_equal(s, "gone");
			free(iid);
			free(stand_sql(&st, "UPDATE runs SET deadline_at = now() WHERE thread_id = 'orphan' AND ended_at IS NULL"));
			settle();
		}
	off_s = 0;
}

/* Tokens, keys, ids. */
static void test_the_rest(void **state)
{
	(void)state;
	for (size_t a = 0; a < UNIT_LEN(offs); a++) {
		struct caller c;
		char secret[TOKEN_SECRET_SIZE], bearer[256], key[16], t[LEASE_TOKEN_SIZE];
		json_t *one = NULL, *two = NULL;
		off_s = offs[a];
		assert_ok(tokens_create(D, C, &(struct token_new){ .user = "ann", .kind = CALLER_USER, .lifetime_ms = 60000 }, secret, err));
		snprintf(key, sizeof key, "key%zu", a);
		snprintf(bearer, sizeof bearer, "Bearer %s", secret);
		struct run_new n = { .thread_id = "rest", .idempotency = { .key = key, .body = "b", .body_len = 1 } };
		assert_ok(runs_create(D, C, &n, &one, t, err));
		off_s = offs[(a + 1) % UNIT_LEN(offs)];
		all_duties();
		assert_ok(auth_bearer(D, &(struct auth_request){ .authorization = bearer, .request_id = "r", .address = "a" }, &c, err));
		assert_ok(runs_create(D, C, &n, &two, t, err));
		assert_string_equal(str_of(one, "id"), str_of(two, "id"));
		json_object_put(one);
		json_object_put(two);
	}
	off_s = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_clock_steps), cmocka_unit_test(test_leases_and_ceilings), cmocka_unit_test(test_orphans), cmocka_unit_test(test_the_rest),
	};

	return cmocka_run_group_tests_name("domain_clock", tests, up, down);
}
