#include "instances_kit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"

struct kit_fake kit_fake;
struct loop *loop;
struct config *config;
struct instances *is;
char told[1024];
int dir_fd = -1;
unsigned caps;
bool disk_is_full;
static char dir[128];

bool kit_on_disk(const char *id, const char *file)
{
	char path[256];

	str_fmt(path, sizeof(path), "instances/%s/%s", id, file);
	return faccessat(dir_fd, path, F_OK, 0) == 0;
}

bool kit_disk_says(const char *id, const char *text)
{
	char path[256];
	cleanup_free char *state = NULL;

	str_fmt(path, sizeof(path), "instances/%s/state", id);
	return io_read_file(dir_fd, path, 8192, &state, NULL, NULL) == 0 && strstr(state, text);
}

static void note(char *where, size_t size, const char *what, const char *id)
{
	size_t n = strlen(where);

	assert_int_equal(str_fmt(where + n, size - n, "%s%s %c", n ? ", " : "", what, id ? id[0] : '-'), 0);
}

static int called(const char *what, const char *id, err_t **err)
{
	note(kit_fake.calls, sizeof(kit_fake.calls), what, id);
	if (kit_fake.fails && (!kit_fake.fails_call || str_eq(kit_fake.fails_call, what)))
		return err_set(err, kit_fake.fails, kit_fake.detail, "no");
	return 0;
}

static struct provider *fake_open(struct loop *l, const struct config *c, const struct provider_events *ev, void *arg, err_t **err)
{
	(void)l;
	(void)c;
	(void)err;
	kit_fake.events = ev;
	kit_fake.arg = arg;
	return (struct provider *)&kit_fake;
}

static void fake_close(struct provider *p)
{
	(void)p;
}

static int fake_create(struct provider *p, const struct instance_spec *s, err_t **err)
{
	(void)p;
	assert_true(kit_on_disk(s->id, "spec.json"));   /* row first */
	str_copy(kit_fake.workspace, sizeof(kit_fake.workspace), s->workspace);
	return called("create", s->id, err);
}

static int fake_adopt(struct provider *p, const struct instance_spec *s, enum instance_was was, err_t **err)
{
	static const char *const words[] = { "adopt-made", "adopt-ready", "adopt-paused" };

	(void)p;
	str_copy(kit_fake.workspace, sizeof(kit_fake.workspace), s->workspace);
	return called(words[was], s->id, err);
}

static int fake_lookup(struct provider *p, const char *id, err_t **err)
{
	(void)p;
	return called("lookup", id, err);
}

static int fake_pause(struct provider *p, const char *id, err_t **err)
{
	(void)p;
	assert_true(kit_disk_says(id, "\"pausing\""));
	return called("pause", id, err);
}

static int fake_wake(struct provider *p, const char *id, err_t **err)
{
	(void)p;
	assert_true(kit_disk_says(id, "\"waking\""));
	return called("wake", id, err);
}

static int fake_keep(struct provider *p, const char *id, int64_t ms, err_t **err)
{
	(void)p;
	assert_int_equal(ms, 5000);
	return called("keep", id, err);
}

static int fake_destroy(struct provider *p, const char *id, err_t **err)
{
	(void)p;
	assert_true(kit_disk_says(id, "\"destroying\"") || kit_disk_says(id, "\"gone\""));
	return called("destroy", id, err);
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

static struct provider_ops fake_ops = {
	.name = "fake", .open = fake_open, .close = fake_close, .create = fake_create, .adopt = fake_adopt, .lookup = fake_lookup, .pause = fake_pause,
	.wake = fake_wake, .keep = fake_keep, .destroy = fake_destroy, .sweep = fake_sweep, .enforced = fake_enforced,
};

/* Takes the place of the registry's. */
const struct provider_ops *provider_find(const char *name, err_t **err)
{
	(void)name;
	(void)err;
	fake_ops.caps = caps;
	return &fake_ops;
}

static void on_changed(void *arg, struct instance *i)
{
	char quoted[32];

	(void)arg;
	str_fmt(quoted, sizeof(quoted), "\"%s\"", instance_state_name(instance_state(i)));
	if (instance_state(i) != INSTANCE_CREATING && !disk_is_full)
		assert_true(kit_disk_says(instance_id(i), quoted));   /* written before it is told */
	note(told, sizeof(told), instance_state_name(instance_state(i)), instance_id(i));
}

static void on_connected(void *arg, struct instance *i)
{
	(void)arg;
	note(told, sizeof(told), "connected", instance_id(i));
}

static void on_wake_failed(void *arg, struct instance *i)
{
	(void)arg;
	note(told, sizeof(told), "wake-failed", instance_id(i));
}

static void on_kept(void *arg, struct instance *i)
{
	(void)arg;
	note(told, sizeof(told), "kept", instance_id(i));
}

static const struct instances_events events = { .changed = on_changed, .connected = on_connected, .wake_failed = on_wake_failed, .kept = on_kept };

/* The provider speaks. */
void kit_say(const char *id, enum instance_event ev)
{
	cleanup_err err_t *err = NULL;

	if (ev == INSTANCE_FAILED || ev == INSTANCE_EXITED || ev == INSTANCE_DESTROY_FAILED || ev == INSTANCE_WAKE_FAILED || ev == INSTANCE_PAUSE_FAILED ||
	    ev == INSTANCE_KEEP_FAILED)
		err_set(&err, kit_fake.fails ? kit_fake.fails : ERR_UNAVAILABLE, "engine_away", "the engine is away");
	if (ev == INSTANCE_READY && !kit_fake.ran_since)
		kit_fake.ran_since = clock_boot_ms();
	if ((ev == INSTANCE_PAUSED || ev == INSTANCE_EXITED) && kit_fake.ran_since) {
		kit_fake.ran_ms += clock_boot_ms() - kit_fake.ran_since;
		kit_fake.ran_since = 0;
	}
	kit_fake.events->instance(kit_fake.arg, id, ev, err);
}

static void on_time(void *arg)
{
	(void)arg;
	loop_stop(loop);
}

void kit_run_for(int64_t ms)
{
	struct loop_timer *t = loop_timer_new(loop, on_time, NULL);

	loop_timer_set(t, ms);
	loop_run(loop, NULL);
	loop_timer_free(t);
}

struct instances *kit_open(err_t **err)
{
	return instances_open(loop, config, dir_fd, &events, NULL, err);
}

void kit_start(void)
{
	is = kit_open(NULL);
	assert_non_null(is);
}

void kit_restart(void)
{
	instances_close(is);
	kit_start();
}

int kit_set_up(void **state)
{
	char path[256];

	(void)state;
	memset(&kit_fake, 0, sizeof(kit_fake));
	told[0] = '\0';
	caps = PROVIDER_PERSISTENT | PROVIDER_PAUSE;
	dir_fd = open(unit_tmpdir(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	str_fmt(path, sizeof(path), "%s/ini", dir);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs("[executor]\nmax_instances = 3\n[container]\ncreate_timeout_ms = 1000\n[sandbox]\nquarantine_tries = 3\n", f);
	fclose(f);
	config = config_load(path, NULL);
	assert_non_null(config);
	loop = loop_new(NULL);
	kit_start();
	return 0;
}

int kit_tear_down(void **state)
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

struct instance *kit_ensure(const char *id, const char *workspace, const char *replaces)
{
	struct instance *i = NULL;

	assert_int_equal(instances_ensure(is, id, workspace, replaces, &i, NULL), 0);
	return i;
}

struct instance *kit_find(const char *id)
{
	struct instance *i = instances_find(is, id);

	assert_non_null(i);
	return i;
}

void kit_refused(int rc, const err_t *err, enum err_code code, const char *detail)
{
	assert_int_equal(rc, -1);
	assert_int_equal(err_code(err), code);
	assert_string_equal(err_detail(err), detail);
}

static json_t *json_of(const char *id)
{
	return instance_json(kit_find(id), 0);
}

int64_t kit_number(const char *id, const char *key)
{
	cleanup_json json_t *o = json_of(id);
	int64_t v = -1;

	assert_int_equal(json_get_i64(o, key, true, INT64_MIN, INT64_MAX, &v, NULL), 0);
	return v;
}

bool kit_text_is(const char *id, const char *key, const char *want)
{
	cleanup_json json_t *o = json_of(id);
	const char *v = NULL;

	return json_get_str(o, key, false, &v, NULL) == 0 && (want ? v && str_eq(v, want) : !v);
}

struct instance *kit_ready(const char *id)
{
	struct instance *i = kit_ensure(id, "w", NULL);

	kit_say(id, INSTANCE_READY);
	kit_fake.calls[0] = told[0] = '\0';
	return i;
}

struct instance *kit_paused(const char *id)
{
	struct instance *i = kit_ready(id);

	assert_int_equal(instances_pause(is, i, NULL), 0);
	kit_say(id, INSTANCE_PAUSED);
	kit_fake.calls[0] = told[0] = '\0';
	return i;
}
