/* The executor's books on instances: what is on disk when, what a restart makes of it, tombstones, repeated destruction. */
#include "instances_kit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"

#define E "eeeeeeee-2222-4333-8444-555555555555"
#define F "ffffffff-2222-4333-8444-555555555555"

/* Instances of one Run each. */
static int set_up(void **state)
{
	kit_set_up(state);
	caps = 0;
	kit_restart();
	return 0;
}

static struct instance *ensure(const char *id)
{
	return kit_ensure(id, "w", NULL);
}

static void refused(const char *id, const char *workspace, enum err_code code, const char *detail)
{
	struct instance *i = NULL;

	REFUSED(instances_ensure(is, id, workspace, NULL, &i, &err), code, detail);
}

static void made_once(void **state)
{
	(void)state;
	assert_ptr_equal(ensure(A), ensure(A));
	CALLS("create a");
	assert_int_equal(instance_state(instances_find(is, A)), INSTANCE_CREATING);
	refused("A", "w", ERR_INVALID, "bad_id");
	refused("../../../../etc/passwd", "w", ERR_INVALID, "bad_id");
	refused(B, "../w", ERR_INVALID, "bad_workspace");
	assert_false(kit_on_disk(B, "spec.json"));
	ensure(B);
	ensure(C);
	refused(D, "w", ERR_LIMIT, "too_many_instances");
}

static void a_create_that_did_nothing_leaves_nothing(void **state)
{
	(void)state;
	kit_fake.fails = ERR_UNAVAILABLE;
	refused(A, "w", ERR_UNAVAILABLE, "unavailable");
	assert_null(instances_find(is, A));
	assert_false(kit_on_disk(A, "spec.json"));
	kit_fake.fails = 0;
	ensure(A);
}

static void ready_and_taken_up_again(void **state)
{
	(void)state;
	struct instance *i = ensure(A);
	kit_say(A, INSTANCE_READY);
	assert_int_equal(instance_state(i), INSTANCE_IS_READY);
	TOLD("ready a, connected a");
	kit_say(A, INSTANCE_READY);              /* as an answer to lookup(): the agent told nothing anew */
	TOLD("");
	kit_say(A, INSTANCE_LOST_CONTACT);
	kit_say(A, INSTANCE_READY);
	TOLD("connected a");
	CALLS("create a");
	kit_restart();
	CALLS("adopt-ready a");
	assert_string_equal(kit_fake.workspace, "w");
	kit_say(A, INSTANCE_EXITED);
	TOLD("lost a");
}

static void half_made_is_taken_up(void **state)
{
	(void)state;
	ensure(A);
	kit_restart();
	CALLS("create a, adopt-made a");
}

static void failure_is_kept_with_its_reason(void **state)
{
	cleanup_err err_t *err = NULL;

	(void)state;
	ensure(A);
	err_set(&err, ERR_UNAVAILABLE, "image_missing", "no image \"x\"");
	kit_fake.events->instance(kit_fake.arg, A, INSTANCE_FAILED, err);
	kit_restart();
	struct instance *i = instances_find(is, A);
	assert_int_equal(instance_state(i), INSTANCE_IS_FAILED);
	assert_string_equal(instance_error_code(i), "image_missing");
	CALLS("create a");
	cleanup_json json_t *o = instance_json(i, 3);
	assert_non_null(strstr(json_text(o, NULL), "\"error\":{\"code\":\"image_missing\",\"message\":\"no image \\\"x\\\"\"}"));
	assert_non_null(strstr(json_text(o, NULL), "\"commands\":3"));
}

static void destroyed_for_good(void **state)
{
	(void)state;
	struct instance *i = kit_ready(A);
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	TOLD("destroying a");
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	CALLS("destroy a");
	refused(A, "w", ERR_GONE, "instance_gone");
	kit_restart();
	CALLS("destroy a");                      /* not confirmed: asked for again */
	kit_say(A, INSTANCE_READY);              /* an old word changes nothing */
	STATE(A, "destroying");
	kit_say(A, INSTANCE_GONE);
	TOLD("gone a");
	refused(A, "w", ERR_GONE, "instance_gone");
	kit_restart();
	CALLS("");
	refused(A, "w", ERR_GONE, "instance_gone");
	ensure(B);
	ensure(C);
	ensure(D);   /* a tombstone does not count */
}

/* Our books may be new and the instance old: it is gone when the provider says so. */
static void never_seen_is_destroyed_like_any_other(void **state)
{
	struct instance *i = NULL;

	(void)state;
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	STATE(A, "destroying");
	TOLD("destroying a");
	CALLS("destroy a");
	assert_true(kit_text_is(A, "created_at", NULL));
	assert_true(kit_text_is(A, "running_ms", NULL));   /* not 0: what was counted before holds */
	refused(A, "w", ERR_GONE, "instance_gone");
	kit_restart();
	CALLS("destroy a");
	refused(A, "w", ERR_GONE, "instance_gone");
	kit_say(A, INSTANCE_GONE);
	TOLD("gone a");
	kit_restart();
	CALLS("");
	refused(A, "w", ERR_GONE, "instance_gone");
	assert_int_equal(instances_destroy(is, "nonsense", &i, NULL), -1);
}

/* Nobody knows whether there is anything of it, and a provider that is away may not tell for long. */
static void never_seen_takes_no_place(void **state)
{
	struct instance *i = NULL;

	(void)state;
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	kit_restart();
	kit_ensure(B, "w", NULL);
	kit_ensure(C, "x", NULL);
	kit_ensure(D, "y", E);            /* an id never seen, too */
	refused(F, "z", ERR_LIMIT, "too_many_instances");
	kit_say(A, INSTANCE_GONE);
	kit_say(E, INSTANCE_GONE);
	refused(F, "z", ERR_LIMIT, "too_many_instances");   /* and gives none back */
}

static void bury(const char *id, uint64_t acked)
{
	char text[512];
	cleanup_close int fd = -1;

	str_fmt(text, sizeof(text), "instances/%s", id);
	fd = openat(dir_fd, text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	str_fmt(text, sizeof(text), "{\"state\":\"gone\",\"was_ready\":false,\"enforced\":false,\"created_ms\":1,\"ready_ms\":0,\"gone_ms\":%lld,"
		"\"version\":1,\"acked\":%llu,\"error_code\":\"\",\"error_message\":\"\"}", (long long)clock_wall_ms() - 2 * 86400000, (unsigned long long)acked);
	assert_int_equal(io_write_file(fd, "state", text, strlen(text), 0600, 0, NULL), 0);
}

static void tombstones_expire(void **state)
{
	struct instance *i = NULL;

	(void)state;
	instances_destroy(is, A, &i, NULL);
	instances_destroy(is, B, &i, NULL);
	kit_say(A, INSTANCE_GONE);
	kit_say(B, INSTANCE_GONE);
	bury(A, 1);
	bury(B, 0);   /* nobody has acknowledged it: stays longer */
	kit_restart();
	assert_null(instances_find(is, A));
	assert_false(kit_on_disk(A, "spec.json"));
	assert_non_null(instances_find(is, B));
}

/* What is gone and acknowledged needs no directory and stays refused, also after a restart. */
static void only_the_id_stays(void **state)
{
	struct instance *i = NULL;

	(void)state;
	kit_ready(A);
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	kit_say(A, INSTANCE_GONE);
	assert_true(kit_on_disk(A, "state"));
	instance_ack(i, instance_version(i) - 1);
	assert_true(kit_on_disk(A, "state"));
	instance_ack(i, instance_version(i));
	assert_false(kit_on_disk(A, "."));
	assert_int_equal(instances_tombstones(is), 1);
	for (int round = 0; round < 2; round++) {
		refused(A, "w", ERR_GONE, "instance_gone");
		assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
		assert_string_equal(instance_id(i), A);
		assert_int_equal(instance_state(instances_find(is, A)), INSTANCE_IS_GONE);
		instance_ack(instances_find(is, A), 3);   /* again */
		assert_int_equal(instances_tombstones(is), 1);
		kit_restart();
	}
	CALLS("destroy a");
	ensure(B);
	ensure(C);
	ensure(D);
}

static void destruction_is_repeated(void **state)
{
	struct instance *i = NULL;

	(void)state;
	kit_ready(A);
	instances_destroy(is, A, &i, NULL);
	kit_say(A, INSTANCE_DESTROY_FAILED);
	CALLS("destroy a");
	kit_run_for(1400);
	CALLS("destroy a");
}

static void acknowledgements_outlive_us(void **state)
{
	(void)state;
	struct instance *i = kit_ready(A);
	uint64_t v = instance_version(i);
	assert_int_equal(instance_acked(i), 0);
	instance_ack(i, v + 1);   /* from nowhere */
	assert_int_equal(instance_acked(i), 0);
	instance_ack(i, v);
	kit_restart();
	i = instances_find(is, A);
	assert_int_equal(instance_acked(i), v);
	assert_int_equal(instance_version(i), v);
	instance_ack(i, v - 1);
	assert_int_equal(instance_acked(i), v);
}

static void commands_need_a_ready_instance(void **state)
{
	struct exec_spec s = { .exec_id = B };
	cleanup_err err_t *err = NULL, *none = NULL;

	(void)state;
	assert_int_equal(instances_exec(is, A, &s, &none), -1);
	assert_int_equal(err_code(none), ERR_NOT_FOUND);
	ensure(A);
	assert_int_equal(instances_exec(is, A, &s, &err), -1);
	assert_int_equal(err_code(err), ERR_CONFLICT);
}

/* A long reason in a foreign tongue: the books stay readable. */
static void long_reasons_are_cut_between_characters(void **state)
{
	cleanup_err err_t *err = NULL;

	(void)state;
	ensure(A);
	char text[700];
	for (size_t i = 0; i + 3 < sizeof(text); i += 3)
		memcpy(text + i, "\xe2\x82\xac", 4);
	err_set(&err, ERR_REFUSED, "engine_refused", "%s", text);
	kit_fake.events->instance(kit_fake.arg, A, INSTANCE_FAILED, err);
	kit_restart();
	assert_non_null(instances_find(is, A));
	assert_int_equal(strlen(instance_error_message(instances_find(is, A))), 510);
}

/* What cannot be read just now must not be swept away. */
static void unreadable_books_stop_the_start(void **state)
{
	struct rlimit old, few;
	cleanup_err err_t *err = NULL;

	(void)state;
	ensure(A);
	instances_close(is);
	getrlimit(RLIMIT_NOFILE, &old);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(fd);
	few = (struct rlimit){ (rlim_t)fd + 3, old.rlim_max };   /* the directory, its stream, the instance's: not the file in it */
	setrlimit(RLIMIT_NOFILE, &few);
	is = kit_open(&err);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_null(is);
	assert_int_equal(err_code(err), ERR_LIMIT);
	kit_start();
	assert_non_null(instances_find(is, A));
}

static void damaged_directories_stop_nothing(void **state)
{
	(void)state;
	kit_ready(A);
	mkdirat(dir_fd, "instances/" B, 0700);                /* died before the spec was there */
	mkdirat(dir_fd, "instances/not-an-id", 0700);
	mkdirat(dir_fd, "instances/" C, 0700);
	cleanup_close int fd = openat(dir_fd, "instances/" C, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(io_write_file(fd, "spec.json", "{\"wor", 6, 0600, 0, NULL), 0);
	kit_restart();
	assert_int_equal(instance_state(instances_find(is, A)), INSTANCE_IS_READY);
	assert_null(instances_find(is, B));
	assert_int_equal(faccessat(dir_fd, "instances/" B, F_OK, 0), -1);
	assert_null(instances_find(is, C));
	assert_true(kit_on_disk(C, "spec.json"));                  /* for a person to look at */
}

#define PER_RUN(f) cmocka_unit_test_setup_teardown(f, set_up, kit_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PER_RUN(made_once), PER_RUN(a_create_that_did_nothing_leaves_nothing), PER_RUN(ready_and_taken_up_again), PER_RUN(half_made_is_taken_up),
		PER_RUN(failure_is_kept_with_its_reason), PER_RUN(destroyed_for_good), PER_RUN(never_seen_is_destroyed_like_any_other),
		PER_RUN(never_seen_takes_no_place), PER_RUN(tombstones_expire),
		PER_RUN(only_the_id_stays), PER_RUN(destruction_is_repeated), PER_RUN(acknowledgements_outlive_us), PER_RUN(commands_need_a_ready_instance),
		PER_RUN(damaged_directories_stop_nothing), PER_RUN(long_reasons_are_cut_between_characters), PER_RUN(unreadable_books_stop_the_start),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
