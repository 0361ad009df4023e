#include "fcgi/res_sandbox.h"

#include "domain/sandbox.h"
#include "domain/sandbox_admin.h"
#include "fcgi/auth.h"
#include "fcgi/page.h"

/* Authentication and the sandbox in one round trip: pages and agents poll it. */
int res_sandbox_get(struct call *c, err_t **err)
{
	struct auth_request rq;
	json_t *o = NULL;

	auth_headers(c->q, &rq);
	if (auth_sandbox_get(c->ctx->domain, &rq, &c->caller, &o, err) < 0)
		return -1;
	c->authenticated = 1;
	if (auth_allow(&c->caller, ROUTE_CALLER, err) < 0) {
		json_object_put(o);
		return -1;
	}
	return response_json(c->r, 200, o, err);
}

/* Puts the blockers, if any, into the problem that the call is going to be. */
static int refused(struct call *c, json_t *blockers)
{
	if (blockers && !c->extras)
		c->extras = json_object_new_object();
	if (blockers && c->extras)
		(void)json_add(c->extras, "blockers", blockers);
	else
		json_object_put(blockers);
	return -1;
}

typedef int move_fn(struct domain *d, const struct caller *c, json_t **ret, json_t **ret_blockers, err_t **err);

static int move(struct call *c, move_fn *fn, err_t **err)
{
	static const char *const keys[] = { NULL };
	json_t *o = NULL, *blockers = NULL;

	if (json_only_keys(c->body, keys, err) < 0)
		return -1;
	if (fn(c->ctx->domain, &c->caller, &o, &blockers, err) < 0)
		return refused(c, blockers);
	return response_json(c->r, 200, o, err);
}

int res_sandbox_rebuild(struct call *c, err_t **err)
{
	return move(c, sandbox_rebuild, err);
}

int res_sandbox_pause(struct call *c, err_t **err)
{
	return move(c, sandbox_pause, err);
}

int res_sandbox_release(struct call *c, err_t **err)
{
	return move(c, sandbox_release, err);
}

int res_sandbox_keep_alive(struct call *c, err_t **err)
{
	static const char *const keys[] = { "timeout_ms", NULL };
	int64_t ms = c->ctx->domain->limits.sandbox_idle_ms;
	json_t *o = NULL;

	if (json_only_keys(c->body, keys, err) < 0 || json_get_i64(c->body, "timeout_ms", false, INT64_MIN, INT64_MAX, &ms, err) < 0 ||
	    sandbox_keep_alive(c->ctx->domain, &c->caller, ms, &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}

int res_sandbox_quarantine(struct call *c, err_t **err)
{
	struct sandbox_page page = { .cursor = request_query(c->q, "cursor") };
	json_t *o = NULL;

	if (page_limit(c->q, &page.limit, err) < 0 || sandbox_admin_quarantine(c->ctx->domain, &page, &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}

int res_sandbox_retire(struct call *c, err_t **err)
{
	static const char *const keys[] = { NULL };

	if (json_only_keys(c->body, keys, err) < 0 || sandbox_retire(c->ctx->domain, c->params[0], &c->caller, err) < 0)
		return -1;
	response_empty(c->r, 204);
	return 0;
}
