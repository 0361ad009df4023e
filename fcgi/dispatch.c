#include "fcgi/dispatch.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "fcgi/auth.h"
#include "fcgi/body.h"
#include "fcgi/problem.h"
#include "fcgi/router.h"
#include "fcgi/routes.h"

static int not_found(struct call *c, const struct router_match *m, err_t **err)
{
	char allow[64];

	if (!m->allowed)
		return err_set(err, ERR_NOT_FOUND, "not_found", "there is nothing at this path");
	router_allow(m->allowed, allow);
	if (response_header(c->r, "Allow", allow, err) < 0)
		return -1;
	return err_set(err, ERR_NOT_FOUND, "method_not_allowed", "the method is not one of %s", allow);
}

static int read_body(struct call *c, enum route_body kind, err_t **err)
{
	if (kind == ROUTE_JSON || kind == ROUTE_JSON_OPTIONAL)
		return body_json(c, kind == ROUTE_JSON_OPTIONAL, err);
	return 0;
}

static int handle(struct call *c, err_t **err)
{
	struct router_match m;

	if (request_check(c->q, err) < 0)
		return -1;
	router_match(routes, routes_count, request_method(c->q), request_uri(c->q), &m);
	if (!m.route)
		return not_found(c, &m, err);
	c->operation = m.route->operation;
	memcpy(c->params, m.params, sizeof(c->params));
	if ((m.route->auth == ROUTE_CALLER || m.route->auth == ROUTE_ADMIN) && auth_call(c, m.route->auth, err) < 0)
		return -1;
	if (uri_query_only(request_uri(c->q), m.route->query, err) < 0)
		return -1;
	if (read_body(c, m.route->body, err) < 0)
		return -1;
	return m.route->handler(c, err);
}

void dispatch(struct call *c)
{
	cleanup_err err_t *e = NULL;
	int status;

	c->operation = "-";
	if (handle(c, &e) == 0)
		return;
	problem_answer(c->r, e, c->extras, request_id(c->q), c->ctx->retry_after_s);
	json_object_put(c->extras);
	c->extras = NULL;
	status = response_status(c->r);
	if (status >= 500)
		log_kv(status == 503 || status == 507 ? LOG_WARN : LOG_ERROR, "request_failed", "req", request_id(c->q), "op", c->operation, "code", err_detail(e), "err",
		       err_message(e), NULL);
}

void dispatch_log(const struct call *c, int64_t us)
{
	char status[16], dur[32], bytes[24];

	snprintf(status, sizeof(status), "%d", response_status(c->r));
	snprintf(dur, sizeof(dur), "%lld.%02lld", (long long)(us / 1000), (long long)(us % 1000 / 10));
	snprintf(bytes, sizeof(bytes), "%zu", response_length(c->r));
	log_kv(LOG_INFO, "request", "req", request_id(c->q), "method", request_method_name(c->q), "path", request_log_path(c->q), "op", c->operation,
	       "status", status, "dur_ms", dur, "bytes", bytes, "user", c->authenticated ? c->caller.user : NULL, "actor",
	       c->authenticated ? c->caller.actor : NULL, "addr", request_field(c->q, FIELD_REMOTE_ADDR), NULL);
}
