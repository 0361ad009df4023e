/* res_instances.c - /v1/instances. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "executor/executor.h"
#include "executor/res.h"
#include "executor/watch.h"

#define WAIT_MAX_MS 30000

static const char *instance_id_of(struct request *r)
{
	const char *iid = request_param(r, 0);

	if (id_valid(iid))
		return iid;
	http_answer_problem(r, 404, "not_found", "not an instance's id");
	return NULL;
}

static void answer_instance(struct executor *x, struct request *r, int status, const struct instance *i)
{
	http_answer_json(r, status, instance_json(i, commands_open(x->commands, instance_id(i))));
}

void res_instance_put(struct executor *x, struct request *r)
{
	static const char *const keys[] = { "workspace", NULL };
	const char *iid = instance_id_of(r), *workspace = "";
	cleanup_json json_t *body = iid ? request_json(r) : NULL;
	cleanup_err err_t *e = NULL;
	struct instance *i = NULL;
	bool known;

	if (!body)
		return;
	known = instances_find(x->instances, iid) != NULL;
	if (json_only_keys(body, keys, &e) < 0 || json_get_str(body, "workspace", true, &workspace, &e) < 0 ||
	    instances_ensure(x->instances, iid, workspace, &i, &e) < 0)
		http_answer_err(r, e);
	else
		answer_instance(x, r, known ? 200 : 202, i);
}

void res_instance_get(struct executor *x, struct request *r)
{
	const char *iid = instance_id_of(r);
	struct instance *i = iid ? instances_find(x->instances, iid) : NULL;

	if (i)
		answer_instance(x, r, 200, i);
	else if (iid)
		http_answer_problem(r, 404, "not_found", "the instance was never seen");
}

struct listing {
	struct executor *x;
	json_t *items;
	bool failed;
};

static void add_one(void *arg, struct instance *i)
{
	struct listing *l = arg;
	json_t *j;

	if (instance_state(i) == INSTANCE_IS_GONE)
		return;   /* tombstones are asked for by id */
	j = instance_json(i, commands_open(l->x->commands, instance_id(i)));
	if (!j || json_object_array_add(l->items, j) < 0)
		l->failed = true;
}

void res_instances_get(struct executor *x, struct request *r)
{
	struct listing l = { .x = x, .items = json_object_new_array() };
	json_t *j = json_object_new_object();

	if (l.items)
		instances_each(x->instances, add_one, &l);
	if (!j || !l.items || l.failed) {
		json_object_put(l.items);
		json_object_put(j);
		http_answer_problem(r, 503, "no_memory", "out of memory");
		return;
	}
	if (json_add(j, "items", l.items) < 0) {
		json_object_put(j);
		j = NULL;
	}
	http_answer_json(r, 200, j);
}

/* --- DELETE with a wait --- */

struct gone_wait {
	struct request *r;
	struct watch watch;
	int64_t until_ms;
};

static void on_change(struct watch *w)
{
	request_wake(list_entry(w, struct gone_wait, watch)->r);
}

static void gone_wait_free(void *state)
{
	struct gone_wait *g = state;

	list_del(&g->watch.node);
	free(g);
}

static void answer_or_wait(struct executor *x, struct request *r)
{
	struct gone_wait *g = request_state(r);
	struct instance *i = instances_find(x->instances, request_param(r, 0));
	int64_t left = g ? g->until_ms - clock_boot_ms() : 0;

	if (!i)
		http_answer_problem(r, 404, "not_found", "the instance was never seen");
	else if (instance_state(i) == INSTANCE_IS_GONE)
		answer_instance(x, r, 200, i);
	else if (left <= 0)
		answer_instance(x, r, 202, i);
	else
		http_wait(r, left, answer_or_wait);
}

void res_instance_delete(struct executor *x, struct request *r)
{
	const char *iid = instance_id_of(r);
	cleanup_err err_t *e = NULL;
	struct instance *i = NULL;
	struct gone_wait *g;
	int64_t wait_ms;

	if (!iid || request_query_i64(r, "wait_ms", 0, WAIT_MAX_MS, &wait_ms) < 0)
		return;
	if (instances_destroy(x->instances, iid, &i, &e) < 0) {
		http_answer_err(r, e);
		return;
	}
	g = wait_ms > 0 ? calloc(1, sizeof *g) : NULL;
	if (g) {
		g->r = r;
		g->until_ms = clock_boot_ms() + wait_ms;
		watch_init(&g->watch, on_change);
		list_add_tail(&x->instance_watches, &g->watch.node);
		request_set_state(r, g, gone_wait_free);
	}
	answer_or_wait(x, r);
}
