/* The container provider against an engine that loses answers, lies, clashes, is away or breaks: made once, told truly, gone for sure. */
#include "unit.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "core/frame_msg.h"
#include "core/unixsock.h"
#include "provider/engine.h"
#include "provider/provider.h"

#define IID "11111111-2222-4333-8444-555555555555"
#define NAME "pdk-unit-" IID
#define DEADLINE_MS 8000

enum call { PING, IMAGE, CREATE, START, INSPECT, REMOVE, LIST };

/* What the engine holds, and how it misbehaves. */
static struct {
	bool exists, ghost, foreign;
	enum engine_state state;
	char token[128], hash[ENGINE_HASH_SIZE];
	unsigned creates, removes;
	unsigned away;              /* so many calls find nobody */
	unsigned lose_creates;      /* so many creates are done and their answer is lost */
	unsigned drop_creates;      /* so many creates are not done and their answer is lost */
	unsigned break_starts;
	unsigned lie_removes;       /* so many removes say yes and do nothing */
	bool no_image, wrong_token, no_agent;
} fake;

static struct loop *loop;
static struct provider *provider;
static struct loop_timer *limit, *script;
static void (*script_fn)(void);
static char dir[128];
static int agent_fd = -1;
static enum instance_event seen[32];
static size_t n_seen;
static char last_detail[64];
static enum instance_event stop_at;

struct job {
	enum call what;
	engine_fn *fn;
	void *arg;
	struct loop_timer *timer;
	struct job *next;
};
static struct job *jobs;

static void dial(void)
{
	cleanup_buf struct buf out = BUF_INIT(65536);
	char path[256];
	struct msg_hello hello = { .version = MSG_VERSION, .execs = 0, .token = fake.wrong_token ? "nonsense" : fake.token };

	if (agent_fd >= 0 || fake.no_agent)
		return;
	str_fmt(path, sizeof(path), "%s/agents/%s/s", dir, IID);
	agent_fd = unix_connect(path, NULL);
	assert_true(agent_fd >= 0);
	assert_int_equal(msg_put_hello(&out, &hello), 0);
	assert_int_equal(msg_put_synced(&out), 0);
	assert_int_equal(io_write_full(agent_fd, buf_str(&out), out.len), 0);
}

static void hang_up(void)
{
	if (agent_fd >= 0)
		close(steal_fd(&agent_fd));
}

static void fill(struct engine_container *c)
{
	str_copy(c->id, sizeof(c->id), "0123456789012345678901234567890123456789012345678901234567890123");
	str_copy(c->name, sizeof(c->name), NAME);
	str_copy(c->node, sizeof(c->node), "unit");
	str_copy(c->instance, sizeof(c->instance), fake.foreign ? "somebody-else" : IID);
	str_copy(c->token_hash, sizeof(c->token_hash), fake.hash);
	c->state = fake.state;
	c->pid = fake.state == ENGINE_RUNNING ? getpid() : 0;
}

static bool take(unsigned *n)
{
	if (!*n)
		return false;
	--*n;
	return true;
}

static int do_create(err_t **err)
{
	fake.creates++;
	if (fake.no_image)
		return err_set(err, ERR_NOT_FOUND, NULL, "no such image");
	if (fake.exists || fake.ghost)
		return err_set(err, ERR_EXISTS, NULL, "in use");
	if (take(&fake.drop_creates))
		return err_set(err, ERR_UNKNOWN, "timeout", "no answer");
	fake.exists = true;
	fake.state = ENGINE_CREATED;
	return take(&fake.lose_creates) ? err_set(err, ERR_UNKNOWN, "timeout", "no answer") : 0;
}

static int do_start(err_t **err)
{
	if (!fake.exists)
		return err_set(err, ERR_NOT_FOUND, NULL, "none");
	if (take(&fake.break_starts))
		return err_set(err, ERR_UNKNOWN, "engine_error", "engine answered 500: boom");
	fake.state = ENGINE_RUNNING;
	dial();
	return 0;
}

static int do_remove(void)
{
	fake.removes++;
	if (take(&fake.lie_removes))
		return 0;
	fake.exists = fake.ghost = false;
	hang_up();
	return 0;
}

static int act(enum call what, err_t **err)
{
	switch (what) {
	case CREATE:
		return do_create(err);
	case START:
		return do_start(err);
	case REMOVE:
		return do_remove();
	case INSPECT:
		return fake.exists ? 0 : err_set(err, ERR_NOT_FOUND, NULL, "none");
	case PING:
	case IMAGE:
	case LIST:
		break;
	}
	return 0;
}

static void job_free(struct job *j)
{
	for (struct job **p = &jobs; *p; p = &(*p)->next)
		if (*p == j) {
			*p = j->next;
			break;
		}
	loop_timer_free(j->timer);
	free(j);
}

static void perform(void *arg)
{
	struct job j = *(struct job *)arg;
	struct engine_container c = { .pid = 0 };
	struct engine_answer a = { .items = &c, .id = "0123456789012345678901234567890123456789012345678901234567890123" };
	cleanup_err err_t *err = NULL;

	job_free(arg);
	if (j.what > IMAGE && take(&fake.away))
		err_set(&err, ERR_UNAVAILABLE, NULL, "engine: nobody there");
	else
		act(j.what, &err);
	fill(&c);
	a.n = j.what == INSPECT || (j.what == LIST && (fake.exists || fake.ghost));
	j.fn(j.arg, err ? NULL : &a, err);
}

static int ask(enum call what, engine_fn *fn, void *arg)
{
	struct job *j = calloc(1, sizeof(*j));

	assert_non_null(j);
	*j = (struct job){ .what = what, .fn = fn, .arg = arg, .next = jobs };
	jobs = j;
	j->timer = loop_timer_new(loop, perform, j);
	loop_timer_set(j->timer, 1);
	return 0;
}

static struct engine *fake_open(struct loop *l, const struct engine_config *c, err_t **err)
{
	(void)l;
	(void)c;
	(void)err;
	return (struct engine *)&fake;
}

static void fake_close(struct engine *e)
{
	(void)e;
	while (jobs)
		job_free(jobs);
}

static int fake_ping(struct engine *e, engine_fn *fn, void *arg, err_t **err)
{
	(void)e;
	(void)err;
	return ask(PING, fn, arg);
}

static int fake_image(struct engine *e, engine_fn *fn, void *arg, err_t **err)
{
	(void)e;
	(void)err;
	return ask(IMAGE, fn, arg);
}

static int fake_create(struct engine *e, const struct engine_spec *s, engine_fn *fn, void *arg, err_t **err)
{
	(void)e;
	(void)err;
	assert_string_equal(s->name, NAME);
	if (!fake.exists) {
		str_copy(fake.token, sizeof(fake.token), s->token);
		str_copy(fake.hash, sizeof(fake.hash), s->token_hash);
	}
	return ask(CREATE, fn, arg);
}

static int by_name(enum call what, const char *name, engine_fn *fn, void *arg)
{
	assert_string_equal(name, NAME);
	return ask(what, fn, arg);
}

static int fake_start(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	(void)e;
	(void)err;
	return by_name(START, name, fn, arg);
}

static int fake_inspect(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	(void)e;
	(void)err;
	return by_name(INSPECT, name, fn, arg);
}

static int fake_remove(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	(void)e;
	(void)err;
	return by_name(REMOVE, name, fn, arg);
}

static int fake_list(struct engine *e, const char *prefix, engine_fn *fn, void *arg, err_t **err)
{
	(void)e;
	(void)err;
	assert_true(str_prefix(prefix, "pdk-unit-"));
	return ask(LIST, fn, arg);
}

static const struct engine_ops fake_ops = {
	.name = "podman", .open = fake_open, .close = fake_close, .ping = fake_ping, .image = fake_image, .create = fake_create, .start = fake_start,
	.inspect = fake_inspect, .remove = fake_remove, .list = fake_list,
};

/* Takes the place of the registry's. */
const struct engine_ops *engine_find(const char *name, err_t **err)
{
	(void)name;
	(void)err;
	return &fake_ops;
}

/* --- what the provider tells --- */

static void on_instance(void *arg, const char *id, enum instance_event ev, const err_t *err)
{
	(void)arg;
	assert_string_equal(id, IID);
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

static void on_stdin_taken(void *arg, const char *exec_id, uint64_t taken, uint64_t window)
{
	(void)arg;
	(void)exec_id;
	(void)taken;
	(void)window;
}

static const struct provider_events events = { on_instance, on_started, on_exited, on_stdin_taken };

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
	memset(&fake, 0, sizeof(fake));
	n_seen = 0;
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
	hang_up();
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
	const struct instance_spec s = { .id = IID, .workspace = "w" };

	assert_int_equal(provider_container.create(provider, &s, NULL), 0);
	assert_int_equal(n_seen, 0);   /* nothing is told from within the call */
}

static void adopt(bool was_ready)
{
	const struct instance_spec s = { .id = IID, .workspace = "w" };

	assert_int_equal(provider_container.adopt(provider, &s, was_ready, NULL), 0);
}

static void destroy(void)
{
	assert_int_equal(provider_container.destroy(provider, IID, NULL), 0);
}

static void gone(void)
{
	char path[256];

	destroy();
	until(INSTANCE_GONE);
	assert_false(fake.exists);
	str_fmt(path, sizeof(path), "%s/agents/" IID, dir);
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
	const struct instance_spec s = { .id = IID, .workspace = "w" }, bad = { .id = "x", .workspace = "../w" };
	cleanup_err err_t *err = NULL;

	(void)state;
	create();
	assert_int_equal(provider_container.create(provider, &s, &err), -1);
	assert_int_equal(err_code(err), ERR_EXISTS);
	assert_int_equal(provider_container.create(provider, &bad, NULL), -1);
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
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
	adopt(false);
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
	hang_up();
	provider_container.close(provider);
	provider = provider_container.open(loop, config, &events, NULL, NULL);
	n_seen = 0;
	adopt(true);
	later(50, dial);
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
	gone();
}

static void adopted_and_no_longer_there(void **state)
{
	(void)state;
	adopt(true);
	until(INSTANCE_EXITED);
	assert_int_equal(fake.creates, 0);
	gone();
}

static void adopted_and_never_made(void **state)
{
	(void)state;
	adopt(false);
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
}

static void ends_by_itself(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake.state = ENGINE_STOPPED;
	hang_up();
	until(INSTANCE_EXITED);
	assert_int_equal(seen[n_seen - 2], INSTANCE_LOST_CONTACT);
	gone();
}

static void the_agent_dials_again(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	hang_up();
	until(INSTANCE_LOST_CONTACT);
	later(100, dial);
	until(INSTANCE_READY);
	gone();
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

static void stop(void)
{
	loop_stop(loop);
}

static void sweeps(void **state)
{
	(void)state;
	fake.exists = true;
	fake.state = ENGINE_RUNNING;
	provider_container.sweep(provider, everybody, NULL);
	later(200, stop);
	loop_run(loop, NULL);
	assert_true(fake.exists);
	provider_container.sweep(provider, nobody, NULL);
	later(400, stop);
	loop_run(loop, NULL);
	assert_false(fake.exists);
	assert_int_equal(n_seen, 0);   /* an orphan's end is nobody's news */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(made_and_gone), CASE(a_second_create_is_refused), CASE(a_lost_answer_is_adopted), CASE(a_create_that_never_was_is_repeated),
		CASE(an_engine_that_comes_back), CASE(an_engine_that_stays_away), CASE(storage_of_a_killed_create_is_removed), CASE(no_image),
		CASE(starts_that_break), CASE(starts_that_never_work), CASE(somebody_else_s_container), CASE(a_wrong_token), CASE(destroyed_while_it_is_made),
		CASE(a_remove_that_lies), CASE(destroy_of_an_unknown_id), CASE(adopted_running), CASE(adopted_and_no_longer_there),
		CASE(adopted_and_never_made), CASE(ends_by_itself), CASE(the_agent_dials_again), CASE(sweeps),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
