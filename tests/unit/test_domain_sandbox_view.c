#include "domain_kit.h"

#include <unistd.h>

#include "domain/sandbox.h"
#include "domain/usage.h"
#include "provider/provider.h"

#define IID "00000000-0000-4000-8000-000000000001"
#define OLD "00000000-0000-4000-8000-000000000002"
#define RUN "00000000-0000-4000-8000-0000000000a1"

static void use_backend(const char *name)
{
	str_copy(D->backend, sizeof D->backend, name);
	D->caps = provider_caps(name);
}

static void sql(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void sql(const char *fmt, ...)
{
	char text[4096];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	free(stand_sql(&st, text));
}

/* Ann's sandbox in this state, as the functions of sql/ would have left it. */
static void put(const char *state, const char *provider)
{
	bool none = str_eq(state, "none"), moves = str_eq(state, "creating") || str_eq(state, "rebuilding") || str_eq(state, "pausing") || str_eq(state, "waking");
	sql("DELETE FROM user_sandboxes; DELETE FROM instances; DELETE FROM sb_usage_log");
	sql("INSERT INTO user_sandboxes (user_id, provider, state, generation, instance_id, op_id, op_at, created_at, last_activity_at) "
		"VALUES ('%s', '%s', '%s', 7, %s, %s, now(), %s, '2026-01-02T03:04:05.678Z')", st.caller.user_id, provider, state, none ? "NULL" : "'" IID "'",
		moves ? "gen_random_uuid()" : "NULL", none ? "NULL" : "'2026-01-01T00:00:00Z'");
	if (!none)
		sql("INSERT INTO instances (id, user_id, workspace, generation, usage_reason) VALUES ('" IID "', '%s', 'ann', 7, 'execute')", st.caller.user_id);
}

static json_t *get(void)
{
	json_t *o = NULL;
	assert_ok(sandbox_get(D, C, &o, err));
	return o;
}

static int64_t number_of(const json_t *o, const char *key)
{
	int64_t v = -1;
	assert_int_equal(json_get_i64(o, key, true, INT64_MIN, INT64_MAX, &v, NULL), 0);
	return v;
}

static bool truth_of(const json_t *o, const char *key)
{
	bool v = false;
	assert_int_equal(json_get_bool(o, key, true, &v, NULL), 0);
	return v;
}

static const json_t *member(const json_t *o, const char *key)
{
	const json_t *v = NULL;
	assert_int_equal(json_get_obj(o, key, true, &v, NULL), 0);
	return v;
}

static void assert_blockers(const json_t *o, const char *want)
{
	const json_t *rebuild = member(o, "rebuild"), *list = NULL;
	assert_int_equal(json_get_arr(rebuild, "blockers", true, &list, NULL), 0);
	assert_string_equal(json_text((json_t *)list, NULL), want);
	assert_int_equal(truth_of(rebuild, "allowed"), json_object_array_length(list) == 0);
}

static size_t warnings_of(const json_t *o)
{
	const json_t *list = NULL;
	assert_int_equal(json_get_arr(o, "warnings", true, &list, NULL), 0);
	return json_object_array_length(list);
}

static const char *const members[] = { "backend", "provider", "capabilities", "status", "generation", "paused", "sandbox_id", "created_at", "last_activity_at",
	"idle_timeout_ms", "total_usage_seconds", "active_runs", "active_operations", "cleanup_pending", "rebuild", "warnings", "error" };

static void test_without_one(void **state)
{
	static const char *const backends[] = { "container", "host" };
	(void)state;
	for (size_t i = 0; i < UNIT_LEN(backends); i++) {
		use_backend(backends[i]);
		json_t *o = get();
		assert_int_equal(json_object_object_length(o), UNIT_LEN(members));
		for (size_t k = 0; k < UNIT_LEN(members); k++)
			assert_true(json_object_object_get_ex(o, members[k], NULL));
		assert_string_equal(str_of(o, "backend"), backends[i]);
		assert_string_equal(str_of(o, "provider"), backends[i]);
		assert_string_equal(str_of(o, "status"), "none");
		assert_int_equal(number_of(o, "generation"), 0);
		assert_false(truth_of(o, "paused"));
		assert_null(str_of(o, "sandbox_id"));
		assert_null(str_of(o, "created_at"));
		assert_null(str_of(o, "last_activity_at"));
		assert_int_equal(number_of(o, "idle_timeout_ms"), 300000);
		assert_int_equal(number_of(o, "total_usage_seconds"), 0);
		assert_false(json_has(o, "error"));
		assert_int_equal(truth_of(member(o, "capabilities"), "persistent"), i == 1);
		assert_int_equal(truth_of(member(o, "capabilities"), "pause"), i == 1);
		assert_int_equal(truth_of(member(o, "capabilities"), "release"), i == 1);
		assert_true(truth_of(member(o, "capabilities"), "mounts"));
		assert_false(truth_of(member(o, "capabilities"), "sudo"));
		assert_blockers(o, i == 0 ? "[\"rebuild_unsupported\"]" : "[]");
		const json_t *warnings = NULL;
		assert_int_equal(json_get_arr(o, "warnings", true, &warnings, NULL), 0);
		const char *const *w = provider_warnings(backends[i], st.config);
		for (size_t k = 0; k < json_object_array_length(warnings); k++)
			assert_string_equal(json_object_get_string(json_object_array_get_idx(warnings, k)), *w++);
		assert_null(*w);
		json_object_put(o);
	}
}

static bool warns(const char *word)
{
	json_t *o = get();
	const json_t *list = NULL;
	bool found = false;
	assert_int_equal(json_get_arr(o, "warnings", true, &list, NULL), 0);
	for (size_t i = 0; i < json_object_array_length(list); i++)
		found |= strstr(json_object_get_string(json_object_array_get_idx(list, i)), word) != NULL;
	json_object_put(o);
	return found;
}

/* R1.8: plainly is warned of in every answer, by what is installed now. */
static void test_without_bubblewrap(void **state)
{
	const struct config *was = D->config;
	struct config *c = NULL;
	char path[300];
	(void)state;
	snprintf(path, sizeof path, "%s/bwrap", st.dir);
	setenv("PADDOCK_HOST_BWRAP", path, 1);
	c = config_load(st.config_path, NULL);
	assert_non_null(c);
	D->config = c;
	use_backend("host");
	put("ready", "host");
	assert_true(warns("NO BUBBLEWRAP"));
	assert_true(warns("processes of the server itself"));
	assert_int_equal(symlink("/bin/true", path), 0);
	assert_false(warns("NO BUBBLEWRAP"));
	assert_true(warns("processes of the server itself"));
	assert_int_equal(unlink(path), 0);
	assert_true(warns("NO BUBBLEWRAP"));
	use_backend("container");
	assert_false(warns("BUBBLEWRAP"));
	D->config = was;
	config_free(c);
	unsetenv("PADDOCK_HOST_BWRAP");
}

static void test_each_status(void **state)
{
	static const struct {
		const char *state, *status;
		bool paused, has_id, moves;
	} t[] = {
		{ "none", "none", false, false, false }, { "creating", "creating", false, false, true }, { "rebuilding", "rebuilding", false, false, true },
		{ "ready", "ready", false, true, false }, { "pausing", "ready", false, true, true }, { "paused", "paused", true, true, false },
		{ "waking", "paused", true, true, true }, { "error", "error", false, true, false },
	};
	(void)state;
	use_backend("host");
	size_t plain = 0;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		put(t[i].state, "host");
		json_t *o = get();
		assert_string_equal(str_of(o, "status"), t[i].status);
		assert_int_equal(truth_of(o, "paused"), t[i].paused);
		assert_int_equal(number_of(o, "generation"), 7);
		if (t[i].has_id)
			assert_string_equal(str_of(o, "sandbox_id"), IID);
		else
			assert_null(str_of(o, "sandbox_id"));
		if (i > 0)
			assert_string_equal(str_of(o, "created_at"), "2026-01-01T00:00:00.000Z");
		assert_string_equal(str_of(o, "last_activity_at"), "2026-01-02T03:04:05.678Z");
		assert_blockers(o, t[i].moves ? "[\"operation_in_progress\"]" : "[]");
		if (i == 0)
			plain = warnings_of(o);
		assert_int_equal(warnings_of(o), plain + str_eq(t[i].state, "error"));
		json_object_put(o);
	}
}

static void test_errors_and_names(void **state)
{
	(void)state;
	use_backend("host");
	put("error", "host");
	sql("UPDATE user_sandboxes SET error_code = 'sandbox_not_found', error_message = 'it went', provider_ref = 'vm-17'");
	json_t *o = get();
	assert_string_equal(str_of(o, "sandbox_id"), "vm-17");
	assert_string_equal(str_of(member(o, "error"), "code"), "sandbox_not_found");
	assert_string_equal(str_of(member(o, "error"), "message"), "it went");
	size_t warnings = warnings_of(o);
	json_object_put(o);
	/* A create that failed leaves nothing but its reason. */
	put("none", "host");
	sql("UPDATE user_sandboxes SET error_code = 'instance_failed'");
	o = get();
	assert_string_equal(str_of(o, "status"), "none");
	assert_string_equal(str_of(member(o, "error"), "code"), "instance_failed");
	assert_string_equal(str_of(member(o, "error"), "message"), "");
	assert_int_equal(warnings_of(o), warnings - 1);
	json_object_put(o);
}

static void test_kept_for_longer(void **state)
{
	(void)state;
	use_backend("host");
	put("ready", "host");
	sql("UPDATE user_sandboxes SET keep_until = clock_timestamp() + interval '1 hour'");
	json_t *o = get();
	assert_in_range(number_of(o, "idle_timeout_ms"), 3500000, 3600000);
	json_object_put(o);
	sql("UPDATE user_sandboxes SET keep_until = clock_timestamp() + interval '1 second'");
	o = get();
	assert_int_equal(number_of(o, "idle_timeout_ms"), 300000);
	json_object_put(o);
}

/* A sandbox of a provider that is not the configured one any more. */
static void test_another_provider(void **state)
{
	(void)state;
	put("ready", "daytona");
	use_backend("host");
	json_t *o = get();
	assert_string_equal(str_of(o, "backend"), "host");
	assert_string_equal(str_of(o, "provider"), "daytona");
	assert_string_equal(str_of(o, "status"), "ready");
	assert_blockers(o, "[\"provider_changed\"]");
	size_t warnings = warnings_of(o);
	json_object_put(o);
	put("ready", "host");
	o = get();
	assert_int_equal(warnings_of(o), warnings - 1);
	json_object_put(o);
	use_backend("container");
	o = get();
	assert_string_equal(str_of(o, "provider"), "container");
	assert_string_equal(str_of(o, "status"), "none");
	assert_int_equal(number_of(o, "generation"), 0);
	assert_null(str_of(o, "sandbox_id"));
	assert_null(str_of(o, "last_activity_at"));
	assert_true(warnings_of(o) >= 1);
	assert_blockers(o, "[\"rebuild_unsupported\"]");
	json_object_put(o);
}

/* What the object says stands in the way is what the database's own function says. */
static void test_blockers(void **state)
{
	(void)state;
	use_backend("host");
	put("ready", "host");
	use_backend("container");   /* for Runs with containers of their own: the rows are alike */
	struct made running = make_run("b1", false, 0), cancelled = make_run("b2", false, 0), waiting = make_run("b3", false, 0);
	(void)waiting;
	start(&running, NULL);
	start(&running, NULL);
	start(&cancelled, NULL);
	sql("UPDATE runs SET status = 'cancel_requested', cancel_requested_at = now() WHERE id = '%s'", cancelled.id);
	use_backend("host");
	json_t *o = get();
	assert_int_equal(number_of(o, "active_runs"), 2);
	assert_int_equal(number_of(o, "active_operations"), 3);
	assert_false(truth_of(o, "cleanup_pending"));
	assert_blockers(o, "[\"active_runs\",\"cancel_requested\",\"active_operations\"]");
	json_object_put(o);
	sql("UPDATE user_sandboxes SET state = 'waking', op_id = gen_random_uuid()");
	sql("UPDATE runs SET cleanup_pending = true, cleanup_next_at = now() WHERE id = '%s'", waiting.id);
	o = get();
	char *want = stand_sql(&st, "SELECT to_json(sandbox_blockers(s.user_id, s)) FROM user_sandboxes s"), *at;
	assert_true(truth_of(o, "cleanup_pending"));
	assert_blockers(o, want);
	at = strstr(want, "cleanup_pending");
	assert_non_null(at);
	free(want);
	json_object_put(o);
	sql("UPDATE runs SET cleanup_pending = false, cleanup_next_at = NULL WHERE id = '%s'", waiting.id);
	use_backend("container");
	assert_ok(runs_cancel(D, C, running.id, &o, err));
	json_object_put(o);
	settle();
}

static void bearer_of(const char *user, enum caller_kind kind, char dst[256])
{
	char secret[TOKEN_SECRET_SIZE];
	assert_ok(tokens_create(D, C, &(struct token_new){ .user = user, .kind = kind }, secret, err));
	snprintf(dst, 256, "Bearer %s", secret);
}

/* Nobody sees another's; a service token sees that of the user that it acts for. */
static void test_whose(void **state)
{
	char ann[256], bob[256], robot[256];
	struct caller c;
	json_t *o = NULL;
	(void)state;
	use_backend("host");
	assert_ok(users_create(D, C, "bob", false, &o, err));
	json_object_put(o);
	put("ready", "host");
	snprintf(ann, sizeof ann, "Bearer %s", st.token);
	bearer_of("bob", CALLER_USER, bob);
	bearer_of("bob", CALLER_SERVICE, robot);
	assert_ok(auth_sandbox_get(D, &(struct auth_request){ .authorization = ann }, &c, &o, err));
	assert_string_equal(c.user, "ann");
	assert_string_equal(str_of(o, "sandbox_id"), IID);
	json_object_put(o);
	assert_ok(auth_sandbox_get(D, &(struct auth_request){ .authorization = bob }, &c, &o, err));
	assert_string_equal(str_of(o, "status"), "none");
	json_object_put(o);
	assert_ok(auth_sandbox_get(D, &(struct auth_request){ .authorization = robot, .act_for = "ann" }, &c, &o, err));
	assert_string_equal(c.user, "ann");
	assert_string_equal(c.actor, "bob");
	assert_string_equal(str_of(o, "sandbox_id"), IID);
	json_object_put(o);
	assert_fails(auth_sandbox_get(D, &(struct auth_request){ .authorization = robot }, &c, &o, err), "user_header_required");
	assert_fails(auth_sandbox_get(D, &(struct auth_request){ .authorization = robot, .act_for = "nobody" }, &c, &o, err), "unknown_user");
	assert_fails(auth_sandbox_get(D, &(struct auth_request){ .authorization = bob, .act_for = "ann" }, &c, &o, err), "forbidden");
	bob[strlen(bob) - 1] ^= 1;
	assert_fails(auth_sandbox_get(D, &(struct auth_request){ .authorization = bob }, &c, &o, err), "unauthorized");
}

/* A look changes no row, asks no executor and takes no lock that a change of the sandbox waits for. */
static void test_a_look_changes_nothing(void **state)
{
	static const char all[] = "SELECT md5(string_agg(x, ',')) || txid_snapshot_xmax(txid_current_snapshot()) FROM (SELECT s.xmin || s.ctid::text || s::text AS x FROM user_sandboxes s "
		"UNION ALL SELECT i.xmin || i.ctid::text FROM instances i UNION ALL SELECT l.xmin || l.ctid::text FROM sb_usage_log l) q";
	(void)state;
	use_backend("host");
	put("paused", "host");
	stand_executor_kill(&st);
	char *before = stand_sql(&st, all);
	for (int i = 0; i < 3; i++)
		json_object_put(get());
	json_t *o = NULL;
	assert_ok(usage_read(D, C, NULL, NULL, USAGE_BY_DAY, &o, err));
	json_object_put(o);
	char *after = stand_sql(&st, all);
	assert_string_equal(before, after);
	free(before);
	free(after);
	stand_executor_start(&st);
}

static void add_stretch(const char *begin, const char *end, long ms, const char *reason, const char *run)
{
	sql("INSERT INTO sb_usage_log (user_id, instance_id, generation, provider, reason, run_id, started_at, ended_at, ms) "
		"VALUES ('%s', '" OLD "', 6, 'host', '%s', %s%s%s, '%s', '%s', %ld)", st.caller.user_id, reason, run ? "'" : "", run ? run : "NULL", run ? "'" : "", begin, end, ms);
}

/* {total_seconds, items} of usage as text. */
static void assert_usage(const char *from, const char *to, enum usage_by by, const char *total, const char *items)
{
	json_t *o = NULL, *v = NULL;
	assert_ok(usage_read(D, C, from, to, by, &o, err));
	assert_true(json_object_object_get_ex(o, "total_seconds", &v));
	assert_string_equal(json_text(v, NULL), total);
	assert_true(json_object_object_get_ex(o, "items", &v));
	assert_string_equal(json_text(v, NULL), items);
	json_object_put(o);
}

static void test_usage_sums(void **state)
{
	(void)state;
	put("none", "host");
	/* An hour at noon; two hours over midnight of which it ran half; a day and a bit over two borders; one without length. */
	add_stretch("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z", 3600000, "agent_run", RUN);
	add_stretch("2026-03-01T23:00:00Z", "2026-03-02T01:00:00Z", 3600000, "execute", NULL);
	add_stretch("2026-03-03T18:00:00Z", "2026-03-05T06:00:00Z", 129600000, "verify", NULL);
	add_stretch("2026-03-07T00:00:00Z", "2026-03-07T00:00:00Z", 1234, "wake", NULL);
	assert_usage("2026-03-01", "2026-04-01", USAGE_BY_DAY, "136801.234",
		"[{\"day\":\"2026-03-07\",\"seconds\":1.234},{\"day\":\"2026-03-05\",\"seconds\":21600},{\"day\":\"2026-03-04\",\"seconds\":86400},"
		"{\"day\":\"2026-03-03\",\"seconds\":21600},{\"day\":\"2026-03-02\",\"seconds\":1800},{\"day\":\"2026-03-01\",\"seconds\":5400}]");
	assert_usage("2026-03-01", "2026-04-01", USAGE_BY_REASON, "136801.234",
		"[{\"reason\":\"verify\",\"seconds\":129600},{\"reason\":\"agent_run\",\"seconds\":3600},{\"reason\":\"execute\",\"seconds\":3600},{\"reason\":\"wake\",\"seconds\":1.234}]");
	assert_usage("2026-03-01", "2026-04-01", USAGE_BY_RUN, "136801.234",
		"[{\"run_id\":null,\"seconds\":133201.234},{\"run_id\":\"" RUN "\",\"seconds\":3600}]");
	/* Clipped: half an hour of the first, all that ran on the evening of the second. */
	assert_usage("2026-03-01T12:30:00Z", "2026-03-02", USAGE_BY_REASON, "3600", "[{\"reason\":\"agent_run\",\"seconds\":1800},{\"reason\":\"execute\",\"seconds\":1800}]");
	assert_usage("2026-03-01T12:30:00Z", "2026-03-02T00:30:00+00:00", USAGE_BY_DAY, "4500",
		"[{\"day\":\"2026-03-02\",\"seconds\":900},{\"day\":\"2026-03-01\",\"seconds\":3600}]");
	assert_usage("2026-03-04T01:00:00+01:00", "2026-03-05", USAGE_BY_RUN, "86400", "[{\"run_id\":null,\"seconds\":86400}]");
	/* The end does not belong to the range, the beginning does. */
	assert_usage("2026-03-06", "2026-03-07", USAGE_BY_DAY, "0", "[]");
	assert_usage("2026-03-07", "2026-03-08", USAGE_BY_DAY, "1.234", "[{\"day\":\"2026-03-07\",\"seconds\":1.234}]");
	assert_usage("2025-02-01", "2026-03-01", USAGE_BY_DAY, "0", "[]");
}

static void test_usage_of_others(void **state)
{
	(void)state;
	put("none", "host");
	add_stretch("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z", 3600000, "agent_run", RUN);
	char *bob = stand_sql(&st, "SELECT id FROM users WHERE name = 'bob'");
	struct caller c = st.caller;
	json_t *o = NULL;
	str_copy(c.user_id, sizeof c.user_id, bob);
	free(bob);
	assert_ok(usage_read(D, &c, "2026-03-01", "2026-04-01", USAGE_BY_DAY, &o, err));
	assert_int_equal(number_of(o, "total_seconds"), 0);
	json_object_put(o);
}

/* A stretch that is not over counts up to now, in either answer; not when its sandbox does not run. */
static void test_open_stretch(void **state)
{
	json_t *o = NULL, *v = NULL;
	(void)state;
	use_backend("host");
	put("ready", "host");
	sql("UPDATE user_sandboxes SET usage_ms = 65000, running_at = now() - interval '95 s'");
	sql("INSERT INTO sb_usage_log (user_id, instance_id, generation, provider, reason, started_at, ms) "
		"VALUES ('%s', '" IID "', 7, 'host', 'execute', now() - interval '100 s', 5000)", st.caller.user_id);
	sql("UPDATE instances SET usage_ms = 5000, usage_at = now() - interval '95 s'");
	o = get();
	assert_in_range(number_of(o, "total_usage_seconds"), 160, 220);
	json_object_put(o);
	assert_ok(usage_read(D, C, NULL, NULL, USAGE_BY_REASON, &o, err));
	assert_true(json_object_object_get_ex(o, "total_seconds", &v));
	assert_true(json_object_get_double(v) >= 100 && json_object_get_double(v) < 160);
	json_object_put(o);
	sql("UPDATE sb_usage_log SET ended_at = started_at + interval '5 s'; UPDATE user_sandboxes SET running_at = NULL");
	o = get();
	assert_int_equal(number_of(o, "total_usage_seconds"), 65);
	json_object_put(o);
	assert_ok(usage_read(D, C, NULL, NULL, USAGE_BY_REASON, &o, err));
	assert_int_equal(number_of(o, "total_seconds"), 5);
	json_object_put(o);
}

static void test_bad_ranges(void **state)
{
	static const struct {
		const char *from, *to;
	} bad[] = {
		{ "", NULL }, { NULL, "" }, { "yesterday", NULL }, { NULL, "2026-02-30" }, { "2026-03-01", "2026-03-01" }, { "2026-03-02", "2026-03-01" },
		{ "2024-01-01", "2026-01-01" }, { "9999-12-31", NULL }, { "2026-01-01T00:00:00", NULL }, { "' OR 1=1 --", NULL }, { "1970-01-01", "9999-12-31" },
		{ "9999-12-31", "9999-12-31T23:59:59-00:01" },
	};
	json_t *o = NULL;
	(void)state;
	for (size_t i = 0; i < UNIT_LEN(bad); i++)
		assert_fails(usage_read(D, C, bad[i].from, bad[i].to, USAGE_BY_DAY, &o, err), "bad_time");
	assert_null(o);
	/* At the limit. */
	assert_ok(usage_read(D, C, "2025-01-01", "2026-02-05", USAGE_BY_DAY, &o, err));
	json_object_put(o);
	assert_fails(usage_read(D, C, "2025-01-01", "2026-02-05T00:00:00.001Z", USAGE_BY_DAY, &o, err), "bad_time");
	assert_ok(usage_read(D, C, NULL, "1970-01-01", USAGE_BY_DAY, &o, err));
	assert_string_equal(str_of(o, "from"), "1969-12-02T00:00:00.000Z");
	json_object_put(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_one), cmocka_unit_test(test_without_bubblewrap), cmocka_unit_test(test_each_status), cmocka_unit_test(test_errors_and_names), cmocka_unit_test(test_kept_for_longer),
		cmocka_unit_test(test_another_provider), cmocka_unit_test(test_blockers), cmocka_unit_test(test_whose), cmocka_unit_test(test_a_look_changes_nothing),
		cmocka_unit_test(test_usage_sums), cmocka_unit_test(test_usage_of_others), cmocka_unit_test(test_open_stretch), cmocka_unit_test(test_bad_ranges),
	};
	return cmocka_run_group_tests_name("domain_sandbox_view", tests, up, down);
}
