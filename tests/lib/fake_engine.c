/* fake_engine.c - see fake_engine.h. */
#include "unit.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "core/frame_msg.h"
#include "core/unixsock.h"
#include "tests/lib/fake_engine.h"

enum call { PING, IMAGE, CREATE, START, INSPECT, REMOVE, LIST };

struct fake_engine fake;
static struct loop *loop;
static char agents[160];
static int agent_fd = -1;
static struct buf agent_in = BUF_INIT(1 << 20);

struct job {
	enum call what;
	engine_fn *fn;
	void *arg;
	struct loop_timer *timer;
	struct job *next;
};
static struct job *jobs;

void fake_agent_dial(void)
{
	cleanup_buf struct buf out = BUF_INIT(65536);
	char path[256];
	struct msg_hello hello = { .version = fake.old_agent ? MSG_VERSION_OLD : MSG_VERSION, .execs = 0, .token = fake.wrong_token ? "nonsense" : fake.token };

	if (agent_fd >= 0 || fake.no_agent)
		return;
	str_fmt(path, sizeof(path), "%s/%s/s", agents, FAKE_IID);
	agent_fd = unix_connect(path, NULL);
	assert_true(agent_fd >= 0);
	assert_int_equal(msg_put_hello(&out, &hello), 0);
	assert_int_equal(msg_put_synced(&out), 0);
	assert_int_equal(io_write_full(agent_fd, buf_str(&out), out.len), 0);
}

void fake_agent_hang_up(void)
{
	if (agent_fd >= 0)
		close(steal_fd(&agent_fd));
	buf_free(&agent_in);
}

unsigned fake_agent_scope_ends(const char *scope)
{
	unsigned times = 0;
	char part[4096];
	struct frame f;
	size_t used;
	ssize_t n;

	while (agent_fd >= 0 && (n = recv(agent_fd, part, sizeof(part), MSG_DONTWAIT)) > 0)
		assert_int_equal(buf_add(&agent_in, part, (size_t)n), 0);
	for (size_t at = 0; agent_in.len > at && frame_next(agent_in.data + at, agent_in.len - at, &f, &used) == 1; at += used) {
		const char *id;

		times += f.type == MSG_SCOPE_END && msg_get_id(f.payload, f.len, &id) == 0 && str_eq(id, scope);
	}
	return times;
}

void fake_agent_scope_ended(const char *scope)
{
	cleanup_buf struct buf out = BUF_INIT(256);

	assert_int_equal(msg_put_id(&out, MSG_SCOPE_ENDED, scope), 0);
	assert_int_equal(io_write_full(agent_fd, buf_str(&out), out.len), 0);
}

static void fill(struct engine_container *c)
{
	str_copy(c->id, sizeof(c->id), "0123456789012345678901234567890123456789012345678901234567890123");
	str_copy(c->name, sizeof(c->name), FAKE_NAME);
	str_copy(c->node, sizeof(c->node), FAKE_NODE);
	str_copy(c->instance, sizeof(c->instance), fake.foreign ? "somebody-else" : FAKE_IID);
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
	fake.creating--;
	if (fake.refusal)
		return err_set(err, ERR_REFUSED, "engine_refused", "%s", fake.refusal);
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
	fake_agent_dial();
	return 0;
}

static int do_remove(void)
{
	fake.removes++;
	if (take(&fake.lie_removes))
		return 0;
	fake.exists = fake.ghost = false;
	fake_agent_hang_up();
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
	if (j.what > IMAGE && take(&fake.away)) {
		fake.creating -= j.what == CREATE;
		err_set(&err, ERR_UNAVAILABLE, NULL, "engine: nobody there");
	} else {
		act(j.what, &err);
	}
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
	loop_timer_set(j->timer, what == CREATE && fake.create_ms ? fake.create_ms : 1);
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
	assert_true(str_prefix(s->name, "pdk-" FAKE_NODE "-"));
	fake.creating++;
	if (fake.creating > fake.creating_most)
		fake.creating_most = fake.creating;
	if (!fake.exists && str_eq(s->name, FAKE_NAME)) {
		str_copy(fake.token, sizeof(fake.token), s->token);
		str_copy(fake.hash, sizeof(fake.hash), s->token_hash);
	}
	return ask(CREATE, fn, arg);
}

static int by_name(enum call what, const char *name, engine_fn *fn, void *arg)
{
	assert_true(str_prefix(name, "pdk-" FAKE_NODE "-"));
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
	if (take(&fake.refuse_inspects))
		return err_set(err, ERR_NO_MEMORY, NULL, "no");
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
	assert_true(str_prefix(prefix, "pdk-" FAKE_NODE "-"));
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

void fake_engine_reset(struct loop *l, const char *agents_dir)
{
	memset(&fake, 0, sizeof(fake));
	loop = l;
	str_copy(agents, sizeof(agents), agents_dir);
	fake_agent_hang_up();
}
