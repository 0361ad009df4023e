/* scripted_answers.c - what the scripted provider owes and tells, and what happens by itself: all from its turn in the loop. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"
#include "scripted_priv.h"

#define WINDOW 65536
#define DROPPED INT64_MAX

bool scripted_breaks(const struct provider *p, const char *rule)
{
	return str_eq(p->broken, rule);
}

void scripted_soon(struct provider *p)
{
	loop_timer_set(p->timer, 0);
}

/* --- answers --- */

struct answer *answer_owe(struct provider *p, enum answer_kind kind, const char *iid, const char *other)
{
	struct answer *a = calloc(1, sizeof(*a));

	if (!a || str_copy(a->iid, sizeof(a->iid), iid) < 0 || str_copy(a->other, sizeof(a->other), other) < 0)
		abort();
	a->kind = kind;
	a->times = 1;
	a->part = -1;
	list_add_tail(&p->answers, &a->node);
	scripted_soon(p);
	return a;
}

/* Bends what is owed as the rule says; false: it is not owed any more. */
bool answer_bend(struct answer *a, const struct rule *r, enum instance_event failed)
{
	int64_t late = r && (r->fault == FAULT_LATE || r->fault == FAULT_LOST) ? r->ms * 1000 : 0;

	a->late_us = late;
	if (a->settled || a->kind != ANSWER_INSTANCE)
		a->due_us = clock_boot_us() + late;
	if (!r)
		return true;
	if (r->fault == FAULT_SILENT || (r->fault == FAULT_LOST && a->kind == ANSWER_INSTANCE && failed == INSTANCE_AT_IT)) {
		list_del(&a->node);
		free(a);
		return false;
	}
	if (r->fault == FAULT_LOST || r->fault == FAULT_REFUSE) {
		a->settled = true;
		a->ev = failed;
		a->code = r->fault == FAULT_LOST ? ERR_UNKNOWN : r->code;
		a->due_us = clock_boot_us() + late;
	}
	if (r->fault == FAULT_TWICE)
		a->times = 2;
	return true;
}

/* What became of it, once it is no longer on the way somewhere. */
void answer_state(struct provider *p, const char *iid, const struct rule *r, enum instance_event failed)
{
	answer_bend(answer_owe(p, ANSWER_INSTANCE, iid, ""), r, failed);
}

void answer_event(struct provider *p, const char *iid, enum instance_event ev, enum err_code code, const struct rule *r, enum instance_event failed)
{
	struct answer *a = answer_owe(p, ANSWER_INSTANCE, iid, "");

	a->settled = true;
	a->ev = ev;
	a->code = code;
	answer_bend(a, r, failed);
}

static bool settle(struct provider *p, struct answer *a, int64_t now)
{
	const struct inst *i = world_find(p->world, a->iid);

	if (a->settled || a->kind != ANSWER_INSTANCE)
		return true;
	if (i && (i->state == SIM_MAKING || i->state == SIM_WAKING || i->state == SIM_PAUSING))
		return false;
	a->settled = true;
	a->due_us = now + a->late_us;
	a->ev = !i ? INSTANCE_EXITED : i->state == SIM_RUNNING ? INSTANCE_READY : i->state == SIM_PAUSED ? INSTANCE_PAUSED : INSTANCE_FAILED;
	if (a->ev == INSTANCE_EXITED || a->ev == INSTANCE_FAILED)
		a->code = a->ev == INSTANCE_EXITED ? ERR_NOT_FOUND : ERR_UNAVAILABLE;
	return true;
}

static void contact(struct inst *i)
{
	if (i->contact)
		return;
	i->contact = true;
	list_for_each(n, &i->cmds) {
		struct cmd *c = list_entry(n, struct cmd, node);

		if (c->acked)
			continue;
		run_open(c);
		c->live.adopted = true;
		c->live.mute = c->live.told_start = c->live.told_end = false;
		c->live.tell_us = 0;
	}
}

static err_t *error_of(const struct answer *a)
{
	err_t *e = NULL;

	if (a->code)
		err_set(&e, a->code, NULL, "scripted: %s", err_code_name(a->code));
	return e;
}

static enum listed_state listed_state(const struct inst *i, const char *says)
{
	if (*says)
		return str_eq(says, "running") ? LISTED_RUNNING : str_eq(says, "paused") ? LISTED_PAUSED : LISTED_OTHER;
	return i->state == SIM_RUNNING ? LISTED_RUNNING : i->state == SIM_PAUSED ? LISTED_PAUSED : LISTED_OTHER;
}

static void tell_list(struct provider *p, const struct answer *a, const err_t *err)
{
	size_t all = world_living(p->world, NULL), n = 0;
	cleanup_free struct listed *items = calloc(all + 1, sizeof(*items));

	if (!items)
		abort();
	list_for_each(m, &p->world->living) {
		const struct inst *i = list_entry(m, struct inst, node);

		if (a->part < 0 || n < (size_t)a->part)
			items[n++] = (struct listed){ i->id, i->id, listed_state(i, a->says) };
	}
	p->ev->listed(p->arg, items, err ? 0 : n, !err && n == all, err);
}

/* The caller's functions may call in again: nothing is held over them but the answer itself. */
static void tell(struct provider *p, struct answer *a)
{
	cleanup_err err_t *err = error_of(a);
	const struct exec_exited e = { .end = EXEC_NOT_STARTED, .error = a->error, .stage = a->stage, .ended_wall_ms = clock_wall_ms() };

	for (unsigned n = 0; n < a->times; n++) {
		if (a->kind == ANSWER_INSTANCE)
			p->ev->instance(p->arg, a->iid, a->ev, err);
		else if (a->kind == ANSWER_SCOPE)
			p->ev->scope_ended(p->arg, a->iid, a->other, err);
		else if (a->kind == ANSWER_LIST)
			tell_list(p, a, err);
		else if (a->kind == ANSWER_NOT_STARTED)
			p->ev->exited(p->arg, a->iid, a->other, &e);
	}
	free(a);
}

static struct answer *next_answer(struct provider *p, int64_t now, int64_t *next)
{
	list_for_each(n, &p->answers) {
		struct answer *a = list_entry(n, struct answer, node);

		if (!settle(p, a, now))
			continue;
		if (a->due_us <= now) {
			list_del(&a->node);
			return a;
		}
		if (*next == WORLD_NEVER || a->due_us < *next)
			*next = a->due_us;
	}
	return NULL;
}

/* Answers to what concerns a removed instance alone are dropped with it. */
void answer_drop(struct provider *p, const char *iid)
{
	list_for_each_safe(n, tmp, &p->answers) {
		struct answer *a = list_entry(n, struct answer, node);

		if (str_eq(a->iid, iid) && a->kind == ANSWER_INSTANCE) {
			list_del(&a->node);
			free(a);
		}
	}
}

/* --- what is told of commands --- */

static void tell_started(struct provider *p, struct cmd *c)
{
	const struct exec_started s = { c->start_wall_ms, c->pgid, c->taken, c->live.adopted };
	int out = fcntl(c->live.out[0], F_DUPFD_CLOEXEC, 3), err = fcntl(c->live.err[0], F_DUPFD_CLOEXEC, 3);

	if (out < 0 || err < 0)
		abort();
	c->live.told_start = true;
	c->live.tell_stdin = c->live.adopted && c->stdin_open;
	p->ev->started(p->arg, c->inst->id, c->id, &s, out, err);
}

static void tell_exited(struct provider *p, struct cmd *c)
{
	const struct exec_exited e = { .end = c->end, .why = c->why, .code = c->code, .ended_wall_ms = c->end_wall_ms };

	c->live.told_end = !c->live.twice;
	c->live.twice = false;
	p->ev->exited(p->arg, c->inst->id, c->id, &e);
}

/* One event of one command; false: there is none now. */
static bool tell_one(struct provider *p, struct cmd *c, int64_t now, int64_t *next)
{
	if (c->live.mute || c->live.out[0] < 0 || c->acked)
		return false;
	if (c->live.tell_us > now) {
		if (*next == WORLD_NEVER || c->live.tell_us < *next)
			*next = c->live.tell_us;
		return false;
	}
	if (!c->live.told_start)
		tell_started(p, c);
	else if (c->live.tell_stdin && !(c->live.tell_stdin = false))
		p->ev->stdin_taken(p->arg, c->inst->id, c->id, c->taken, c->ended ? DROPPED : WINDOW);
	else if (c->ended && !c->live.told_end)
		tell_exited(p, c);
	else
		return false;
	return true;
}

static bool tell_commands(struct provider *p, int64_t now, int64_t *next)
{
	list_for_each(n, &p->world->living) {
		struct inst *i = list_entry(n, struct inst, node);

		if (!i->contact)
			continue;
		list_for_each(m, &i->cmds)
			if (tell_one(p, list_entry(m, struct cmd, node), now, next))
				return true;   /* the lists may be others now */
	}
	return false;
}

/* --- what happens by itself --- */

void answer_lose_commands(struct inst *i)
{
	run_close_all(i);
	i->contact = false;
}

void answer_vanish(struct provider *p, struct inst *i)
{
	answer_lose_commands(i);
	world_note(p->world, clock_boot_us(), "vanished %s", i->id);
}

void answer_pause_itself(struct provider *p, struct inst *i)
{
	if (i->state != SIM_RUNNING || !(p->ops->caps & PROVIDER_PAUSE))
		return;
	answer_lose_commands(i);
	world_note(p->world, clock_boot_us(), "paused %s itself", i->id);
	answer_event(p, i->id, INSTANCE_PAUSED, 0, NULL, INSTANCE_AT_IT);
}

static void happen(struct provider *p, const struct rule *r, struct inst *i)
{
	char id[ID_SIZE];

	(void)str_copy(id, sizeof(id), i->id);
	if (r->fault == FAULT_VANISH) {
		answer_vanish(p, i);
		answer_event(p, id, INSTANCE_EXITED, ERR_NOT_FOUND, NULL, INSTANCE_AT_IT);
	} else if (r->fault == FAULT_PAUSE) {
		answer_pause_itself(p, i);
	} else if (r->fault == FAULT_LOSE_CONTACT) {
		i->contact = false;
		answer_event(p, id, INSTANCE_LOST_CONTACT, 0, NULL, INSTANCE_AT_IT);
	} else if (r->fault == FAULT_CONTACT && i->state == SIM_RUNNING) {
		answer_event(p, id, INSTANCE_READY, 0, NULL, INSTANCE_AT_IT);
	} else if (r->fault == FAULT_SETTLE) {
		i->due_us = clock_boot_us();
	}
}

void answer_on_script(void *arg, int fd, int events)
{
	struct provider *p = arg;
	char bytes[4096];
	bool any = true;

	(void)events;
	while (io_read(fd, bytes, sizeof(bytes)) > 0)
		;
	rules_read(&p->rules, p->world);
	while (any) {
		any = false;
		list_for_each_safe(n, tmp, &p->world->living) {
			struct inst *i = list_entry(n, struct inst, node);
			const struct rule *r = rules_match(&p->rules, p->world, "now", i->id, i->workspace);

			if (r) {
				happen(p, r, i);
				any = true;
				break;
			}
		}
	}
	scripted_soon(p);
}

/* --- the turn: all that is due --- */

void answer_pass(struct provider *p, int64_t now, int64_t *next)
{
	list_for_each(n, &p->world->living) {
		struct inst *i = list_entry(n, struct inst, node);

		if (i->state == SIM_PAUSING && i->due_us != WORLD_NEVER && i->due_us <= now)
			answer_lose_commands(i);
	}
	*next = world_pass(p->world, now);
}

static void sooner(int64_t *next, int64_t other)
{
	if (other != WORLD_NEVER && (*next == WORLD_NEVER || other < *next))
		*next = other;
}

void answer_turn(void *arg)
{
	struct provider *p = arg;
	int64_t now = clock_boot_us(), next, later;
	struct answer *a;

	loop_timer_set(p->timer, -1);
	for (;;) {
		answer_pass(p, now, &next);
		sooner(&next, run_commands(p, now));
		later = WORLD_NEVER;
		if (tell_commands(p, now, &later))
			continue;
		sooner(&next, later);
		a = next_answer(p, now, &next);
		if (!a)
			break;
		struct inst *i = world_find(p->world, a->iid);
		bool held = a->kind == ANSWER_INSTANCE && a->ev == INSTANCE_READY && i && !i->contact && i->state == SIM_RUNNING;

		if (held) {   /* what it holds is told before its READY */
			contact(i);
			list_add_tail(&p->answers, &a->node);
			continue;
		}
		tell(p, a);
	}
	if (next != WORLD_NEVER)
		loop_timer_set(p->timer, next <= now ? 1 : (next - now + 999) / 1000);
}
