/* scripted_provider.c - the calls and the answers. What is there is in scripted_world.c, how it misbehaves in scripted_rules.c.
 *
 * PADDOCK_SCRIPTED_BREAK, one rule of the contract each: double_create, starts_twice, event_in_call, kills_other, forgets_scope, leaves_background,
 * pauses_busy, pauses_without, loses_output, wrong_status, dirty_files, shares_across, gone_too_early, remakes, refuses_unknown, forgets_ends, repeats_acked,
 * keeps_silent, signals_all, forgets_ended_scopes, sweeps_all, half_files, away_in_vain, gone_unseen. */
#include "scripted_provider.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"
#include "provider/workspace.h"
#include "scripted_priv.h"

/* --- a call begins --- */

const struct rule *call_begin(struct provider *p, const char *call, const char *iid, const char *other, struct inst **i)
{
	int64_t next, now = clock_boot_us();
	const struct rule *r;

	rules_read(&p->rules, p->world);
	answer_pass(p, now, &next);
	world_note(p->world, now, "call %s %s %s", call, iid, *other ? other : "-");
	*i = world_find(p->world, iid);
	r = rules_match(&p->rules, p->world, call, iid, *i ? (*i)->workspace : "");
	if (r && *i && r->fault == FAULT_VANISH) {
		answer_vanish(p, *i);
		*i = NULL;
	} else if (r && *i && r->fault == FAULT_PAUSE) {
		answer_pause_itself(p, *i);
	}
	scripted_soon(p);
	return r;
}

bool call_is_rejected(const struct rule *r, err_t **err)
{
	if (!r || r->fault != FAULT_REJECT)
		return false;
	err_set(err, r->code, NULL, "scripted: %s", err_code_name(r->code));
	return true;
}

bool call_is_refused(const struct rule *r)
{
	return r && r->fault == FAULT_REFUSE;
}

int call_no_such(err_t **err)
{
	return err_set(err, ERR_NOT_FOUND, "instance_not_found", "no such instance");
}

void call_end(struct provider *p)
{
	if (scripted_breaks(p, "event_in_call"))
		answer_turn(p);
}

/* --- instances --- */

static int64_t due_of(const struct rule *r)
{
	int64_t now = clock_boot_us();

	if (r && r->fault == FAULT_STUCK)
		return r->ms < 0 ? WORLD_NEVER : now + r->ms * 1000;
	return r && r->fault == FAULT_SLOW ? now + r->ms * 1000 : now;
}

static void make(struct provider *p, const struct instance_spec *s, const struct rule *r)
{
	int64_t now = clock_boot_us(), next;
	struct inst *i;

	world_make(p->world, s, now, due_of(r));
	i = world_find(p->world, s->id);
	i->managed = true;
	if (r && r->fault == FAULT_FAIL)
		world_note(p->world, now, "failed %s", s->id);
	answer_pass(p, now, &next);
	if (r && r->fault == FAULT_VANISH)
		answer_vanish(p, i);
}

static int ops_create(struct provider *p, const struct instance_spec *s, err_t **err)
{
	struct inst *i;
	const struct rule *r;

	if (!workspace_name_valid(s->workspace))
		return err_set(err, ERR_INVALID, "bad_workspace", "no name of a workspace");
	r = call_begin(p, "create", s->id, s->workspace, &i);
	if (call_is_rejected(r, err))
		return -1;
	if (i && i->managed && scripted_breaks(p, "double_create")) {
		char other[ID_SIZE];
		struct instance_spec twin = { other, s->workspace };

		id_v4(other);
		make(p, &twin, NULL);
	} else if (i && i->managed) {
		return err_set(err, ERR_EXISTS, NULL, "the instance is managed already");
	}
	if (!i && !call_is_refused(r))
		make(p, s, r);
	else if (i)
		i->managed = true;
	answer_state(p, s->id, r, INSTANCE_FAILED);
	call_end(p);
	return 0;
}

static int ops_adopt(struct provider *p, const struct instance_spec *s, enum instance_was was, err_t **err)
{
	struct inst *i;
	const struct rule *r;

	if (!workspace_name_valid(s->workspace))
		return err_set(err, ERR_INVALID, "bad_workspace", "no name of a workspace");
	r = call_begin(p, "adopt", s->id, s->workspace, &i);
	if (call_is_rejected(r, err))
		return -1;
	if (i && i->managed)
		return err_set(err, ERR_EXISTS, NULL, "the instance is managed already");
	if (!i && (was == INSTANCE_WAS_MADE || scripted_breaks(p, "remakes")))
		make(p, s, r);
	else if (i)
		i->managed = true;
	answer_state(p, s->id, r, INSTANCE_FAILED);
	call_end(p);
	return 0;
}

static int ops_lookup(struct provider *p, const char *iid, err_t **err)
{
	static const struct { const char *says; enum instance_event ev; enum err_code code; } words[] = {
		{ "running", INSTANCE_READY, 0 }, { "paused", INSTANCE_PAUSED, 0 }, { "gone", INSTANCE_EXITED, ERR_NOT_FOUND }, { "at_it", INSTANCE_AT_IT, 0 },
		{ "failed", INSTANCE_FAILED, ERR_UNAVAILABLE },
	};
	struct inst *i;
	const struct rule *r = call_begin(p, "lookup", iid, "", &i);

	if (call_is_rejected(r, err))
		return -1;
	if (call_is_refused(r))
		return 0;
	for (size_t n = 0; r && r->fault == FAULT_SAYS && n < sizeof(words) / sizeof(words[0]); n++)
		if (str_eq(words[n].says, r->says)) {
			answer_event(p, iid, words[n].ev, words[n].code, NULL, INSTANCE_AT_IT);
			return 0;
		}
	if (i && (i->state == SIM_MAKING || i->state == SIM_WAKING || i->state == SIM_PAUSING))
		answer_event(p, iid, INSTANCE_AT_IT, 0, r, INSTANCE_AT_IT);
	else if (i || world_any(p->world, iid))
		answer_state(p, iid, r, INSTANCE_AT_IT);
	else
		return call_no_such(err);
	call_end(p);
	return 0;
}

static int unsupported(err_t **err)
{
	return err_set(err, ERR_REFUSED, "pause_unsupported", "it cannot be paused");
}

/* Why it cannot be paused now; 0: it can, or is. */
static enum err_code hinders_pause(const struct provider *p, const struct inst *i, const struct rule *r)
{
	if (call_is_refused(r))
		return r->code;
	if (i->state == SIM_MAKING || i->state == SIM_WAKING || (i->state == SIM_RUNNING && world_running(i) && !scripted_breaks(p, "pauses_busy")))
		return ERR_BUSY;
	return i->state == SIM_FAILED ? ERR_CONFLICT : 0;
}

static int ops_pause(struct provider *p, const char *iid, err_t **err)
{
	struct inst *i;
	const struct rule *r = call_begin(p, "pause", iid, "", &i);
	enum err_code why;

	if (!(p->ops->caps & PROVIDER_PAUSE))
		return scripted_breaks(p, "pauses_without") ? 0 : unsupported(err);
	if (call_is_rejected(r, err))
		return -1;
	if (!i && !world_any(p->world, iid))
		return call_no_such(err);
	why = i ? hinders_pause(p, i, r) : 0;
	if (why) {
		answer_event(p, iid, INSTANCE_PAUSE_FAILED, why, NULL, INSTANCE_AT_IT);
	} else {
		if (i && i->state == SIM_RUNNING) {
			int64_t next;

			world_note(p->world, clock_boot_us(), "pausing %s %lld", iid, (long long)due_of(r));
			answer_pass(p, clock_boot_us(), &next);
		}
		answer_state(p, iid, r, INSTANCE_PAUSE_FAILED);
	}
	call_end(p);
	return 0;
}

static int ops_wake(struct provider *p, const char *iid, err_t **err)
{
	struct inst *i;
	const struct rule *r = call_begin(p, "wake", iid, "", &i);
	enum err_code why = call_is_refused(r) ? r->code : r && r->fault == FAULT_FAIL ? ERR_UNAVAILABLE : 0;

	if (!(p->ops->caps & PROVIDER_PAUSE))
		return scripted_breaks(p, "pauses_without") ? 0 : unsupported(err);
	if (call_is_rejected(r, err))
		return -1;
	if (!i && !world_any(p->world, iid))
		return call_no_such(err);
	if (i && i->state == SIM_PAUSING)
		why = ERR_BUSY;
	if (i && i->state == SIM_PAUSED && !why) {
		int64_t next;

		world_note(p->world, clock_boot_us(), "waking %s %lld", iid, (long long)due_of(r));
		answer_pass(p, clock_boot_us(), &next);
	}
	if (why && i)
		answer_event(p, iid, INSTANCE_WAKE_FAILED, why, NULL, INSTANCE_AT_IT);
	else
		answer_state(p, iid, r, INSTANCE_WAKE_FAILED);
	call_end(p);
	return 0;
}

static int ops_keep(struct provider *p, const char *iid, int64_t ms, err_t **err)
{
	struct inst *i;
	const struct rule *r = call_begin(p, "keep", iid, "", &i);

	(void)ms;
	if (call_is_rejected(r, err))
		return -1;
	if (!i && !world_any(p->world, iid))
		return call_no_such(err);
	if (scripted_breaks(p, "keeps_silent"))
		return 0;
	if (!i)
		answer_event(p, iid, INSTANCE_EXITED, ERR_NOT_FOUND, NULL, INSTANCE_AT_IT);
	else if (i->state != SIM_RUNNING)
		answer_event(p, iid, INSTANCE_KEEP_FAILED, ERR_CONFLICT, NULL, INSTANCE_AT_IT);
	else
		answer_event(p, iid, INSTANCE_KEPT, 0, r, INSTANCE_KEEP_FAILED);
	call_end(p);
	return 0;
}

static int ops_destroy(struct provider *p, const char *iid, err_t **err)
{
	struct inst *i;
	const struct rule *r = call_begin(p, "destroy", iid, "", &i);

	if (call_is_rejected(r, err))
		return -1;
	if (scripted_breaks(p, "refuses_unknown") && !world_any(p->world, iid))
		return call_no_such(err);
	if (!call_is_refused(r)) {
		answer_drop(p, iid);
		if (i)
			answer_lose_commands(i);
		if (!scripted_breaks(p, "gone_too_early") && !(i && !i->managed && scripted_breaks(p, "gone_unseen")))
			world_note(p->world, clock_boot_us(), "gone %s", iid);
	}
	answer_event(p, iid, INSTANCE_GONE, 0, r, INSTANCE_DESTROY_FAILED);
	call_end(p);
	return 0;
}

static void ops_sweep(struct provider *p, bool (*known)(void *arg, const char *iid), void *arg)
{
	if (p->ops->caps & PROVIDER_PERSISTENT && !scripted_breaks(p, "sweeps_all"))
		return;
	list_for_each_safe(n, tmp, &p->world->living) {
		struct inst *i = list_entry(n, struct inst, node);

		if (!i->managed && !known(arg, i->id))
			world_note(p->world, clock_boot_us(), "gone %s", i->id);
	}
}

static int ops_list(struct provider *p, err_t **err)
{
	struct inst *i;
	const struct rule *r = call_begin(p, "list", "-", "", &i);
	struct answer *a;

	if (call_is_rejected(r, err))
		return -1;
	a = answer_owe(p, ANSWER_LIST, "", "");
	if (r && r->fault == FAULT_PART)
		a->part = (long)r->ms;
	if (r && r->fault == FAULT_SAYS)
		(void)str_copy(a->says, sizeof(a->says), r->says);
	if (call_is_refused(r))
		a->code = r->code;
	answer_bend(a, r, INSTANCE_AT_IT);
	call_end(p);
	return 0;
}

static bool ops_enforced(struct provider *p, const char *iid)
{
	(void)p;
	(void)iid;
	return true;
}

static char *ops_health(struct provider *p)
{
	const struct rule *r;

	rules_read(&p->rules, p->world);
	r = rules_match(&p->rules, p->world, "health", "", "");
	return str_dupf("{\"name\":\"scripted\",\"ok\":%s,\"hint\":\"%s\",\"away\":%s}", r ? "false" : "true", r ? "the control plane is away" : "",
		r || scripted_breaks(p, "away_in_vain") ? "true" : "false");
}

/* --- open and close --- */

/* For two of the broken ones. */
static void forget(struct provider *p)
{
	list_for_each(n, &p->world->living) {
		struct inst *i = list_entry(n, struct inst, node);

		list_for_each(m, &i->cmds)
			list_entry(m, struct cmd, node)->acked |= list_entry(m, struct cmd, node)->ended && scripted_breaks(p, "forgets_ends");
		list_for_each(m, &i->scopes)
			list_entry(m, struct scope, node)->ended &= !scripted_breaks(p, "forgets_ended_scopes");
	}
}

static struct provider *open_as(const struct provider_ops *ops, struct loop *l, const struct provider_events *ev, void *arg)
{
	struct provider *p = calloc(1, sizeof(*p));
	const char *dir = getenv("PADDOCK_SCRIPTED_DIR"), *broken = getenv("PADDOCK_SCRIPTED_BREAK");

	if (!p)
		abort();
	*p = (struct provider){ .loop = l, .ev = ev, .arg = arg, .ops = ops, .broken = broken ? broken : "" };
	list_init(&p->answers);
	p->world = world_open(dir ? dir : "", true);
	p->world->persistent = ops->caps & PROVIDER_PERSISTENT;
	p->timer = loop_timer_new(l, answer_turn, p);
	p->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (inotify_add_watch(p->watch_fd, dir, IN_MOVED_TO | IN_ONLYDIR) >= 0)
		p->watch = loop_io_new(l, p->watch_fd, LOOP_READ, answer_on_script, p);
	if (!p->timer || !p->watch)
		abort();
	rules_read(&p->rules, p->world);
	forget(p);
	return p;
}

static void ops_close(struct provider *p)
{
	list_for_each(n, &p->world->living)
		list_for_each(m, &list_entry(n, struct inst, node)->cmds)
			run_save(list_entry(m, struct cmd, node));
	list_for_each_safe(n, tmp, &p->answers)
		free(list_entry(n, struct answer, node));
	rules_free(&p->rules);
	world_free(p->world);
	loop_io_free(p->watch);
	close(p->watch_fd);
	loop_timer_free(p->timer);
	free(p);
}

static struct provider *open_persistent(struct loop *l, const struct config *c, const struct provider_events *ev, void *arg, err_t **err)
{
	(void)c;
	(void)err;
	return open_as(&scripted_persistent, l, ev, arg);
}

static struct provider *open_per_run(struct loop *l, const struct config *c, const struct provider_events *ev, void *arg, err_t **err)
{
	(void)c;
	(void)err;
	return open_as(&scripted_per_run, l, ev, arg);
}

#define CALLS \
	.close = ops_close, .create = ops_create, .adopt = ops_adopt, .lookup = ops_lookup, .pause = ops_pause, .wake = ops_wake, .keep = ops_keep, \
	.destroy = ops_destroy, .sweep = ops_sweep, .exec = scripted_exec, .exec_ack = scripted_exec_ack, .exec_stdin = scripted_exec_stdin, .exec_signal = scripted_exec_signal, \
	.exec_kill = scripted_exec_kill, .scope_end = scripted_scope_end, .list = ops_list, .enforced = ops_enforced, .health = ops_health

const struct provider_ops scripted_persistent = {
	.name = "host", .caps = PROVIDER_PERSISTENT | PROVIDER_PAUSE | PROVIDER_RELEASE | PROVIDER_MOUNTS, .open = open_persistent, CALLS,
};
const struct provider_ops scripted_per_run = { .name = "container", .caps = PROVIDER_MOUNTS, .open = open_per_run, CALLS };

void scripted_script(const char *dir, const char *text)
{
	cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || io_write_file(fd, "script", text ? text : "", text ? strlen(text) : 0, 0644, 0, NULL) < 0)
		abort();
}
