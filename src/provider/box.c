/* box.c - a container's life, step by step. How it is made is in box_make.c, what happens once it runs in box_run.c, its end in box_end.c. */
#include "provider/box.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/container.h"

#define BACKOFF_MAX_MS 3000
#define REMAKES_MAX 2

static void run(void *arg);

struct box *box_new(struct provider *p, const char *id, err_t **err)
{
	struct box *b = calloc(1, sizeof(*b));

	if (!b || !(b->timer = loop_timer_new(p->agents.loop, run, b))) {
		free(b);
		err_set(err, ERR_NO_MEMORY, NULL, "instance");
		return NULL;
	}
	b->p = p;
	b->backoff_ms = BOX_BACKOFF_MIN_MS;
	b->monitor_fd = -1;
	agent_instance_init(&b->agent, &p->agents, b->id, b->token_hash);
	if (str_copy(b->id, sizeof(b->id), id) < 0 || str_fmt(b->name, sizeof(b->name), "%s%s", p->prefix, id) < 0) {
		box_free(b);
		err_set(err, ERR_INVALID, "bad_id", "instance id too long");
		return NULL;
	}
	return b;
}

void box_free(struct box *b)
{
	agent_instance_free(&b->agent);
	box_pass_turn(b);
	guard_cancel(b->guard);
	if (b->monitor_fd >= 0)
		close(b->monitor_fd);
	err_free(b->why);
	loop_timer_free(b->timer);
	free(b);
}

void box_kick(struct box *b)
{
	loop_timer_set(b->timer, 0);
}

void box_begin(struct box *b, enum box_step first)
{
	b->step = first;
	b->deadline_ms = clock_boot_ms() + b->p->create_timeout_ms;
	box_kick(b);
}

static void go_down(struct box *b, const err_t *why, bool exited)
{
	b->step = BOX_DOWN;
	b->exited = exited;
	err_free(steal_ptr(&b->why));
	err_set(&b->why, err_code(why), err_detail(why), "%s", err_message(why));
	if (b->queued)
		box_pass_turn(b);
	guard_cancel(steal_ptr(&b->guard));
	loop_timer_set(b->timer, -1);
}

void box_fail(struct box *b, const err_t *why)
{
	log_kv(LOG_WARN, "instance_failed", "instance", b->id, "err", err_message(why), NULL);
	go_down(b, why, false);
	container_tell(b, INSTANCE_FAILED, why);
	agent_instance_scopes_over(&b->agent, b->was_ready ? why : NULL);
}

void box_exited(struct box *b, const err_t *why)
{
	log_kv(LOG_WARN, "instance_ended", "instance", b->id, "err", err_message(why), NULL);
	go_down(b, why, true);
	container_tell(b, INSTANCE_EXITED, why);
	agent_instance_scopes_over(&b->agent, NULL);
}

void box_fail_with(struct box *b, enum err_code code, const char *detail, const char *what)
{
	cleanup_err err_t *err = NULL;

	err_set(&err, code, detail, "%s", what);
	box_fail(b, err);
}

void box_retry(struct box *b, const err_t *why)
{
	int64_t now = clock_boot_ms();

	/* one that was ready may run on while nobody can say so: it is asked for as long as that takes */
	if (now + b->backoff_ms > b->deadline_ms && (b->step >= BOX_END || !b->was_ready)) {
		if (b->step >= BOX_END) {
			b->step = BOX_DOWN;
			container_tell(b, INSTANCE_DESTROY_FAILED, why);
			agent_instance_scopes_over(&b->agent, why);
		} else {
			box_fail(b, why);
		}
		return;
	}
	log_kv(LOG_INFO, "instance_retry", "instance", b->id, "err", err_message(why), NULL);
	loop_timer_set(b->timer, b->backoff_ms);
	b->backoff_ms = b->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : b->backoff_ms * 2;
}

bool box_answered(struct box *b)
{
	b->busy = false;
	if (b->want_destroy)
		box_kick(b);
	return b->want_destroy;
}

void box_go(struct box *b, enum box_step step)
{
	static const char *const names[] = { "lookup", "create", "start", "remake", "wait", "up", "down", "end", "remove", "confirm" };

	log_kv(LOG_DEBUG, "instance_step", "instance", b->id, "step", names[step], NULL);
	b->step = step;
	box_kick(b);
}

bool box_is_made(const struct box *b)
{
	return b->step <= BOX_WAIT && !b->want_destroy && !b->was_ready;
}

/* --- look up --- */

static bool is_ours(const struct box *b, const struct engine_container *c)
{
	return str_eq(c->name, b->name) && str_eq(c->instance, b->id) && str_eq(c->node, b->p->engine_config.node) && c->token_hash[0];
}

static void decide(struct box *b, const struct engine_container *c)
{
	cleanup_err err_t *err = NULL;

	if (!is_ours(b, c)) {
		box_fail_with(b, ERR_REFUSED, "foreign_container", "a container of that name is not ours");
		return;
	}
	b->ghosts = 0;
	b->unsure_until_ms = 0;   /* names are unique: that create has come true, or cannot any more */
	str_copy(b->container, sizeof(b->container), c->id);
	str_copy(b->token_hash, sizeof(b->token_hash), c->token_hash);
	if (c->state == ENGINE_RUNNING && c->pid > 0) {
		box_settle(b, c->pid);
	} else if (c->state == ENGINE_CREATED && !b->was_ready) {
		box_go(b, BOX_START);
	} else if (c->state == ENGINE_STOPPED && b->was_ready) {
		err_set(&err, ERR_GONE, "instance_ended", "the container has ended");
		box_exited(b, err);
	} else if (c->state == ENGINE_STOPPED && b->remakes++ < REMAKES_MAX) {
		box_go(b, BOX_REMAKE);
	} else if (c->state == ENGINE_STOPPED) {
		box_fail_with(b, ERR_UNAVAILABLE, "agent_ended", "the agent ended before it was ready");
	} else {
		err_set(&err, ERR_BUSY, "container_busy", "the container is in an odd state");
		box_retry(b, err);
	}
}

static void on_lookup(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;
	cleanup_err err_t *gone = NULL;

	if (box_answered(b))
		return;
	if (!err) {
		decide(b, &a->items[0]);
	} else if (err_code(err) != ERR_NOT_FOUND) {
		box_retry(b, err);
	} else if (b->was_ready) {
		err_set(&gone, ERR_GONE, "instance_ended", "the container is no longer there");
		box_exited(b, gone);
	} else {
		box_go(b, BOX_CREATE);
	}
}

/* --- the driver --- */

static int look_up(struct box *b, err_t **err)
{
	return b->p->ops->inspect(b->p->engine, b->name, on_lookup, b, err);
}

static void act(struct box *b, int (*fn)(struct box *b, err_t **err))
{
	cleanup_err err_t *err = NULL;

	b->busy = true;
	if (fn(b, &err) == 0)
		return;
	b->busy = false;
	if (b->step == BOX_CREATE)
		box_fail(b, err);
	else
		box_retry(b, err);
}

static void run(void *arg)
{
	static int (*const steps[])(struct box *b, err_t **err) = { [BOX_LOOKUP] = look_up, [BOX_CREATE] = box_create, [BOX_START] = box_start,
		[BOX_REMAKE] = box_remake, [BOX_WAIT] = box_recheck, [BOX_UP] = box_recheck };
	struct box *b = arg;

	if (b->busy) {
		if (b->step == BOX_START && !b->want_destroy)
			box_look_early(b);
		return;
	}
	if (b->want_destroy && b->step < BOX_END)
		b->step = BOX_END;
	if (b->step >= BOX_END)
		box_run_removal(b);
	else if (b->step != BOX_DOWN && !(b->step == BOX_UP && agent_link_ready(b->agent.link) && !b->asked) && (b->step != BOX_CREATE || box_take_turn(b)))
		act(b, steps[b->step]);
}
