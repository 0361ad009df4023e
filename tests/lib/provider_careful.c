#include "provider_careful.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "provider_bench.h"
#include "scripted_provider.h"
#include "scripted_world.h"

#define PATIENCE_MS 120
#define TRIES 40
#define BIT(ev) (1u << (ev))
#define call(b, op, ...) BENCH_CALL(b, (b)->ops->op((b)->p, __VA_ARGS__))

struct caller {
	struct bench *b;
	char iid[ID_SIZE];
};

/* What the provider says by itself, or when it is asked anew; INSTANCE_AT_IT when it says nothing at all. */
static enum instance_event what_became(struct caller *c, unsigned bits)
{
	struct event *e = bench_take_instance(c->b, c->iid, bits);
	cleanup_err err_t *err = NULL;

	if (e && !(e->failed && e->code == ERR_UNKNOWN))
		return e->ev;
	if (call(c->b, lookup, c->iid, &err) < 0)
		return err_code(err) == ERR_NOT_FOUND ? INSTANCE_EXITED : INSTANCE_AT_IT;
	e = bench_take_instance(c->b, c->iid, ~0u);
	return e ? e->ev : INSTANCE_AT_IT;
}

/* Old answers that came late are not taken for those of the next question. */
static void hush(struct caller *c)
{
	list_for_each(n, &c->b->events)
		if (list_entry(n, struct event, node)->kind == TOLD_INSTANCE)
			list_entry(n, struct event, node)->taken = true;
}

static void removed(struct caller *c)
{
	for (unsigned tries = 0; tries < TRIES; tries++) {
		struct event *e;

		(void)call(c->b, destroy, c->iid, NULL);
		e = bench_take_instance(c->b, c->iid, BIT(INSTANCE_GONE) | BIT(INSTANCE_DESTROY_FAILED));
		if (e && e->ev == INSTANCE_GONE)
			return;
	}
	fail_msg("its end is never confirmed");
}

/* The old one first, then another id: never two. */
static void replaced(struct caller *c)
{
	removed(c);
	hush(c);
	id_v4(c->iid);
}

static void ready(struct caller *c)
{
	bool asked = false;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		const struct instance_spec s = { c->iid, "w" };
		enum instance_event ev;

		if (!asked && call(c->b, create, &s, NULL) < 0) {
			bench_turn(c->b, 5);
			continue;   /* the same id: nothing was done, or it is found */
		}
		asked = true;
		ev = what_became(c, ~0u);
		if (ev == INSTANCE_READY)
			return;
		if (ev == INSTANCE_FAILED || ev == INSTANCE_EXITED) {
			replaced(c);
			asked = false;
		}
	}
	fail_msg("it never becomes ready");
}

/* False: it is no more. */
static bool wakes(struct caller *c)
{
	enum instance_event ev;

	hush(c);
	for (unsigned tries = 0; tries < TRIES; tries++) {
		if (c->b->ops->caps & PROVIDER_PAUSE)
			(void)call(c->b, wake, c->iid, NULL);
		else
			(void)call(c->b, lookup, c->iid, NULL);
		ev = what_became(c, ~BIT(INSTANCE_PAUSED));
		if (ev == INSTANCE_READY)
			return true;
		if (ev == INSTANCE_EXITED)
			return false;
	}
	fail_msg("it never wakes");
	return false;
}

static void awake(struct caller *c)
{
	if (wakes(c))
		return;
	replaced(c);
	ready(c);
}

static void taken_up_again(struct caller *c)
{
	const struct instance_spec s = { c->iid, "w" };

	bench_close(c->b);
	bench_open(c->b);
	for (unsigned tries = 0; tries < TRIES && call(c->b, adopt, &s, INSTANCE_WAS_READY, NULL) < 0; tries++)
		bench_turn(c->b, 5);
	(void)bench_take_instance(c->b, c->iid, BIT(INSTANCE_READY));
}

static bool lost_its_commands(struct caller *c)
{
	list_for_each(n, &c->b->events) {
		const struct event *e = list_entry(n, struct event, node);

		if (e->kind == TOLD_INSTANCE && !e->taken && str_eq(e->iid, c->iid) && (e->ev == INSTANCE_PAUSED || e->ev == INSTANCE_EXITED))
			return true;
	}
	return false;
}

/* The end of a command that was given, or NULL: its instance has lost it. A missing word is asked for by taking all up again. */
static struct event *end_of(struct caller *c, const char *cid, const struct exec_ref *to_kill)
{
	for (unsigned tries = 0; tries < TRIES; tries++) {
		struct event *e;

		if (to_kill)
			(void)call(c->b, exec_kill, c->iid, to_kill, NULL);
		e = bench_take(c->b, TOLD_EXITED, c->iid, cid);
		if (e || lost_its_commands(c))
			return e;
		taken_up_again(c);
	}
	fail_msg("nothing is told of a command");
	return NULL;
}

/* Started at most once, whatever happens. */
static void command(struct caller *c, const char *text, int status)
{
	char cid[ID_SIZE];
	struct exec_spec s;
	struct event *e;
	int rc = -1;

	id_v4(cid);
	s = bench_exec_spec(cid, c->iid);
	hush(c);
	for (unsigned tries = 0; tries < TRIES && (rc = bench_exec(c->b, c->iid, &s, text, NULL)) < 0; tries++) {
		awake(c);
		hush(c);
	}
	assert_int_equal(rc, 0);
	e = end_of(c, cid, NULL);
	if (!e)
		return;
	assert_int_equal(e->exited.end, EXEC_EXITED);
	assert_int_equal(e->exited.code, status);
	(void)call(c->b, exec_ack, c->iid, cid, NULL);
	bench_turn(c->b, 5);
	assert_int_equal(bench_count(c->b, TOLD_STARTED, c->iid, cid), 1);
}

static void scope_ended(struct caller *c, const char *scope)
{
	for (unsigned tries = 0; tries < TRIES; tries++) {
		struct event *e;

		(void)call(c->b, scope_end, c->iid, scope, NULL);
		e = bench_take(c->b, TOLD_SCOPE, c->iid, scope);
		if (e && !e->failed)
			return;
	}
	fail_msg("the end of the scope is never confirmed");
}

static void killed(struct caller *c)
{
	char cid[ID_SIZE], scope[ID_SIZE];
	const struct exec_ref x = { cid, 0 };
	struct exec_spec s;

	id_v4(cid);
	id_v4(scope);
	s = bench_exec_spec(cid, scope);
	awake(c);
	hush(c);
	if (bench_exec(c->b, c->iid, &s, "sleep 60", NULL) == 0) {
		const struct event *e = end_of(c, cid, &x);
		if (e)
			assert_int_equal(e->exited.why, EXEC_WHY_KILLED);
	}
	scope_ended(c, scope);
}

static void paused(struct caller *c)
{
	unsigned answers = BIT(INSTANCE_PAUSED) | BIT(INSTANCE_PAUSE_FAILED) | BIT(INSTANCE_EXITED);

	for (unsigned tries = 0; tries < TRIES; tries++) {
		enum instance_event ev;

		hush(c);
		(void)call(c->b, pause, c->iid, NULL);
		ev = what_became(c, answers);
		if (ev == INSTANCE_PAUSED || ev == INSTANCE_EXITED)
			return;
	}
	fail_msg("it never pauses");
}

static void kept(struct caller *c)
{
	unsigned answers = BIT(INSTANCE_KEPT) | BIT(INSTANCE_KEEP_FAILED) | BIT(INSTANCE_EXITED);

	for (unsigned tries = 0; tries < TRIES; tries++) {
		struct event *e;

		hush(c);
		if (call(c->b, keep, c->iid, 60000, NULL) < 0)
			continue;
		e = bench_take_instance(c->b, c->iid, answers);
		if (e && e->ev != INSTANCE_KEEP_FAILED)
			return;
		if (e)
			awake(c);
	}
	fail_msg("it is never kept");
}

/* Only a complete list says that something is absent. */
static void absent_from_the_list(struct caller *c)
{
	for (unsigned tries = 0; tries < TRIES; tries++) {
		struct event *e;

		if (call(c->b, list, NULL) < 0)
			continue;
		e = bench_take(c->b, TOLD_LIST, NULL, NULL);
		if (!e || e->failed || !e->complete)
			continue;
		assert_int_equal(e->items_n, 0);
		return;
	}
	fail_msg("there is never a whole list");
}

static void live(struct caller *c)
{
	ready(c);
	command(c, "sleep 0.01; exit 3", 3);
	if (c->b->ops->caps & PROVIDER_PAUSE) {
		awake(c);
		paused(c);
		awake(c);
	}
	kept(c);
	command(c, "echo x; exit 4", 4);
	killed(c);
	removed(c);
	absent_from_the_list(c);
}

struct fate {
	const char *script;
	bool per_run;
};

static void lives_through(void **state)
{
	const struct fate *f = *state;
	struct bench *b = bench_new(f->per_run ? &scripted_per_run : &scripted_persistent, true, NULL);
	struct caller c = { .b = b };
	struct world *truth = world_open(b->dir, false);

	id_v4(c.iid);
	b->patience_ms = PATIENCE_MS;
	scripted_script(b->dir, f->script);
	live(&c);
	world_refresh(truth);
	assert_true(truth->calls > 5);
	if (truth->violations)
		fail_msg("%s", truth->violation);
	assert_int_equal(world_living(truth, NULL), 0);
	assert_int_equal(b->events_in_call, 0);
	world_free(truth);
	bench_free(b);
}

#define PAUSES(text) { "careful: " text, lives_through, NULL, NULL, (void *)&(const struct fate){ text, false } }
#define FATE(text) \
	PAUSES(text), \
	{ "careful, per Run: " text, lives_through, NULL, NULL, (void *)&(const struct fate){ text, true } }

const struct CMUnitTest careful_tests[] = {
	FATE("seed 1"),
	FATE("create late 30"), FATE("create slow 40"), FATE("create lost 20 times 1"), FATE("create silent times 1"), FATE("create twice"),
	FATE("create refuse unknown times 1"), FATE("create refuse limit times 2"), FATE("create refuse denied times 1"), FATE("create refuse unavailable times 3"),
	FATE("create reject unavailable times 2"), FATE("create reject busy times 2"), FATE("create reject unknown times 1"), FATE("create vanish times 1"),
	FATE("create fail times 1"), FATE("create lost 10 times 1; lookup refuse unavailable times 3"), FATE("create silent times 1; lookup says at_it times 2"),
	FATE("create silent times 1; lookup twice"), FATE("create lost 10 times 1; lookup lost times 2"), FATE("create slow 300; lookup late 10"),
	FATE("exec lost times 1; adopt late 30"), FATE("exec silent times 1; adopt reject unavailable times 2"), FATE("exec lost times 2; adopt twice"),
	FATE("exec late 30"), FATE("exec twice"), FATE("exec refuse busy times 2"), FATE("exec reject unavailable times 2"), FATE("exec reject unknown times 1"),
	FATE("exec vanish skip 1 times 1"), FATE("exec lost times 1"), PAUSES("exec pause times 1"), PAUSES("exec pause skip 1 times 1"),
	FATE("exec_ack lost times 1"), FATE("exec_ack reject unavailable times 1"), FATE("exec_kill lost times 2"), FATE("exec_kill reject unavailable times 2"),
	PAUSES("exec_kill pause times 1"), FATE("exec_kill vanish times 1"),
	PAUSES("pause late 30"), PAUSES("pause slow 40"), PAUSES("pause lost 20 times 1"), PAUSES("pause silent times 1"), PAUSES("pause twice"),
	PAUSES("pause refuse unknown times 1"), PAUSES("pause refuse busy times 3"), PAUSES("pause reject unavailable times 2"), PAUSES("pause stuck 60"),
	PAUSES("pause vanish times 1"), PAUSES("pause pause times 1"),
	PAUSES("wake late 30"), PAUSES("wake slow 40"), PAUSES("wake lost 20 times 1"), PAUSES("wake silent times 1"), PAUSES("wake twice"), PAUSES("wake refuse unknown times 1"),
	PAUSES("wake refuse busy times 2"), PAUSES("wake reject denied times 2"), PAUSES("wake fail times 2"), PAUSES("wake vanish times 1"),
	FATE("keep late 30"), FATE("keep lost 20 times 1"), FATE("keep silent times 1"), FATE("keep twice"), FATE("keep refuse unavailable times 2"),
	FATE("keep reject limit times 1"), FATE("keep vanish times 1"), PAUSES("keep pause times 1"),
	FATE("scope_end late 30"), FATE("scope_end lost 20 times 1"), FATE("scope_end silent times 1"), FATE("scope_end twice"),
	FATE("scope_end refuse unknown times 2"), FATE("scope_end reject unavailable times 2"), FATE("scope_end vanish times 1"),
	FATE("destroy late 30"), FATE("destroy lost 20 times 1"), FATE("destroy silent times 1"), FATE("destroy twice"), FATE("destroy refuse unavailable times 3"),
	FATE("destroy reject denied times 2"), FATE("destroy vanish times 1"),
	FATE("list part 0 skip 0 times 1"), FATE("list late 30"), FATE("list lost 20 times 1"), FATE("list silent times 1"), FATE("list refuse unavailable times 2"),
	FATE("list says other"), FATE("list reject denied times 1"),
	FATE("any reject unavailable times 12"), FATE("any reject unavailable chance 0.4; seed 3"), FATE("any twice"), FATE("any late 15"),
	FATE("seed 7; create lost 10 chance 0.5; pause lost 10 chance 0.5; wake lost 10 chance 0.5; exec twice chance 0.5; destroy lost 10 chance 0.5"),
};
const size_t careful_tests_n = sizeof(careful_tests) / sizeof(careful_tests[0]);
