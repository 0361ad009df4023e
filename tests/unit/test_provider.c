/* The contract of provider.h, held by any provider: `test_provider PROVIDER [INI|TEST]` drives one: container, host, ... with a configuration file; scripted or
 * scripted-per-run, all or one test. Without arguments both of these, and then what a careful caller gets from them under each of their faults. */
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "core/json.h"
#include "provider_careful.h"
#include "provider_words.h"
#include "scripted_provider.h"

struct subject {
	const struct provider_ops *ops;
	bool scripted;
	const char *ini;
};

static int set_up(void **state)
{
	const struct subject *s = *state;

	*state = bench_new(s->ops, s->scripted, s->ini);
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;
	unsigned faults = b->events_in_call;

	bench_free(b);
	if (faults)
		fprintf(stderr, "%u events came from within a call\n", faults);
	return faults ? -1 : 0;
}

/* --- instances --- */

static void capabilities_are_those_of_its_name(void **state)
{
	struct bench *b = *state;

	assert_int_equal(b->ops->caps, provider_caps(b->ops->name));
}

/* Name, state and hint of each; at least one says whether the provider is away, and only one that is not well says that it is. */
static void facts_of_its_health(void **state)
{
	struct bench *b = *state;
	cleanup_free char *health = b->ops->health(b->p);
	cleanup_free char *list = health ? str_dupf("[%s]", health) : NULL;
	cleanup_json json_t *facts = list ? json_parse(list, strlen(list), 1u << 20, 8, NULL) : NULL;
	unsigned vital = 0;

	assert_non_null(facts);
	for (size_t i = 0; i < json_object_array_length(facts); i++) {
		const json_t *f = json_object_array_get_idx(facts, i);
		const char *name = NULL, *hint = NULL;
		bool ok = false, away = false;

		assert_int_equal(json_get_str(f, "name", true, &name, NULL), 0);
		assert_int_equal(json_get_str(f, "hint", true, &hint, NULL), 0);
		assert_int_equal(json_get_bool(f, "ok", true, &ok, NULL), 0);
		assert_int_equal(json_get_bool(f, "away", false, &away, NULL), 0);
		vital += json_has(f, "away");
		assert_false(ok && away);
	}
	assert_true(vital > 0);
}

static void made_once_and_removed(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];
	cleanup_err err_t *err = NULL;

	make(b, iid, "w");
	const struct instance_spec again = { iid, "w" };
	assert_int_equal(call(b, create, &again, &err), -1);
	assert_int_equal(err_code(err), ERR_EXISTS);
	enum listed_state is = LISTED_OTHER;
	assert_int_equal(listed(b, iid, &is), 1);
	assert_int_equal(is, LISTED_RUNNING);
	assert_int_equal(bench_count(b, TOLD_INSTANCE, NULL, NULL), 1);
	destroy(b, iid);
	assert_int_equal(listed(b, iid, NULL), 0);
	destroy(b, iid);
	starts_nothing(b, iid, iid);
}

static void a_second_make_makes_no_second(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];

	make(b, iid, "w");
	const struct instance_spec again = { iid, "w" };
	(void)call(b, create, &again, NULL);
	bench_turn(b, BENCH_QUIET_MS);
	assert_int_equal(call(b, list, NULL), 0);
	struct event *e = bench_take(b, TOLD_LIST, NULL, NULL);
	assert_non_null(e);
	for (size_t i = 0; i < e->items_n; i++)
		if (e->items[i].id[0])
			assert_string_equal(e->items[i].id, iid);
}

static void bad_workspaces_are_refused(void **state)
{
	static const char *const bad[] = { "", "../w", "/w", "W", ".w", "w/x", "w\n", "0123456789012345678901234567890123456789012345678901234567890123456789" };
	struct bench *b = *state;
	char iid[ID_SIZE];

	for (size_t i = 0; i < UNIT_LEN(bad); i++) {
		cleanup_err err_t *err = NULL;
		new_id(b, iid);
		const struct instance_spec s = { iid, bad[i] };
		assert_int_equal(call(b, create, &s, &err), -1);
		assert_int_equal(err_code(err), ERR_INVALID);
		assert_int_equal(listed(b, iid, NULL), 0);
	}
}

static void absent(struct bench *b, int rc, const err_t *err, const char *iid)
{
	if (rc == 0)
		assert_int_equal(told(b, iid, ~0u), INSTANCE_EXITED);
	else if (err_code(err) == ERR_REFUSED)
		assert_non_null(strstr(err_detail(err), "_unsupported"));
	else
		assert_int_equal(err_code(err), ERR_NOT_FOUND);
}

static void never_seen_is_absent(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];
	cleanup_err err_t *lookup = NULL, *pause = NULL, *wake = NULL, *keep = NULL;

	new_id(b, iid);
	const struct exec_ref x = { iid, 1 };
	int rc = call(b, lookup, iid, &lookup);
	absent(b, rc, lookup, iid);
	rc = call(b, pause, iid, &pause);
	absent(b, rc, pause, iid);
	rc = call(b, wake, iid, &wake);
	absent(b, rc, wake, iid);
	rc = call(b, keep, iid, 60000, &keep);
	absent(b, rc, keep, iid);
	starts_nothing(b, iid, iid);
	end_scope(b, iid, iid);
	(void)call(b, exec_kill, iid, &x, NULL);
	(void)call(b, exec_signal, iid, &x, SIGTERM, NULL);
	destroy(b, iid);
	assert_int_equal(listed(b, iid, NULL), 0);
}

static void removed_while_it_is_made(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];

	new_id(b, iid);
	const struct instance_spec s = { iid, "w" };
	assert_int_equal(call(b, create, &s, NULL), 0);
	assert_int_equal(call(b, destroy, iid, NULL), 0);
	assert_int_equal(told(b, iid, REMOVED), INSTANCE_GONE);
	bench_turn(b, BENCH_QUIET_MS);
	struct event *last = NULL;
	list_for_each(n, &b->events)
		if (list_entry(n, struct event, node)->kind == TOLD_INSTANCE)
			last = list_entry(n, struct event, node);
	assert_int_equal(last->ev, INSTANCE_GONE);
	assert_int_equal(listed(b, iid, NULL), 0);
}

static void removed_with_all_that_runs(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];

	make(b, iid, "w");
	begin_in(b, iid, iid, cid, "sleep 60");
	(void)pgid_of(b, iid, cid);
	assert_int_equal(call(b, destroy, iid, NULL), 0);
	assert_int_equal(call(b, destroy, iid, NULL), 0);
	assert_int_equal(told(b, iid, REMOVED), INSTANCE_GONE);
	assert_int_equal(listed(b, iid, NULL), 0);
}

/* The executor's books are lost: only the id is left of it, and GONE has to be true. */
static void removed_by_who_never_saw_it(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];

	make(b, iid, "w");
	begin_in(b, iid, iid, cid, "sleep 60");
	(void)pgid_of(b, iid, cid);
	restart(b);
	destroy(b, iid);
	assert_int_equal(listed(b, iid, NULL), 0);
}

static void lookup_says_what_is(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];

	make(b, iid, "w");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(call(b, lookup, iid, NULL), 0);
		assert_int_equal(told(b, iid, ~0u), INSTANCE_READY);
	}
	run(b, iid, iid, "true", 0);
}

/* --- after a restart --- */

static void taken_up_again_while_it_runs(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];

	make(b, iid, "w");
	begin_in(b, iid, iid, cid, "echo one; sleep 1; echo two; exit 5");
	int32_t pgid = pgid_of(b, iid, cid);
	while (!strstr(bench_text(b, cid, 0), "one\n"))
		bench_turn(b, 10);
	restart(b);
	adopt(b, iid, INSTANCE_WAS_READY);
	assert_int_equal(told(b, iid, MADE), INSTANCE_READY);
	struct event *e = bench_take(b, TOLD_STARTED, iid, cid);
	assert_non_null(e);
	assert_true(e->started.adopted);
	assert_int_equal(e->started.pgid, pgid);
	struct exec_exited x = end_of(b, iid, cid);
	assert_int_equal(x.end, EXEC_EXITED);
	assert_int_equal(x.code, 5);
	assert_string_equal(bench_text(b, cid, 0), "one\ntwo\n");
}

/* An end is told until it is acknowledged, and what was written is not lost; afterwards never again. */
static void ends_wait_for_their_acknowledgement(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], kept[ID_SIZE], done[ID_SIZE];

	make(b, iid, "w");
	begin_in(b, iid, iid, done, "exit 1");
	assert_int_equal(end_of(b, iid, done).code, 1);
	ack(b, iid, done);
	begin_in(b, iid, iid, kept, "sleep 0.3; echo kept; exit 2");
	(void)pgid_of(b, iid, kept);
	bench_close(b);
	usleep(600000);
	bench_open(b);
	for (int round = 0; round < 2; round++) {
		adopt(b, iid, INSTANCE_WAS_READY);
		assert_int_equal(told(b, iid, MADE), INSTANCE_READY);
		assert_int_equal(end_of(b, iid, kept).code, 2);
		assert_string_equal(bench_text(b, kept, 0), "kept\n");
		bench_turn(b, BENCH_QUIET_MS);
		assert_int_equal(bench_count(b, TOLD_EXITED, iid, done), 0);
		restart(b);
	}
	adopt(b, iid, INSTANCE_WAS_READY);
	assert_int_equal(told(b, iid, MADE), INSTANCE_READY);
	assert_non_null(bench_take(b, TOLD_EXITED, iid, kept));
	ack(b, iid, kept);
	bench_turn(b, BENCH_QUIET_MS);
	restart(b);
	adopt(b, iid, INSTANCE_WAS_READY);
	assert_int_equal(told(b, iid, MADE), INSTANCE_READY);
	bench_turn(b, BENCH_QUIET_MS);
	assert_int_equal(bench_count(b, TOLD_EXITED, iid, kept), 0);
}

static void what_is_no_more_is_not_made_anew(void **state)
{
	struct bench *b = *state;
	char ready[ID_SIZE], paused[ID_SIZE];

	new_id(b, ready);
	new_id(b, paused);
	adopt(b, ready, INSTANCE_WAS_READY);
	assert_int_equal(told(b, ready, MADE), INSTANCE_EXITED);
	if (can_pause(b)) {
		adopt(b, paused, INSTANCE_WAS_PAUSED);
		assert_int_equal(told(b, paused, MADE | BIT(INSTANCE_PAUSED)), INSTANCE_EXITED);
		assert_int_equal(listed(b, paused, NULL), 0);
	}
	assert_int_equal(listed(b, ready, NULL), 0);
	destroy(b, ready);
}

static void half_made_is_finished(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];

	new_id(b, iid);
	const struct instance_spec s = { iid, "w" };
	assert_int_equal(call(b, create, &s, NULL), 0);
	bench_turn(b, 20);
	restart(b);
	adopt(b, iid, INSTANCE_WAS_MADE);
	cleanup_err err_t *err = NULL;
	assert_int_equal(call(b, adopt, &s, INSTANCE_WAS_MADE, &err), -1);
	assert_int_equal(err_code(err), ERR_EXISTS);
	assert_int_equal(told(b, iid, MADE), INSTANCE_READY);
	assert_int_equal(listed(b, iid, NULL), 1);
	run(b, iid, iid, "true", 0);
}

/* Written down, but the call was never made. */
static void never_made_is_made(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];

	new_id(b, iid);
	adopt(b, iid, INSTANCE_WAS_MADE);
	assert_int_equal(told(b, iid, MADE), INSTANCE_READY);
	assert_int_equal(listed(b, iid, NULL), 1);
}

static bool known_none(void *arg, const char *iid)
{
	(void)arg;
	(void)iid;
	return false;
}

static void a_sweep_takes_no_users_things(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];
	unsigned left = 1;

	make(b, iid, "w");
	restart(b);
	b->in_call++;
	b->ops->sweep(b->p, known_none, NULL);
	b->in_call--;
	for (unsigned tries = 0; tries < 100 && left; tries++) {
		bench_turn(b, b->ops->caps & PROVIDER_PERSISTENT ? BENCH_QUIET_MS : 200);
		left = listed(b, iid, NULL);
		if (b->ops->caps & PROVIDER_PERSISTENT)
			break;
	}
	assert_int_equal(left, b->ops->caps & PROVIDER_PERSISTENT ? 1 : 0);
}

/* --- pause, wake, keep --- */

static void pauses_and_wakes(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];
	enum listed_state is = LISTED_OTHER;
	unsigned bits = BIT(INSTANCE_PAUSED) | BIT(INSTANCE_PAUSE_FAILED) | BIT(INSTANCE_EXITED);

	make(b, iid, "w");
	for (int round = 0; round < 2; round++) {
		for (int again = 0; again < 2; again++) {
			assert_int_equal(call(b, pause, iid, NULL), 0);
			assert_int_equal(told(b, iid, bits), INSTANCE_PAUSED);
		}
		starts_nothing(b, iid, iid);
		assert_int_equal(listed(b, iid, &is), 1);
		assert_int_equal(is, LISTED_PAUSED);
		assert_int_equal(call(b, lookup, iid, NULL), 0);
		assert_int_equal(told(b, iid, ~0u), INSTANCE_PAUSED);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(call(b, wake, iid, NULL), 0);
			assert_int_equal(told(b, iid, MADE | BIT(INSTANCE_WAKE_FAILED)), INSTANCE_READY);
		}
		assert_string_equal(run(b, iid, iid, "echo up", 0), "up\n");
	}
	assert_int_equal(listed(b, iid, NULL), 1);
}

static void paused_is_taken_up_paused(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], scope[ID_SIZE];
	static const enum instance_was was[] = { INSTANCE_WAS_PAUSED, INSTANCE_WAS_READY };

	make(b, iid, "w");
	assert_int_equal(call(b, pause, iid, NULL), 0);
	assert_int_equal(told(b, iid, ~0u), INSTANCE_PAUSED);
	for (size_t i = 0; i < UNIT_LEN(was); i++) {
		restart(b);
		adopt(b, iid, was[i]);
		assert_int_equal(told(b, iid, MADE | BIT(INSTANCE_PAUSED)), INSTANCE_PAUSED);
	}
	id_v4(scope);
	end_scope(b, iid, scope);
	assert_int_equal(call(b, wake, iid, NULL), 0);
	assert_int_equal(told(b, iid, MADE | BIT(INSTANCE_WAKE_FAILED)), INSTANCE_READY);
	assert_string_equal(run(b, iid, iid, "echo up", 0), "up\n");
}

static void files_outlive_a_pause(void **state)
{
	static char name[] = "kept";
	struct bench *b = *state;
	char iid[ID_SIZE], *cat[] = { "cat", "--", name, NULL };
	size_t n;

	make(b, iid, "w");
	write_file(b, iid, FILES, name, "as it was", 9);
	assert_int_equal(call(b, pause, iid, NULL), 0);
	assert_int_equal(told(b, iid, ~0u), INSTANCE_PAUSED);
	restart(b);
	adopt(b, iid, INSTANCE_WAS_PAUSED);
	assert_int_equal(told(b, iid, MADE | BIT(INSTANCE_PAUSED)), INSTANCE_PAUSED);
	assert_int_equal(call(b, wake, iid, NULL), 0);
	assert_int_equal(told(b, iid, MADE | BIT(INSTANCE_WAKE_FAILED)), INSTANCE_READY);
	assert_string_equal(file_op(b, iid, FILES, cat, 0, &n), "as it was");
}

static void paused_is_removed(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];

	make(b, iid, "w");
	assert_int_equal(call(b, pause, iid, NULL), 0);
	assert_int_equal(told(b, iid, ~0u), INSTANCE_PAUSED);
	destroy(b, iid);
	assert_int_equal(listed(b, iid, NULL), 0);
}

static void busy_is_not_paused(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE], cid[ID_SIZE];
	cleanup_err err_t *err = NULL;

	make(b, iid, "w");
	begin_in(b, iid, iid, cid, "sleep 0.6; exit 7");
	(void)pgid_of(b, iid, cid);
	if (call(b, pause, iid, &err) == 0) {
		struct event *e = bench_take_instance(b, iid, ~0u);
		assert_non_null(e);
		assert_int_equal(e->ev, INSTANCE_PAUSE_FAILED);
		assert_int_equal(e->code, ERR_BUSY);
	} else {
		assert_int_equal(err_code(err), ERR_BUSY);
	}
	struct exec_exited x = end_of(b, iid, cid);
	assert_int_equal(x.end, EXEC_EXITED);
	assert_int_equal(x.code, 7);
	ack(b, iid, cid);
	assert_int_equal(call(b, pause, iid, NULL), 0);
	assert_int_equal(told(b, iid, ~0u), INSTANCE_PAUSED);
}

static void unsupported(int rc, const err_t *err)
{
	assert_int_equal(rc, -1);
	assert_int_equal(err_code(err), ERR_REFUSED);
	assert_true(str_suffix(err_detail(err), "_unsupported"));
}

static void what_it_cannot_it_refuses(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];
	cleanup_err err_t *pause = NULL, *wake = NULL;

	make(b, iid, "w");
	int rc = call(b, pause, iid, &pause);
	unsupported(rc, pause);
	rc = call(b, wake, iid, &wake);
	unsupported(rc, wake);
	run(b, iid, iid, "true", 0);
}

static void keeps(void **state)
{
	struct bench *b = *state;
	char iid[ID_SIZE];
	cleanup_err err_t *err = NULL;

	make(b, iid, "w");
	int rc = call(b, keep, iid, 60000, &err);
	if (rc < 0)
		unsupported(rc, err);
	else
		assert_int_equal(told(b, iid, ~0u), INSTANCE_KEPT);
}

/* --- which tests, with whom --- */

static const struct CMUnitTest all_of_them[] = {
	cmocka_unit_test(capabilities_are_those_of_its_name), cmocka_unit_test(facts_of_its_health), cmocka_unit_test(made_once_and_removed), cmocka_unit_test(a_second_make_makes_no_second),
	cmocka_unit_test(bad_workspaces_are_refused), cmocka_unit_test(never_seen_is_absent), cmocka_unit_test(removed_while_it_is_made),
	cmocka_unit_test(removed_with_all_that_runs), cmocka_unit_test(removed_by_who_never_saw_it), cmocka_unit_test(lookup_says_what_is),
	cmocka_unit_test(taken_up_again_while_it_runs),
	cmocka_unit_test(ends_wait_for_their_acknowledgement), cmocka_unit_test(what_is_no_more_is_not_made_anew), cmocka_unit_test(half_made_is_finished),
	cmocka_unit_test(never_made_is_made), cmocka_unit_test(a_sweep_takes_no_users_things), cmocka_unit_test(keeps),
};
static const struct CMUnitTest when_it_pauses[] = {
	cmocka_unit_test(pauses_and_wakes), cmocka_unit_test(paused_is_taken_up_paused), cmocka_unit_test(files_outlive_a_pause),
	cmocka_unit_test(paused_is_removed), cmocka_unit_test(busy_is_not_paused),
};
static const struct CMUnitTest when_it_does_not[] = { cmocka_unit_test(what_it_cannot_it_refuses) };

static struct CMUnitTest tests[256];
static size_t tests_n;

static const char *only;      /* this test alone */

static void add(struct subject *s, const struct CMUnitTest *t, size_t n, const char *label)
{
	for (size_t i = 0; i < n; i++) {
		if (only && !str_eq(only, t[i].name))
			continue;
		assert_true(tests_n < UNIT_LEN(tests));
		tests[tests_n] = t[i];
		tests[tests_n].name = str_dupf("%s: %s", label, t[i].name);
		tests[tests_n].initial_state = s;
		tests[tests_n].setup_func = set_up;
		tests[tests_n++].teardown_func = tear_down;
	}
}

static struct subject subjects[] = {
	{ .ops = &scripted_persistent, .scripted = true }, { .ops = &scripted_per_run, .scripted = true }, { .ops = NULL },
};

static void add_subject(struct subject *s, const char *label)
{
	add(s, all_of_them, UNIT_LEN(all_of_them), label);
	add(s, command_tests, command_tests_n, label);
	if (s->ops->caps & PROVIDER_MOUNTS)
		add(s, mount_tests, mount_tests_n, label);
	if (s->ops->caps & PROVIDER_PAUSE)
		add(s, when_it_pauses, UNIT_LEN(when_it_pauses), label);
	else
		add(s, when_it_does_not, UNIT_LEN(when_it_does_not), label);
}

static int choose(int argc, char **argv)
{
	cleanup_err err_t *err = NULL;
	bool scripted = argc > 1 && str_prefix(argv[1], "scripted");

	only = scripted && argc > 2 ? argv[2] : NULL;
	if (argc < 2) {
		add_subject(&subjects[0], "scripted");
		add_subject(&subjects[1], "scripted-per-run");
		for (size_t i = 0; i < careful_tests_n; i++)
			tests[tests_n++] = careful_tests[i];
	} else if (scripted) {
		add_subject(&subjects[!str_eq(argv[1], "scripted")], argv[1]);
	} else {
		subjects[2].ops = provider_find(argv[1], &err);
		subjects[2].ini = argc > 2 ? argv[2] : NULL;
		if (!subjects[2].ops) {
			fprintf(stderr, "%s\n", err_message(err));
			return -1;
		}
		add_subject(&subjects[2], argv[1]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	log_init("test", getenv("PADDOCK_TEST_LOG") ? LOG_DEBUG : LOG_ERROR);
	signal(SIGPIPE, SIG_IGN);
	if (choose(argc, argv) < 0)
		return 2;
	return _cmocka_run_group_tests("provider", tests, tests_n, NULL, NULL);
}
