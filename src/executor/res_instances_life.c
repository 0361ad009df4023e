/* res_instances_life.c - what may be asked of an instance that is there: DELETE, pause, wake, keepalive. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "executor/executor.h"
#include "executor/res.h"
#include "executor/res_instances.h"
#include "executor/res_wait.h"

#define KEEP_WAIT_MS 10000
#define KEEP_MAX_MS (24 * 3600 * INT64_C(1000))

/* The instance of the path; NULL: answered. */
static struct instance *instance_of(struct executor *x, struct request *r)
{
	const char *iid = res_instance_id(r);
	struct instance *i = iid ? instances_find(x->instances, iid) : NULL;

	if (iid && !i)
		http_answer_problem(r, 404, "not_found", "the instance was never seen");
	return i;
}

struct life_wait {
	struct res_wait wait;          /* first */
	enum instance_state wanted;    /* READY, PAUSED or GONE */
};

/* It is on the way to what was asked for. */
static bool on_the_way(enum instance_state s, enum instance_state wanted)
{
	if (wanted == INSTANCE_IS_GONE)
		return s == INSTANCE_DESTROYING;
	return s == INSTANCE_PAUSING || (wanted == INSTANCE_IS_READY && (s == INSTANCE_CREATING || s == INSTANCE_WAKING));
}

/* It went elsewhere. */
static void answer_failure(struct request *r, const struct instance *i, enum instance_state wanted)
{
	enum instance_state s = instance_state(i);
	const char *why = instance_error_message(i);

	if (s == INSTANCE_DESTROYING || s == INSTANCE_IS_GONE)
		http_answer_problem(r, 410, "instance_gone", "the instance was destroyed");
	else if (s == INSTANCE_IS_FAILED)
		http_answer_problem(r, 409, "instance_failed", why);
	else if (s == INSTANCE_IS_LOST)
		http_answer_problem(r, 409, "instance_lost", why);
	else if (wanted == INSTANCE_IS_READY)
		http_answer_problem(r, 503, "wake_failed", why);
	else
		http_answer_problem(r, 409, "instance_busy", *why ? why : "the instance is in use");
}

static void answer_or_wait(struct executor *x, struct request *r)
{
	const struct life_wait *w = request_state(r);
	struct instance *i = instances_find(x->instances, request_param(r, 0));

	if (!i)
		http_answer_problem(r, 404, "not_found", "the instance was never seen");
	else if (instance_state(i) == w->wanted)
		res_instance_answer(x, r, 200, i);
	else if (!on_the_way(instance_state(i), w->wanted))
		answer_failure(r, i, w->wanted);
	else if (!res_wait_more(r, answer_or_wait))
		res_instance_answer(x, r, 202, i);
}

static void wait_for(struct executor *x, struct request *r, enum instance_state wanted, int64_t wait_ms)
{
	struct life_wait *w = res_wait_new(r, &x->instance_watches, wait_ms, sizeof *w);

	if (!w)
		return;
	w->wanted = wanted;
	answer_or_wait(x, r);
}

void res_instance_delete(struct executor *x, struct request *r)
{
	const char *iid = res_instance_id(r);
	cleanup_err err_t *e = NULL;
	struct instance *i = NULL;
	int64_t wait_ms, forget;

	if (!iid || request_query_i64(r, "wait_ms", 0, RES_WAIT_MAX_MS, &wait_ms) < 0 || request_query_i64(r, "forget", 0, 1, &forget) < 0)
		return;
	if ((forget ? instances_forget(x->instances, iid, &i, &e) : instances_destroy(x->instances, iid, &i, &e)) < 0)
		http_answer_err(r, e);
	else
		wait_for(x, r, INSTANCE_IS_GONE, wait_ms);
}

/* False: answered. */
static bool is_idle(struct executor *x, struct request *r, const struct instance *i)
{
	if (commands_open(x->commands, instance_id(i)) > 0)
		http_answer_problem(r, 409, "instance_busy", "commands are open in the instance");
	else if (scopes_any_in(x->scopes, instance_id(i)))
		http_answer_problem(r, 409, "instance_busy", "a scope is being ended in the instance");
	else
		return true;
	return false;
}

void res_instance_pause(struct executor *x, struct request *r)
{
	struct instance *i = instance_of(x, r);
	cleanup_err err_t *e = NULL;
	int64_t wait_ms;

	if (!i || request_query_i64(r, "wait_ms", 0, RES_WAIT_MAX_MS, &wait_ms) < 0 || !res_empty_body(r))
		return;
	if (instance_state(i) != INSTANCE_IS_GONE && !is_idle(x, r, i))
		return;
	if (instances_pause(x->instances, i, &e) < 0)
		http_answer_err(r, e);
	else
		wait_for(x, r, INSTANCE_IS_PAUSED, wait_ms);
}

void res_instance_wake(struct executor *x, struct request *r)
{
	struct instance *i = instance_of(x, r);
	cleanup_err err_t *e = NULL;
	int64_t wait_ms;

	if (!i || request_query_i64(r, "wait_ms", 0, RES_WAIT_MAX_MS, &wait_ms) < 0 || !res_empty_body(r))
		return;
	if (instances_wake(x->instances, i, &e) < 0)
		http_answer_err(r, e);
	else
		wait_for(x, r, INSTANCE_IS_READY, wait_ms);
}

/* --- keepalive --- */

struct keep_wait {
	struct res_wait wait;          /* first */
	struct instance_keeps before;
};

static void keep_answer_or_wait(struct executor *x, struct request *r)
{
	const struct keep_wait *w = request_state(r);
	struct instance *i = instances_find(x->instances, request_param(r, 0));
	struct instance_keeps now;

	if (!i) {
		http_answer_problem(r, 404, "not_found", "the instance was never seen");
		return;
	}
	now = instance_keeps(i);
	if (instance_state(i) == INSTANCE_IS_GONE)
		http_answer_problem(r, 410, "instance_gone", "the instance was destroyed");
	else if (now.kept != w->before.kept)
		res_instance_answer(x, r, 200, i);
	else if (instance_state(i) != INSTANCE_IS_READY || (now.refused != w->before.refused && err_code(now.err) == ERR_CONFLICT))
		http_answer_problem(r, 409, "instance_not_ready", "the instance is not ready any more");
	else if (now.refused != w->before.refused)
		http_answer_problem(r, 503, "control_plane_unavailable", now.err ? err_message(now.err) : "refused");
	else if (!res_wait_more(r, keep_answer_or_wait))
		http_answer_problem(r, 503, "control_plane_unavailable", "the provider did not answer in time");
}

static void keep(struct executor *x, struct request *r, struct instance *i, int64_t ms)
{
	struct instance_keeps before = instance_keeps(i);
	cleanup_err err_t *e = NULL;
	struct keep_wait *w;

	if (instances_keep(x->instances, i, ms, &e) < 0) {
		if (err_code(e) == ERR_CONFLICT)
			http_answer_err(r, e);
		else
			http_answer_problem(r, 503, "control_plane_unavailable", err_message(e));
		return;
	}
	w = res_wait_new(r, &x->instance_watches, KEEP_WAIT_MS, sizeof *w);
	if (!w)
		return;
	w->before = before;
	keep_answer_or_wait(x, r);
}

void res_instance_keepalive(struct executor *x, struct request *r)
{
	static const char *const keys[] = { "ms", NULL };
	struct instance *i = instance_of(x, r);
	cleanup_json json_t *body = i ? request_json(r) : NULL;
	cleanup_err err_t *e = NULL;
	int64_t ms = 0;

	if (!body)
		return;
	if (json_only_keys(body, keys, &e) < 0 || json_get_i64(body, "ms", true, 1, KEEP_MAX_MS, &ms, &e) < 0)
		http_answer_err(r, e);
	else if (instance_state(i) == INSTANCE_IS_GONE)
		http_answer_problem(r, 410, "instance_gone", "the instance was destroyed");
	else
		keep(x, r, i, ms);
}
