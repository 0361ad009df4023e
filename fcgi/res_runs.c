#include "fcgi/res_runs.h"

#include "domain/auth.h"
#include "domain/runs.h"
#include "domain/steer.h"
#include "fcgi/auth.h"
#include "fcgi/page.h"

/* Left out: 0, the default. */
static int read_lease_ms(const json_t *o, int64_t *ret, err_t **err)
{
	if (json_get_i64(o, "lease_ms", false, INT64_MIN, INT64_MAX, ret, err) < 0)
		return -1;
	if (json_has(o, "lease_ms") && *ret <= 0)
		return err_set(err, ERR_REFUSED, "bad_lease", "lease_ms must be positive");
	return 0;
}

/* {worker_id, lease_ms} of o. */
static int read_claim(const json_t *o, struct run_claim *ret, err_t **err)
{
	*ret = (struct run_claim){ 0 };
	if (json_get_str(o, "worker_id", true, &ret->worker_id, err) < 0)
		return -1;
	return read_lease_ms(o, &ret->lease_ms, err);
}

static int read_new(struct call *c, struct run_new *n, struct run_claim *cl, err_t **err)
{
	static const char *const keys[] = { "thread_id", "input", "workdir", "metadata", "timeout_ms", "claim", NULL };
	static const char *const claim_keys[] = { "worker_id", "lease_ms", NULL };
	const json_t *claim = NULL;
	json_t *input = NULL;

	if (json_only_keys(c->body, keys, err) < 0 || json_get_str(c->body, "thread_id", true, &n->thread_id, err) < 0 ||
	    json_get_str(c->body, "workdir", false, &n->workdir, err) < 0 || json_get_obj(c->body, "metadata", false, &n->metadata, err) < 0 ||
	    json_get_i64(c->body, "timeout_ms", false, INT64_MIN, INT64_MAX, &n->timeout_ms, err) < 0 ||
	    json_get_obj(c->body, "claim", false, &claim, err) < 0)
		return -1;
	n->has_timeout = json_has(c->body, "timeout_ms");
	if (json_object_object_get_ex(c->body, "input", &input))
		n->input = input;
	n->idempotency = (struct idempotency){ .key = request_field(c->q, FIELD_IDEMPOTENCY_KEY), .body = c->raw, .body_len = c->raw_len };
	if (!claim)
		return 0;
	n->claim = cl;
	return json_only_keys(claim, claim_keys, err) < 0 ? -1 : read_claim(claim, cl, err);
}

int res_runs_create(struct call *c, err_t **err)
{
	char lease[LEASE_TOKEN_SIZE] = "";
	struct run_new n = { 0 };
	struct run_claim cl;
	json_t *o = NULL;

	if (read_new(c, &n, &cl, err) < 0 || runs_create(c->ctx->domain, &c->caller, &n, &o, lease, err) < 0)
		return -1;
	if (lease[0] && json_add_str(o, "lease_token", lease) < 0) {
		json_object_put(o);
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for the answer");
	}
	return response_json(c->r, 201, o, err);
}

int res_runs_list(struct call *c, err_t **err)
{
	struct run_list list = {
		.thread_id = request_query(c->q, "thread_id"),
		.status = request_query(c->q, "status"),
		.cursor = request_query(c->q, "cursor"),
	};
	json_t *o = NULL;

	if (page_limit(c->q, &list.limit, err) < 0 || runs_list(c->ctx->domain, &c->caller, &list, &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}

static json_t *claimed(json_t *run, const char *lease)
{
	json_t *o = json_object_new_object();

	if (!o) {
		json_object_put(run);
		return NULL;
	}
	if (json_add(o, "run", run) < 0 || json_add_str(o, "lease_token", lease) < 0) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

int res_runs_claim(struct call *c, err_t **err)
{
	static const char *const keys[] = { "worker_id", "lease_ms", "thread_id", NULL };
	char lease[LEASE_TOKEN_SIZE] = "";
	const char *thread_id = NULL;
	struct run_claim cl;
	json_t *run = NULL;
	int got;

	if (json_only_keys(c->body, keys, err) < 0 || read_claim(c->body, &cl, err) < 0 || json_get_str(c->body, "thread_id", false, &thread_id, err) < 0)
		return -1;
	got = runs_claim(c->ctx->domain, &c->caller, &cl, thread_id, &run, lease, err);
	if (got < 0)
		return -1;
	if (got == 0) {
		response_empty(c->r, 204);
		return 0;
	}
	return response_json(c->r, 200, claimed(run, lease), err);
}

/* Authentication and the Run in one round trip: the call that clients poll. */
int res_runs_get(struct call *c, err_t **err)
{
	struct auth_request rq;
	json_t *o = NULL;

	auth_headers(c->q, &rq);
	if (auth_run_get(c->ctx->domain, &rq, c->params[0], &c->caller, &o, err) < 0)
		return -1;
	c->authenticated = 1;
	if (auth_allow(&c->caller, ROUTE_CALLER, err) < 0) {
		json_object_put(o);
		return -1;
	}
	return response_json(c->r, 200, o, err);
}

int res_runs_heartbeat(struct call *c, err_t **err)
{
	static const char *const keys[] = { "lease_token", "lease_ms", NULL };
	const char *token = NULL;
	int64_t lease_ms = 0;
	json_t *o = NULL;

	if (json_only_keys(c->body, keys, err) < 0 || json_get_str(c->body, "lease_token", true, &token, err) < 0 ||
	    read_lease_ms(c->body, &lease_ms, err) < 0)
		return -1;
	if (runs_heartbeat(c->ctx->domain, &c->caller, c->params[0], token, lease_ms, &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}

static int read_error(const json_t *body, struct run_finish *f, err_t **err)
{
	static const char *const keys[] = { "code", "message", NULL };
	const json_t *e = NULL;

	if (json_get_obj(body, "error", false, &e, err) < 0)
		return -1;
	if (!e)
		return 0;
	if (json_only_keys(e, keys, err) < 0 || json_get_str(e, "code", false, &f->error_code, err) < 0)
		return -1;
	return json_get_str(e, "message", false, &f->error_message, err);
}

int res_runs_finish(struct call *c, err_t **err)
{
	static const char *const keys[] = { "lease_token", "status", "error", NULL };
	struct run_finish f = { 0 };
	json_t *o = NULL;

	if (json_only_keys(c->body, keys, err) < 0 || json_get_str(c->body, "lease_token", false, &f.lease_token, err) < 0 ||
	    json_get_str(c->body, "status", true, &f.status, err) < 0 || read_error(c->body, &f, err) < 0)
		return -1;
	if (runs_finish(c->ctx->domain, &c->caller, c->params[0], &f, &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}

int res_runs_cancel(struct call *c, err_t **err)
{
	static const char *const keys[] = { NULL };
	json_t *o = NULL;

	if (json_only_keys(c->body, keys, err) < 0 || runs_cancel(c->ctx->domain, &c->caller, c->params[0], &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}

int res_runs_steer(struct call *c, err_t **err)
{
	static const char *const keys[] = { "input", NULL };
	struct steer s = { .idempotency = { .key = request_field(c->q, FIELD_IDEMPOTENCY_KEY), .body = c->raw, .body_len = c->raw_len } };
	json_t *input = NULL, *o = NULL;

	if (json_only_keys(c->body, keys, err) < 0)
		return -1;
	if (json_object_object_get_ex(c->body, "input", &input))
		s.input = input;
	if (steer_run(c->ctx->domain, &c->caller, c->params[0], &s, &o, err) < 0)
		return -1;
	return response_json(c->r, 201, o, err);
}
