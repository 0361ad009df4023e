/* res_instances.c - /v1/instances. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "executor/executor.h"
#include "executor/res.h"
#include "executor/res_instances.h"

#define RUNNING_MAX_MS (INT64_MAX / 8)

const char *res_instance_id(struct request *r)
{
	const char *iid = request_param(r, 0);

	if (id_valid(iid))
		return iid;
	http_answer_problem(r, 404, "not_found", "not an instance's id");
	return NULL;
}

bool res_empty_body(struct request *r)
{
	static const char *const keys[] = { NULL };
	cleanup_json json_t *body = request_body(r)->len > 0 ? request_json(r) : NULL;
	cleanup_err err_t *e = NULL;

	if (request_body(r)->len == 0)
		return true;
	if (!body)
		return false;
	if (json_only_keys(body, keys, &e) == 0)
		return true;
	http_answer_err(r, e);
	return false;
}

void res_instance_answer(struct executor *x, struct request *r, int status, const struct instance *i)
{
	http_answer_json(r, status, instance_json(i, commands_open(x->commands, instance_id(i))));
}

/* It is to be made; or was made, and the books are younger. */
static int put_instance(struct executor *x, const char *iid, const json_t *body, struct instance **ret, err_t **err)
{
	static const char *const made[] = { "workspace", "was", "running_ms", NULL }, *const to_make[] = { "workspace", "replaces", NULL };
	const char *workspace = "", *replaces = NULL, *was = NULL;
	struct instance_past p = { 0 };

	if (json_only_keys(body, json_has(body, "was") ? made : to_make, err) < 0 || json_get_str(body, "workspace", true, &workspace, err) < 0 ||
	    json_get_str(body, "replaces", false, &replaces, err) < 0 || json_get_str(body, "was", false, &was, err) < 0 ||
	    json_get_i64(body, "running_ms", false, 0, RUNNING_MAX_MS, &p.running_ms, err) < 0)
		return -1;
	if (!was)
		return instances_ensure(x->instances, iid, workspace, replaces, ret, err);
	p.paused = str_eq(was, "paused");
	if (!p.paused && !str_eq(was, "ready"))
		return err_set(err, ERR_INVALID, "bad_field", "was: ready or paused");
	return instances_take_back(x->instances, iid, workspace, &p, ret, err);
}

void res_instance_put(struct executor *x, struct request *r)
{
	const char *iid = res_instance_id(r);
	cleanup_json json_t *body = iid ? request_json(r) : NULL;
	cleanup_err err_t *e = NULL;
	struct instance *i = NULL;
	bool known;

	if (!body)
		return;
	known = instances_find(x->instances, iid) != NULL;
	if (put_instance(x, iid, body, &i, &e) < 0)
		http_answer_err(r, e);
	else
		res_instance_answer(x, r, known ? 200 : 202, i);
}

void res_instance_get(struct executor *x, struct request *r)
{
	const char *iid = res_instance_id(r);
	struct instance *i = iid ? instances_find(x->instances, iid) : NULL;
	int64_t lookup;

	if (!iid || request_query_i64(r, "lookup", 0, 1, &lookup) < 0)
		return;
	if (!i) {
		http_answer_problem(r, 404, "not_found", "the instance was never seen");
		return;
	}
	if (lookup)
		instances_lookup(x->instances, i);
	res_instance_answer(x, r, 200, i);
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
