/* container_stand.c - see container_stand.h. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "tests/lib/container_stand.h"

#define DEADLINE_MS 8000

struct loop *loop;
struct provider *provider;
static struct loop_timer *limit, *script;
static void (*script_fn)(void);
static char dir[128];
struct stand_seen stand;
static enum instance_event stop_at;

/* --- what the provider tells --- */

static void saw_error(const err_t *err)
{
	str_copy(stand.last_detail, sizeof(stand.last_detail), err ? err_detail(err) : "");
	str_copy(stand.last_text, sizeof(stand.last_text), err ? err_message(err) : "");
}

static void on_instance(void *arg, const char *id, enum instance_event ev, const err_t *err)
{
	(void)arg;
	if (str_eq(id, FAKE_OTHER_IID))
		return;
	assert_string_equal(id, FAKE_IID);
	assert_true(stand.n_seen < UNIT_LEN(stand.seen));
	stand.seen[stand.n_seen++] = ev;
	saw_error(err);
	if (ev == stop_at)
		loop_stop(loop);
}

static void on_started(void *arg, const char *id, const char *exec_id, const struct exec_started *s, int out_fd, int err_fd)
{
	(void)arg;
	(void)id;
	(void)exec_id;
	(void)s;
	close(out_fd);
	close(err_fd);
}

static void on_exited(void *arg, const char *id, const char *exec_id, const struct exec_exited *e)
{
	(void)arg;
	(void)id;
	(void)exec_id;
	(void)e;
}

static void on_stdin_taken(void *arg, const char *instance_id, const char *exec_id, uint64_t taken, uint64_t window)
{
	(void)arg;
	(void)instance_id;
	(void)exec_id;
	(void)taken;
	(void)window;
}

static void on_scope_ended(void *arg, const char *instance_id, const char *scope, const err_t *err)
{
	(void)arg;
	assert_string_equal(instance_id, FAKE_IID);
	str_copy(stand.last_scope, sizeof(stand.last_scope), scope);
	saw_error(err);
	stand.scopes_ended++;
	loop_stop(loop);
}

static void on_listed(void *arg, const struct listed *items, size_t n, bool complete, const err_t *err)
{
	(void)arg;
	stand.n_listed = n;
	stand.list_complete = complete;
	saw_error(err);
	str_copy(stand.listed_id, sizeof(stand.listed_id), n && items[0].id ? items[0].id : "");
	str_copy(stand.listed_ref, sizeof(stand.listed_ref), n ? items[0].ref : "");
	stand.listed_as = n ? items[0].state : LISTED_OTHER;
	loop_stop(loop);
}

const struct provider_events events = {
	.instance = on_instance, .started = on_started, .exited = on_exited, .stdin_taken = on_stdin_taken, .scope_ended = on_scope_ended,
	.listed = on_listed,
};

static void on_limit(void *arg)
{
	(void)arg;
	fail_msg("nothing came within %d ms", DEADLINE_MS);
}

static void on_script(void *arg)
{
	(void)arg;
	script_fn();
}

void until(enum instance_event ev)
{
	stop_at = ev;
	loop_timer_set(limit, DEADLINE_MS);
	assert_int_equal(loop_run(loop, NULL), 0);
}

void until_stopped(void)
{
	stop_at = (enum instance_event)-1;
	loop_timer_set(limit, DEADLINE_MS);
	assert_int_equal(loop_run(loop, NULL), 0);
}

void later(int64_t ms, void (*fn)(void))
{
	script_fn = fn;
	loop_timer_set(script, ms);
}

/* --- set-up --- */

struct config *config;

static void write_config(const char *path)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fprintf(f, "[service]\nnode = unit\n[paths]\nworkspaces = %s/ws\n[container]\nagent_dir = %s/agents\nnetwork = none\nruntime_state = %s/runc\n"
		"cgroup_parent = /paddock-unit-test\ncreate_timeout_ms = 3000\n", dir, dir, dir);
	fclose(f);
}

int set_up(void **state)
{
	char path[256];

	(void)state;
	stand = (struct stand_seen){ .n_seen = 0 };
	unit_tmpdir(dir);
	str_fmt(path, sizeof(path), "%s/ws", dir);
	mkdir(path, 0755);
	str_fmt(path, sizeof(path), "%s/agents", dir);
	mkdir(path, 0711);
	str_fmt(path, sizeof(path), "%s/ini", dir);
	write_config(path);
	config = config_load(path, NULL);
	assert_non_null(config);
	loop = loop_new(NULL);
	str_fmt(path, sizeof(path), "%s/agents", dir);
	fake_engine_reset(loop, path);
	limit = loop_timer_new(loop, on_limit, NULL);
	script = loop_timer_new(loop, on_script, NULL);
	provider = provider_container.open(loop, config, &events, NULL, NULL);
	assert_non_null(provider);
	return 0;
}

int tear_down(void **state)
{
	char *slash = strrchr(dir, '/');

	(void)state;
	provider_container.close(provider);
	fake_agent_hang_up();
	loop_timer_free(limit);
	loop_timer_free(script);
	loop_free(loop);
	config_free(config);
	*slash = '\0';
	cleanup_close int parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return io_remove_tree(parent, slash + 1, NULL);
}

void create(void)
{
	const struct instance_spec s = { .id = FAKE_IID, .workspace = "w" };

	assert_int_equal(provider_container.create(provider, &s, NULL), 0);
	assert_int_equal(stand.n_seen, 0);   /* nothing is told from within the call */
}

void adopt(enum instance_was was)
{
	const struct instance_spec s = { .id = FAKE_IID, .workspace = "w" };

	assert_int_equal(provider_container.adopt(provider, &s, was, NULL), 0);
}

void destroy(void)
{
	assert_int_equal(provider_container.destroy(provider, FAKE_IID, NULL), 0);
}

void gone(void)
{
	char path[256];

	destroy();
	until(INSTANCE_GONE);
	assert_false(fake.exists);
	str_fmt(path, sizeof(path), "%s/agents/" FAKE_IID, dir);
	assert_int_equal(access(path, F_OK), -1);
}

static void stop(void)
{
	loop_stop(loop);
}

void pass(int64_t ms)
{
	later(ms, stop);
	assert_int_equal(loop_run(loop, NULL), 0);
}
