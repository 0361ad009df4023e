/* The executor's books on instances: what is on disk when, what a restart makes of it, tombstones, repeated destruction. */
#include "unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/instances.h"

#define A "aaaaaaaa-2222-4333-8444-555555555555"
#define B "bbbbbbbb-2222-4333-8444-555555555555"
#define C "cccccccc-2222-4333-8444-555555555555"

/* A provider that notes what it is asked and says what the test wants. */
static struct {
	const struct provider_events *events;
	void *arg;
	unsigned creates, adopts, destroys;
	bool adopted_ready, refuse_create;
} fake;

static struct loop *loop;
static struct config *config;
static struct instances *is;
static char dir[128];
static int dir_fd = -1;
static unsigned changes, connections;
static enum instance_state last_state;

static bool on_disk(const char *id, const char *file)
{
	char path[256];

	str_fmt(path, sizeof(path), "instances/%s/%s", id, file);
	return faccessat(dir_fd, path, F_OK, 0) == 0;
}

static bool disk_says(const char *id, const char *text)
{
	char path[256];
	cleanup_free char *state = NULL;

	str_fmt(path, sizeof(path), "instances/%s/state", id);
	return io_read_file(dir_fd, path, 8192, &state, NULL, NULL) == 0 && strstr(state, text);
}

static struct provider *fake_open(struct loop *l, const struct config *c, const struct provider_events *ev, void *arg, err_t **err)
{
	(void)l;
	(void)c;
	(void)err;
	fake.events = ev;
	fake.arg = arg;
	return (struct provider *)&fake;
}

static void fake_close(struct provider *p)
{
	(void)p;
}

static int fake_create(struct provider *p, const struct instance_spec *s, err_t **err)
{
	(void)p;
	assert_true(on_disk(s->id, "spec.json"));   /* row first */
	fake.creates++;
	return fake.refuse_create ? err_set(err, ERR_UNAVAILABLE, NULL, "no") : 0;
}

static int fake_adopt(struct provider *p, const struct instance_spec *s, enum instance_was was, err_t **err)
{
	(void)p;
	(void)err;
	assert_string_equal(s->workspace, "w");
	fake.adopts++;
	fake.adopted_ready = was == INSTANCE_WAS_READY;
	return 0;
}

static int fake_destroy(struct provider *p, const char *id, err_t **err)
{
	(void)p;
	(void)err;
	assert_true(disk_says(id, "\"destroying\""));
	fake.destroys++;
	return 0;
}

static void fake_sweep(struct provider *p, bool (*known)(void *arg, const char *instance_id), void *arg)
{
	(void)p;
	(void)known;
	(void)arg;
}

static bool fake_enforced(struct provider *p, const char *id)
{
	(void)p;
	(void)id;
	return true;
}

static const struct provider_ops fake_ops = {
	.name = "container", .open = fake_open, .close = fake_close, .create = fake_create, .adopt = fake_adopt, .destroy = fake_destroy, .sweep = fake_sweep,
	.enforced = fake_enforced,
};

/* Takes the place of the registry's. */
const struct provider_ops *provider_find(const char *name, err_t **err)
{
	(void)name;
	(void)err;
	return &fake_ops;
}

static void on_changed(void *arg, struct instance *i)
{
	(void)arg;
	changes++;
	last_state = instance_state(i);
	assert_true(disk_says(instance_id(i), instance_state_name(last_state)));   /* written before it is told */
}

static void on_connected(void *arg, struct instance *i)
{
	(void)arg;
	(void)i;
	connections++;
}

static const struct instances_events events = { .changed = on_changed, .connected = on_connected };

static void tell(const char *id, enum instance_event ev)
{
	cleanup_err err_t *err = NULL;

	if (ev == INSTANCE_FAILED || ev == INSTANCE_EXITED || ev == INSTANCE_DESTROY_FAILED)
		err_set(&err, ERR_UNAVAILABLE, "image_missing", "no image \"x\"");
	fake.events->instance(fake.arg, id, ev, err);
}

static void start(void)
{
	is = instances_open(loop, config, dir_fd, &events, NULL, NULL);
	assert_non_null(is);
}

static void restart(void)
{
	instances_close(is);
	start();
}

static int set_up(void **state)
{
	char path[256];

	(void)state;
	memset(&fake, 0, sizeof(fake));
	changes = connections = 0;
	dir_fd = open(unit_tmpdir(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	str_fmt(path, sizeof(path), "%s/ini", dir);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs("[executor]\nmax_instances = 2\n", f);
	fclose(f);
	config = config_load(path, NULL);
	assert_non_null(config);
	loop = loop_new(NULL);
	start();
	return 0;
}

static int tear_down(void **state)
{
	char *slash = strrchr(dir, '/');

	(void)state;
	instances_close(is);
	loop_free(loop);
	config_free(config);
	close(dir_fd);
	*slash = '\0';
	cleanup_close int parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return io_remove_tree(parent, slash + 1, NULL);
}

static struct instance *ensure(const char *id)
{
	struct instance *i = NULL;

	assert_int_equal(instances_ensure(is, id, "w", NULL, &i, NULL), 0);
	return i;
}

static void refused(const char *id, const char *workspace, enum err_code code, const char *detail)
{
	struct instance *i = NULL;
	cleanup_err err_t *err = NULL;

	assert_int_equal(instances_ensure(is, id, workspace, NULL, &i, &err), -1);
	assert_int_equal(err_code(err), code);
	assert_string_equal(err_detail(err), detail);
}

static void made_once(void **state)
{
	(void)state;
	assert_ptr_equal(ensure(A), ensure(A));
	assert_int_equal(fake.creates, 1);
	assert_int_equal(instance_state(instances_find(is, A)), INSTANCE_CREATING);
	refused("A", "w", ERR_INVALID, "bad_id");
	refused("../../../../etc/passwd", "w", ERR_INVALID, "bad_id");
	refused(B, "../w", ERR_INVALID, "bad_workspace");
	assert_false(on_disk(B, "spec.json"));
	ensure(B);
	refused(C, "w", ERR_LIMIT, "too_many_instances");
}

static void a_create_that_did_nothing_leaves_nothing(void **state)
{
	(void)state;
	fake.refuse_create = true;
	refused(A, "w", ERR_UNAVAILABLE, "unavailable");
	assert_null(instances_find(is, A));
	assert_false(on_disk(A, "spec.json"));
	fake.refuse_create = false;
	ensure(A);
}

static void ready_and_taken_up_again(void **state)
{
	(void)state;
	struct instance *i = ensure(A);
	tell(A, INSTANCE_READY);
	assert_int_equal(instance_state(i), INSTANCE_IS_READY);
	assert_int_equal(changes, 1);
	assert_int_equal(connections, 1);
	tell(A, INSTANCE_READY);              /* as an answer to lookup(): the agent told nothing anew */
	assert_int_equal(connections, 1);
	tell(A, INSTANCE_LOST_CONTACT);
	tell(A, INSTANCE_READY);
	assert_int_equal(changes, 1);
	assert_int_equal(connections, 2);
	restart();
	assert_int_equal(fake.adopts, 1);
	assert_true(fake.adopted_ready);
	assert_int_equal(fake.creates, 1);
	tell(A, INSTANCE_EXITED);
	assert_int_equal(last_state, INSTANCE_IS_LOST);
}

static void half_made_is_taken_up(void **state)
{
	(void)state;
	ensure(A);
	restart();
	assert_int_equal(fake.adopts, 1);
	assert_false(fake.adopted_ready);
}

static void failure_is_kept_with_its_reason(void **state)
{
	(void)state;
	ensure(A);
	tell(A, INSTANCE_FAILED);
	restart();
	struct instance *i = instances_find(is, A);
	assert_int_equal(instance_state(i), INSTANCE_IS_FAILED);
	assert_string_equal(instance_error_code(i), "image_missing");
	assert_int_equal(fake.adopts, 0);
	cleanup_json json_t *o = instance_json(i, 3);
	assert_non_null(strstr(json_text(o, NULL), "\"error\":{\"code\":\"image_missing\",\"message\":\"no image \\\"x\\\"\"}"));
	assert_non_null(strstr(json_text(o, NULL), "\"commands\":3"));
}

static void destroyed_for_good(void **state)
{
	(void)state;
	struct instance *i = ensure(A);
	tell(A, INSTANCE_READY);
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	assert_int_equal(last_state, INSTANCE_DESTROYING);
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	assert_int_equal(fake.destroys, 1);
	refused(A, "w", ERR_GONE, "instance_gone");
	restart();
	assert_int_equal(fake.destroys, 2);   /* not confirmed: asked for again */
	tell(A, INSTANCE_READY);              /* an old word changes nothing */
	assert_int_equal(instance_state(instances_find(is, A)), INSTANCE_DESTROYING);
	tell(A, INSTANCE_GONE);
	assert_int_equal(last_state, INSTANCE_IS_GONE);
	refused(A, "w", ERR_GONE, "instance_gone");
	restart();
	assert_int_equal(fake.destroys, 2);
	refused(A, "w", ERR_GONE, "instance_gone");
	ensure(B);
	ensure(C);   /* a tombstone does not count */
}

static void never_seen_is_a_tombstone_at_once(void **state)
{
	struct instance *i = NULL;

	(void)state;
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	assert_int_equal(instance_state(i), INSTANCE_IS_GONE);
	assert_int_equal(fake.destroys, 0);
	refused(A, "w", ERR_GONE, "instance_gone");
	restart();
	refused(A, "w", ERR_GONE, "instance_gone");
	assert_int_equal(instances_destroy(is, "nonsense", &i, NULL), -1);
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
	bury(A, 1);
	bury(B, 0);   /* nobody has acknowledged it: stays longer */
	restart();
	assert_null(instances_find(is, A));
	assert_false(on_disk(A, "spec.json"));
	assert_non_null(instances_find(is, B));
}

/* What is gone and acknowledged needs no directory and stays refused, also after a restart. */
static void only_the_id_stays(void **state)
{
	struct instance *i = NULL;

	(void)state;
	ensure(A);
	tell(A, INSTANCE_READY);
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	tell(A, INSTANCE_GONE);
	assert_true(on_disk(A, "state"));
	instance_ack(i, instance_version(i) - 1);
	assert_true(on_disk(A, "state"));
	instance_ack(i, instance_version(i));
	assert_false(on_disk(A, "."));
	assert_int_equal(instances_tombstones(is), 1);
	for (int round = 0; round < 2; round++) {
		refused(A, "w", ERR_GONE, "instance_gone");
		assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
		assert_string_equal(instance_id(i), A);
		assert_int_equal(instance_state(instances_find(is, A)), INSTANCE_IS_GONE);
		instance_ack(instances_find(is, A), 3);   /* again */
		assert_int_equal(instances_tombstones(is), 1);
		restart();
	}
	assert_int_equal(fake.destroys, 1);
	ensure(B);
	ensure(C);
}

static void on_time(void *arg)
{
	(void)arg;
	if (fake.destroys >= 2)
		loop_stop(loop);
}

static void destruction_is_repeated(void **state)
{
	struct instance *i = NULL;
	struct loop_timer *t = loop_timer_new(loop, on_time, NULL);

	(void)state;
	ensure(A);
	instances_destroy(is, A, &i, NULL);
	tell(A, INSTANCE_DESTROY_FAILED);
	assert_int_equal(fake.destroys, 1);
	loop_timer_set(t, 1400);
	loop_run(loop, NULL);
	loop_timer_free(t);
	assert_int_equal(fake.destroys, 2);
}

static void acknowledgements_outlive_us(void **state)
{
	(void)state;
	struct instance *i = ensure(A);
	tell(A, INSTANCE_READY);
	uint64_t v = instance_version(i);
	assert_int_equal(instance_acked(i), 0);
	instance_ack(i, v + 1);   /* from nowhere */
	assert_int_equal(instance_acked(i), 0);
	instance_ack(i, v);
	restart();
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
	fake.events->instance(fake.arg, A, INSTANCE_FAILED, err);
	restart();
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
	is = instances_open(loop, config, dir_fd, &events, NULL, &err);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_null(is);
	assert_int_equal(err_code(err), ERR_LIMIT);
	start();
	assert_non_null(instances_find(is, A));
}

static void damaged_directories_stop_nothing(void **state)
{
	(void)state;
	ensure(A);
	tell(A, INSTANCE_READY);
	mkdirat(dir_fd, "instances/" B, 0700);                /* died before the spec was there */
	mkdirat(dir_fd, "instances/not-an-id", 0700);
	mkdirat(dir_fd, "instances/" C, 0700);
	cleanup_close int fd = openat(dir_fd, "instances/" C, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(io_write_file(fd, "spec.json", "{\"wor", 6, 0600, 0, NULL), 0);
	restart();
	assert_int_equal(instance_state(instances_find(is, A)), INSTANCE_IS_READY);
	assert_null(instances_find(is, B));
	assert_int_equal(faccessat(dir_fd, "instances/" B, F_OK, 0), -1);
	assert_null(instances_find(is, C));
	assert_true(on_disk(C, "spec.json"));                  /* for a person to look at */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(made_once), CASE(a_create_that_did_nothing_leaves_nothing), CASE(ready_and_taken_up_again), CASE(half_made_is_taken_up),
		CASE(failure_is_kept_with_its_reason), CASE(destroyed_for_good), CASE(never_seen_is_a_tombstone_at_once), CASE(tombstones_expire), CASE(only_the_id_stays),
		CASE(destruction_is_repeated),
		CASE(acknowledgements_outlive_us), CASE(commands_need_a_ready_instance), CASE(damaged_directories_stop_nothing),
		CASE(long_reasons_are_cut_between_characters), CASE(unreadable_books_stop_the_start),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
