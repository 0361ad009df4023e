/* The container provider against an engine that loses answers, lies, clashes, is away or breaks: made once, told truly, gone for sure. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/provider.h"
#include "tests/lib/fake_engine.h"

#define DEADLINE_MS 8000
#define SCOPE "22222222-2222-4333-8444-555555555555"

static struct loop *loop;
static struct provider *provider;
static struct loop_timer *limit, *script;
static void (*script_fn)(void);
static char dir[128];
static enum instance_event seen[32];
static size_t n_seen;
static char last_detail[64];
static enum instance_event stop_at;
static unsigned scopes_ended;
static size_t n_listed;
static bool list_complete;
static char listed_id[64], listed_ref[64];
static enum listed_state listed_as;

/* --- what the provider tells --- */

static void on_instance(void *arg, const char *id, enum instance_event ev, const err_t *err)
{
	(void)arg;
	if (str_eq(id, FAKE_OTHER_IID))
		return;
	assert_string_equal(id, FAKE_IID);
	assert_true(n_seen < UNIT_LEN(seen));
	seen[n_seen++] = ev;
	str_copy(last_detail, sizeof(last_detail), err ? err_detail(err) : "");
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
	assert_string_equal(scope, SCOPE);
	str_copy(last_detail, sizeof(last_detail), err ? err_detail(err) : "");
	scopes_ended++;
	loop_stop(loop);
}

static void on_listed(void *arg, const struct listed *items, size_t n, bool complete, const err_t *err)
{
	(void)arg;
	n_listed = n;
	list_complete = complete;
	str_copy(last_detail, sizeof(last_detail), err ? err_detail(err) : "");
	str_copy(listed_id, sizeof(listed_id), n && items[0].id ? items[0].id : "");
	str_copy(listed_ref, sizeof(listed_ref), n ? items[0].ref : "");
	listed_as = n ? items[0].state : LISTED_OTHER;
	loop_stop(loop);
}

static const struct provider_events events = {
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

static void until(enum instance_event ev)
{
	stop_at = ev;
	loop_timer_set(limit, DEADLINE_MS);
	assert_int_equal(loop_run(loop, NULL), 0);
}

static void later(int64_t ms, void (*fn)(void))
{
	script_fn = fn;
	loop_timer_set(script, ms);
}

/* --- set-up --- */

static struct config *config;

static void write_config(const char *path)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fprintf(f, "[service]\nnode = unit\n[paths]\nworkspaces = %s/ws\n[container]\nagent_dir = %s/agents\nnetwork = none\nruntime_state = %s/runc\n"
		"cgroup_parent = /paddock-unit-test\ncreate_timeout_ms = 3000\n", dir, dir, dir);
	fclose(f);
}

static int set_up(void **state)
{
	char path[256];

	(void)state;
	n_seen = 0;
	scopes_ended = 0;
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

static int tear_down(void **state)
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

static void create(void)
{
	const struct instance_spec s = { .id = FAKE_IID, .workspace = "w" };

	assert_int_equal(provider_container.create(provider, &s, NULL), 0);
	assert_int_equal(n_seen, 0);   /* nothing is told from within the call */
}

static void adopt(enum instance_was was)
{
	const struct instance_spec s = { .id = FAKE_IID, .workspace = "w" };

	assert_int_equal(provider_container.adopt(provider, &s, was, NULL), 0);
}

static void destroy(void)
{
	assert_int_equal(provider_container.destroy(provider, FAKE_IID, NULL), 0);
}

static void gone(void)
{
	char path[256];

	destroy();
	until(INSTANCE_GONE);
	assert_false(fake.exists);
	str_fmt(path, sizeof(path), "%s/agents/" FAKE_IID, dir);
	assert_int_equal(access(path, F_OK), -1);
}

/* --- cases --- */

static void made_and_gone(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
	assert_int_equal(strlen(fake.token), 64);
	gone();
	assert_int_equal(n_seen, 2);
}

static void a_second_create_is_refused(void **state)
{
	const struct instance_spec s = { .id = FAKE_IID, .workspace = "w" }, bad = { .id = "x", .workspace = "../w" };
	cleanup_err err_t *err = NULL;

	(void)state;
	create();
	assert_int_equal(provider_container.create(provider, &s, &err), -1);
	assert_int_equal(err_code(err), ERR_EXISTS);
	assert_int_equal(provider_container.create(provider, &bad, NULL), -1);
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
}

static void stop(void)
{
	loop_stop(loop);
}

static void pass(int64_t ms)
{
	later(ms, stop);
	assert_int_equal(loop_run(loop, NULL), 0);
}

static void destroy_other(void)
{
	assert_int_equal(provider_container.destroy(provider, FAKE_OTHER_IID, NULL), 0);
}

static void create_other(void)
{
	const struct instance_spec s = { .id = FAKE_OTHER_IID, .workspace = "w" };

	assert_int_equal(provider_container.create(provider, &s, NULL), 0);
}

/* Two at once end a Podman 4.3. */
static void creates_go_one_by_one(void **state)
{
	(void)state;
	fake.create_ms = 50;
	create();
	create_other();
	until(INSTANCE_READY);
	while (fake.creates < 2)
		pass(20);
	assert_int_equal(fake.creating_most, 1);
}

static void destroyed_before_its_turn(void **state)
{
	(void)state;
	fake.create_ms = 300;
	create();
	create_other();
	later(50, destroy_other);
	until(INSTANCE_READY);
	pass(50);
	assert_int_equal(fake.creates + fake.creating, 1);
}

/* The engine is left to those that are being made. */
static void removals_give_way(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake.create_ms = 400;
	create_other();
	pass(20);
	destroy();
	pass(200);
	assert_int_equal(fake.removes, 0);
	until(INSTANCE_GONE);
	assert_int_equal(fake.removes, 1);
}

static void a_lost_answer_is_adopted(void **state)
{
	(void)state;
	fake.lose_creates = 1;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
	gone();
}

static void a_create_that_never_was_is_repeated(void **state)
{
	(void)state;
	fake.drop_creates = 1;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 2);
}

static void an_engine_that_comes_back(void **state)
{
	(void)state;
	fake.away = 3;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
	fake.away = 2;
	gone();
}

static void an_engine_that_stays_away(void **state)
{
	(void)state;
	fake.away = 1000;
	create();
	until(INSTANCE_FAILED);
	assert_string_equal(last_detail, "unavailable");
	fake.away = 0;
	gone();
}

static void storage_of_a_killed_create_is_removed(void **state)
{
	(void)state;
	fake.ghost = true;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.removes, 1);
	gone();
}

static void no_image(void **state)
{
	(void)state;
	fake.no_image = true;
	create();
	until(INSTANCE_FAILED);
	assert_string_equal(last_detail, "image_missing");
	gone();
}

static void starts_that_break(void **state)
{
	(void)state;
	fake.break_starts = 2;
	create();
	until(INSTANCE_READY);
	gone();
}

static void starts_that_never_work(void **state)
{
	(void)state;
	fake.break_starts = 100;
	create();
	until(INSTANCE_FAILED);
	assert_string_equal(last_detail, "engine_error");
	gone();
}

static void somebody_else_s_container(void **state)
{
	(void)state;
	fake.exists = fake.foreign = true;
	fake.state = ENGINE_RUNNING;
	adopt(INSTANCE_WAS_MADE);
	until(INSTANCE_FAILED);
	assert_string_equal(last_detail, "foreign_container");
}

static void a_wrong_token(void **state)
{
	(void)state;
	fake.wrong_token = true;
	create();
	until(INSTANCE_FAILED);
	assert_string_equal(last_detail, "create_timeout");
	gone();
}

static void destroyed_while_it_is_made(void **state)
{
	(void)state;
	create();
	later(2, destroy);
	until(INSTANCE_GONE);
	assert_false(fake.exists);
	assert_int_equal(n_seen, 1);
}

static void a_remove_that_lies(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake.lie_removes = 2;
	gone();
	assert_int_equal(fake.removes, 3);
}

static void destroy_of_an_unknown_id(void **state)
{
	(void)state;
	gone();
}

static void adopted_running(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake_agent_hang_up();
	provider_container.close(provider);
	provider = provider_container.open(loop, config, &events, NULL, NULL);
	n_seen = 0;
	adopt(INSTANCE_WAS_READY);
	later(50, fake_agent_dial);
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
	gone();
}

static void adopted_and_no_longer_there(void **state)
{
	(void)state;
	adopt(INSTANCE_WAS_READY);
	until(INSTANCE_EXITED);
	assert_int_equal(fake.creates, 0);
	gone();
}

static void adopted_and_never_made(void **state)
{
	(void)state;
	adopt(INSTANCE_WAS_MADE);
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
}

static void ends_by_itself(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake.state = ENGINE_STOPPED;
	fake_agent_hang_up();
	until(INSTANCE_EXITED);
	assert_int_equal(seen[n_seen - 2], INSTANCE_LOST_CONTACT);
	gone();
}

static void the_agent_dials_again(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake_agent_hang_up();
	until(INSTANCE_LOST_CONTACT);
	later(100, fake_agent_dial);
	until(INSTANCE_READY);
	gone();
}

/* --- what is asked of an instance --- */

static void lookup(void)
{
	assert_int_equal(provider_container.lookup(provider, FAKE_IID, NULL), 0);
}

static void looked_up(void **state)
{
	cleanup_err err_t *err = NULL;

	(void)state;
	assert_int_equal(provider_container.lookup(provider, FAKE_IID, &err), -1);
	assert_int_equal(err_code(err), ERR_NOT_FOUND);
	create();
	lookup();
	assert_int_equal(n_seen, 0);
	until(INSTANCE_AT_IT);
	until(INSTANCE_READY);
	n_seen = 0;
	lookup();
	until(INSTANCE_READY);
	assert_int_equal(n_seen, 1);
	fake.away = 1;
	lookup();
	pass(50);
	assert_int_equal(n_seen, 1);   /* nobody knows */
	fake.state = ENGINE_STOPPED;
	fake_agent_hang_up();
	until(INSTANCE_EXITED);
	n_seen = 0;
	lookup();
	until(INSTANCE_EXITED);
	assert_string_equal(last_detail, "instance_ended");
	gone();
}

static void looked_up_and_failed(void **state)
{
	(void)state;
	fake.no_image = true;
	create();
	until(INSTANCE_FAILED);
	lookup();
	until(INSTANCE_FAILED);
	assert_string_equal(last_detail, "image_missing");
	gone();
}

static void never_paused(void **state)
{
	cleanup_err err_t *err = NULL, *other = NULL;

	(void)state;
	create();
	until(INSTANCE_READY);
	assert_int_equal(provider_container.pause(provider, FAKE_IID, &err), -1);
	assert_int_equal(err_code(err), ERR_REFUSED);
	assert_string_equal(err_detail(err), "pause_unsupported");
	assert_int_equal(provider_container.wake(provider, FAKE_IID, &other), -1);
	assert_string_equal(err_detail(other), "pause_unsupported");
	assert_int_equal(provider_container.caps, provider_caps("container"));
	assert_int_equal(provider_caps("container") & PROVIDER_PAUSE, 0);
	assert_int_equal(provider_caps("nothing"), 0);
	gone();
}

static void kept(void **state)
{
	cleanup_err err_t *err = NULL;

	(void)state;
	assert_int_equal(provider_container.keep(provider, FAKE_IID, 1000, &err), -1);
	assert_int_equal(err_code(err), ERR_NOT_FOUND);
	create();
	assert_int_equal(provider_container.keep(provider, FAKE_IID, 1000, NULL), 0);
	until(INSTANCE_KEEP_FAILED);
	assert_string_equal(last_detail, "instance_not_ready");
	until(INSTANCE_READY);
	assert_int_equal(provider_container.keep(provider, FAKE_IID, 1000, NULL), 0);
	until(INSTANCE_KEPT);
	gone();
}

static void until_listed(void)
{
	assert_int_equal(provider_container.list(provider, NULL), 0);
	loop_timer_set(limit, DEADLINE_MS);
	assert_int_equal(loop_run(loop, NULL), 0);
}

static void listed(void **state)
{
	(void)state;
	until_listed();
	assert_int_equal(n_listed, 0);
	assert_true(list_complete);
	create();
	until(INSTANCE_READY);
	until_listed();
	assert_int_equal(n_listed, 1);
	assert_string_equal(listed_id, FAKE_IID);
	assert_string_equal(listed_ref, FAKE_NAME);
	assert_int_equal(listed_as, LISTED_RUNNING);
	fake.foreign = true;
	until_listed();
	assert_string_equal(listed_id, "");
	fake.foreign = false;
	fake.away = 1;
	until_listed();
	assert_int_equal(n_listed, 0);
	assert_false(list_complete);
	assert_string_equal(last_detail, "unavailable");
	gone();
}

/* --- the ends of scopes --- */

static void scope_end(void)
{
	unsigned before = scopes_ended;

	assert_int_equal(provider_container.scope_end(provider, FAKE_IID, SCOPE, NULL), 0);
	assert_int_equal(scopes_ended, before);   /* nothing is told from within the call */
}

/* Confirmed, or why not. */
static void until_scope(const char *detail)
{
	unsigned before = scopes_ended;

	stop_at = (enum instance_event)-1;
	loop_timer_set(limit, DEADLINE_MS);
	assert_int_equal(loop_run(loop, NULL), 0);
	assert_int_equal(scopes_ended, before + 1);
	assert_string_equal(last_detail, detail);
}

static int exec_in_scope(err_t **err)
{
	const struct exec_spec s = { .exec_id = "e", .scope = SCOPE, .command = "true", .cwd = "/", .timeout_ms = 1000 };

	return provider_container.exec(provider, FAKE_IID, &s, err);
}

static void assert_scope_is_over(void)
{
	cleanup_err err_t *err = NULL;

	assert_int_equal(exec_in_scope(&err), -1);
	assert_int_equal(err_code(err), ERR_GONE);
	assert_string_equal(err_detail(err), "scope_gone");
}

static void a_scope_of_nobody(void **state)
{
	(void)state;
	scope_end();
	until_scope("");
}

static void a_scope_before_it_was_ready(void **state)
{
	(void)state;
	create();
	scope_end();
	until_scope("");
	until(INSTANCE_READY);
	assert_scope_is_over();
	gone();
}

static void agent_answers(void)
{
	fake_agent_scope_ended(SCOPE);
}

static void a_scope_ends_with_the_agent_s_word(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	assert_int_equal(exec_in_scope(NULL), 0);
	scope_end();
	pass(50);
	assert_int_equal(scopes_ended, 0);
	assert_int_equal(fake_agent_scope_ends(SCOPE), 1);
	assert_scope_is_over();
	scope_end();                          /* asked twice, told once */
	later(1, agent_answers);
	until_scope("");
	fake_agent_scope_ended(SCOPE);        /* told unasked */
	pass(50);
	assert_int_equal(scopes_ended, 1);
	scope_end();
	later(1, agent_answers);
	until_scope("");
	gone();
}

/* Its answer was lost with the connection. */
static void a_scope_is_asked_again_when_the_agent_is_back(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	scope_end();
	fake_agent_hang_up();
	until(INSTANCE_LOST_CONTACT);
	later(50, fake_agent_dial);
	until(INSTANCE_READY);
	pass(50);
	assert_int_equal(scopes_ended, 0);
	assert_int_equal(fake_agent_scope_ends(SCOPE), 1);
	later(1, agent_answers);
	until_scope("");
	gone();
}

static void a_scope_of_one_that_was_taken_up(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake_agent_hang_up();
	provider_container.close(provider);
	provider = provider_container.open(loop, config, &events, NULL, NULL);
	adopt(INSTANCE_WAS_READY);
	scope_end();                          /* commands may run there: only the agent knows */
	pass(50);
	assert_int_equal(scopes_ended, 0);
	fake_agent_dial();
	until(INSTANCE_READY);
	pass(50);
	assert_int_equal(fake_agent_scope_ends(SCOPE), 1);
	later(1, agent_answers);
	until_scope("");
	gone();
}

static void a_scope_ends_with_its_instance(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	scope_end();
	fake.state = ENGINE_STOPPED;
	fake_agent_hang_up();
	until_scope("");
	assert_int_equal(seen[n_seen - 1], INSTANCE_EXITED);
	scope_end();
	until_scope("");
	destroy();
	scope_end();                          /* on its way out: confirmed when it is gone */
	until_scope("");
	assert_int_equal(seen[n_seen - 1], INSTANCE_GONE);
}

static void an_old_agent_ends_no_scope(void **state)
{
	(void)state;
	fake.old_agent = true;
	create();
	until(INSTANCE_READY);
	scope_end();
	until_scope("scope_unsupported");
	assert_scope_is_over();
	destroy();
	scope_end();
	until_scope("");
	assert_int_equal(seen[n_seen - 1], INSTANCE_GONE);
}

static bool nobody(void *arg, const char *id)
{
	(void)arg;
	(void)id;
	return false;
}

static bool everybody(void *arg, const char *id)
{
	(void)arg;
	(void)id;
	return true;
}

static void sweeps(void **state)
{
	(void)state;
	fake.exists = true;
	fake.state = ENGINE_RUNNING;
	provider_container.sweep(provider, everybody, NULL);
	pass(200);
	assert_true(fake.exists);
	provider_container.sweep(provider, nobody, NULL);
	pass(400);
	assert_false(fake.exists);
	assert_int_equal(n_seen, 0);   /* an orphan's end is nobody's news */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(made_and_gone), CASE(a_second_create_is_refused), CASE(creates_go_one_by_one), CASE(destroyed_before_its_turn),
		CASE(removals_give_way), CASE(a_lost_answer_is_adopted), CASE(a_create_that_never_was_is_repeated),
		CASE(an_engine_that_comes_back), CASE(an_engine_that_stays_away), CASE(storage_of_a_killed_create_is_removed), CASE(no_image),
		CASE(starts_that_break), CASE(starts_that_never_work), CASE(somebody_else_s_container), CASE(a_wrong_token), CASE(destroyed_while_it_is_made),
		CASE(a_remove_that_lies), CASE(destroy_of_an_unknown_id), CASE(adopted_running), CASE(adopted_and_no_longer_there),
		CASE(adopted_and_never_made), CASE(ends_by_itself), CASE(the_agent_dials_again), CASE(sweeps), CASE(looked_up),
		CASE(looked_up_and_failed), CASE(never_paused), CASE(kept), CASE(listed), CASE(a_scope_of_nobody), CASE(a_scope_before_it_was_ready),
		CASE(a_scope_ends_with_the_agent_s_word), CASE(a_scope_is_asked_again_when_the_agent_is_back), CASE(a_scope_of_one_that_was_taken_up),
		CASE(a_scope_ends_with_its_instance), CASE(an_old_agent_ends_no_scope),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
