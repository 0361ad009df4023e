#include "provider_bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"

#define OUTPUT_MAX (8u << 20)

static const char shell_prelude[] =
	"bg() { setsid sleep \"$1\" </dev/null >/dev/null 2>&1 & for _ in $(seq 500); do "   /* until it is what it will be looked for as */
	"[ \"$(tr '\\0' ' ' <\"/proc/$!/cmdline\" 2>/dev/null)\" = \"sleep $1 \" ] && return; sleep 0.01; done; }\n"
	"share() { printf '%s\\n' \"$1\" >> \"$PADDOCK_ENV\"; }\n"
	"alive() { for p in /proc/[0-9]*; do IFS= read -r -d '' a <\"$p/cmdline\"; [ \"$a\" = sleep ] || continue; "
	"[ \"$(tr '\\0' ' ' <\"$p/cmdline\")\" = \"sleep $1 \" ] && echo yes && return; done 2>/dev/null; echo no; }\n";

/* --- the recorder --- */

static struct event *record(struct bench *b, enum told kind, const char *iid, const char *other)
{
	struct event *e = calloc(1, sizeof(*e));

	if (!e || str_copy(e->iid, sizeof(e->iid), iid) < 0 || str_copy(e->other, sizeof(e->other), other) < 0)
		abort();
	e->kind = kind;
	list_add_tail(&b->events, &e->node);
	b->events_in_call += b->in_call > 0;
	if (b->waiting)
		loop_stop(b->loop);
	return e;
}

static void on_instance(void *arg, const char *iid, enum instance_event ev, const err_t *err)
{
	struct event *e = record(arg, TOLD_INSTANCE, iid, "");

	e->ev = ev;
	e->failed = err != NULL;
	e->code = err_code(err);
}

static void stream_close(struct stream *s)
{
	loop_io_free(s->io);
	s->io = NULL;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static void on_readable(void *arg, int fd, int events)
{
	struct stream *s = arg;
	char part[65536];
	ssize_t n = io_read(fd, part, sizeof(part));

	(void)events;
	if (n > 0)
		buf_add(&s->bytes, part, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		stream_close(s);
	if (s->b->waiting)
		loop_stop(s->b->loop);
}

static void stream_open(struct bench *b, struct stream *s, int fd)
{
	stream_close(s);
	s->b = b;
	s->fd = fd;
	s->io = loop_io_new(b->loop, fd, LOOP_READ, on_readable, s);
	if (!s->io)
		abort();
}

struct output *bench_output(struct bench *b, const char *cid)
{
	struct output *o;

	list_for_each(n, &b->outputs)
		if (str_eq(list_entry(n, struct output, node)->cid, cid))
			return list_entry(n, struct output, node);
	if (!(o = calloc(1, sizeof(*o))) || str_copy(o->cid, sizeof(o->cid), cid) < 0)
		abort();
	o->s[0].fd = o->s[1].fd = -1;
	buf_init(&o->s[0].bytes, OUTPUT_MAX);
	buf_init(&o->s[1].bytes, OUTPUT_MAX);
	list_add_tail(&b->outputs, &o->node);
	return o;
}

static void on_started(void *arg, const char *iid, const char *cid, const struct exec_started *s, int out_fd, int err_fd)
{
	struct bench *b = arg;
	struct output *o = bench_output(b, cid);

	record(b, TOLD_STARTED, iid, cid)->started = *s;
	stream_open(b, &o->s[0], out_fd);
	stream_open(b, &o->s[1], err_fd);
}

static void on_exited(void *arg, const char *iid, const char *cid, const struct exec_exited *x)
{
	record(arg, TOLD_EXITED, iid, cid)->exited = *x;
}

static void on_stdin_taken(void *arg, const char *iid, const char *cid, uint64_t taken, uint64_t window)
{
	struct event *e = record(arg, TOLD_STDIN, iid, cid);

	e->stdin_taken = taken;
	e->window = window;
}

static void on_scope_ended(void *arg, const char *iid, const char *scope, const err_t *err)
{
	struct event *e = record(arg, TOLD_SCOPE, iid, scope);

	e->failed = err != NULL;
	e->code = err_code(err);
}

static void on_listed(void *arg, const struct listed *items, size_t n, bool complete, const err_t *err)
{
	struct event *e = record(arg, TOLD_LIST, "", "");

	e->failed = err != NULL;
	e->code = err_code(err);
	e->complete = complete;
	e->items = calloc(n + 1, sizeof(*e->items));
	e->items_n = n;
	for (size_t i = 0; i < n; i++) {
		(void)str_copy(e->items[i].id, sizeof(e->items[i].id), items[i].id ? items[i].id : "");
		e->items[i].state = items[i].state;
	}
}

static const struct provider_events recorder = {
	.instance = on_instance, .started = on_started, .exited = on_exited, .stdin_taken = on_stdin_taken, .scope_ended = on_scope_ended, .listed = on_listed,
};

/* --- waiting --- */

static void on_time(void *arg)
{
	struct bench *b = arg;

	b->over = true;
	loop_stop(b->loop);
}

void bench_turn(struct bench *b, int64_t ms)
{
	b->over = false;
	loop_timer_set(b->timer, ms);
	while (!b->over)
		(void)loop_run(b->loop, NULL);
}

static bool fits(const struct event *e, enum told kind, const char *iid, const char *other, unsigned bits)
{
	return e->kind == kind && (!iid || str_eq(e->iid, iid)) && (!other || str_eq(e->other, other)) && (kind != TOLD_INSTANCE || bits & (1u << e->ev));
}

static struct event *find(struct bench *b, enum told kind, const char *iid, const char *other, unsigned bits)
{
	list_for_each(n, &b->events) {
		struct event *e = list_entry(n, struct event, node);

		if (!e->taken && fits(e, kind, iid, other, bits))
			return e;
	}
	return NULL;
}

static struct event *take(struct bench *b, enum told kind, const char *iid, const char *other, unsigned bits)
{
	struct event *e;

	b->over = false;
	b->waiting = true;
	loop_timer_set(b->timer, b->patience_ms);
	while (!(e = find(b, kind, iid, other, bits)) && !b->over)
		(void)loop_run(b->loop, NULL);
	loop_timer_set(b->timer, -1);
	b->waiting = false;
	if (e)
		e->taken = true;
	return e;
}

struct event *bench_take(struct bench *b, enum told kind, const char *iid, const char *other)
{
	return take(b, kind, iid, other, ~0u);
}

struct event *bench_take_instance(struct bench *b, const char *iid, unsigned bits)
{
	return take(b, TOLD_INSTANCE, iid, NULL, bits);
}

struct event *bench_peek(struct bench *b, enum told kind, const char *iid, const char *other)
{
	return find(b, kind, iid, other, ~0u);
}

unsigned bench_count(struct bench *b, enum told kind, const char *iid, const char *other)
{
	unsigned n = 0;

	list_for_each(i, &b->events)
		n += fits(list_entry(i, struct event, node), kind, iid, other, ~0u);
	return n;
}

/* --- commands --- */

struct exec_spec bench_exec_spec(const char cid[ID_SIZE], const char *scope)
{
	static char *none[] = { NULL };

	return (struct exec_spec){ .exec_id = cid, .scope = scope, .cwd = BENCH_HOME, .env = none, .timeout_ms = 60000 };
}

int bench_exec(struct bench *b, const char *iid, struct exec_spec *s, const char *text, err_t **err)
{
	cleanup_free char *whole = text ? str_dupf("%s%s", b->prelude, text) : NULL;
	int rc;

	s->command = whole;
	rc = BENCH_CALL(b, b->ops->exec(b->p, iid, s, err));
	s->command = NULL;
	return rc;
}

static bool is_open(const struct stream *s)
{
	return s->fd >= 0;
}

/* Reads what is there now: after the end of a command that is all of it. */
static void drain(struct stream *s)
{
	char part[65536];
	ssize_t n;

	while (is_open(s) && (n = io_read(s->fd, part, sizeof(part))) > 0)
		buf_add(&s->bytes, part, (size_t)n);
}

const char *bench_text(struct bench *b, const char *cid, int which)
{
	struct output *o = bench_output(b, cid);

	drain(&o->s[which]);
	return buf_str(&o->s[which].bytes);
}

/* --- life --- */

void bench_open(struct bench *b)
{
	cleanup_err err_t *err = NULL;

	b->p = b->ops->open(b->loop, b->config, &recorder, b, &err);
	if (!b->p) {
		fprintf(stderr, "provider %s: %s\n", b->ops->name, err_message(err));
		abort();
	}
}

static void forget(struct bench *b)
{
	list_for_each_safe(n, tmp, &b->events) {
		struct event *e = list_entry(n, struct event, node);

		list_del(&e->node);
		free(e->items);
		free(e);
	}
}

void bench_close(struct bench *b)
{
	list_for_each(n, &b->outputs) {
		stream_close(&list_entry(n, struct output, node)->s[0]);
		stream_close(&list_entry(n, struct output, node)->s[1]);
	}
	b->ops->close(b->p);
	b->p = NULL;
	forget(b);
}

struct bench *bench_new(const struct provider_ops *ops, bool scripted, const char *ini)
{
	struct bench *b = calloc(1, sizeof(*b));
	const char *tmp = getenv("TMPDIR");
	cleanup_err err_t *err = NULL;
	cleanup_free char *empty = NULL;

	if (!b || str_fmt(b->dir, sizeof(b->dir), "%s/paddock-provider-XXXXXX", tmp ? tmp : "/tmp") < 0 || !mkdtemp(b->dir) ||
	    !(empty = str_dupf("%s/ini", b->dir)))
		abort();
	b->ops = ops;
	b->scripted = scripted;
	b->patience_ms = getenv("PADDOCK_BENCH_MS") ? strtoll(getenv("PADDOCK_BENCH_MS"), NULL, 10) : BENCH_MS;
	b->prelude = scripted ? "" : shell_prelude;
	setenv("PADDOCK_SCRIPTED_DIR", b->dir, 1);
	list_init(&b->events);
	list_init(&b->outputs);
	close(open(empty, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	b->config = config_load(ini ? ini : empty, &err);
	b->loop = loop_new(&err);
	b->timer = b->loop ? loop_timer_new(b->loop, on_time, b) : NULL;
	if (!b->config || !b->timer) {
		fprintf(stderr, "bench: %s\n", err_message(err));
		abort();
	}
	bench_open(b);
	return b;
}

static void remove_dir(const char *dir)
{
	cleanup_free char *parent = str_dup(dir);
	char *slash = strrchr(parent, '/');
	cleanup_close int fd = (*slash = '\0', open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	(void)io_remove_tree(fd, slash + 1, NULL);
}

void bench_free(struct bench *b)
{
	if (!b->p)
		bench_open(b);
	for (size_t i = 0; i < b->made_n; i++)
		if (b->ops->destroy(b->p, b->made[i], NULL) == 0)
			(void)bench_take_instance(b, b->made[i], 1u << INSTANCE_GONE | 1u << INSTANCE_DESTROY_FAILED);
	bench_close(b);
	list_for_each_safe(n, tmp, &b->outputs) {
		struct output *o = list_entry(n, struct output, node);

		buf_free(&o->s[0].bytes);
		buf_free(&o->s[1].bytes);
		free(o);
	}
	loop_timer_free(b->timer);
	loop_free(b->loop);
	config_free(b->config);
	remove_dir(b->dir);
	free(b);
}
