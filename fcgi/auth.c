#include "fcgi/auth.h"

#include "base/str.h"

void auth_headers(const struct request *q, struct auth_request *ret)
{
	*ret = (struct auth_request){
		.authorization = request_field(q, FIELD_AUTHORIZATION),
		.act_for = request_field(q, FIELD_ACTING_USER),
		.request_id = request_id(q),
		.address = request_field(q, FIELD_REMOTE_ADDR),
	};
}

int auth_allow(const struct caller *who, enum route_auth need, err_t **err)
{
	if (who->kind == CALLER_E2B)
		return err_set(err, ERR_DENIED, "forbidden", "this kind of token is for the E2B API alone");
	if (need == ROUTE_ADMIN && !who->admin)
		return err_set(err, ERR_DENIED, "admin_required", "an admin token of an admin account is needed");
	return 0;
}

int auth_call(struct call *c, enum route_auth need, err_t **err)
{
	struct auth_request rq;

	auth_headers(c->q, &rq);
	if (auth_bearer(c->ctx->domain, &rq, &c->caller, err) < 0)
		return -1;
	c->authenticated = 1;
	return auth_allow(&c->caller, need, err);
}

bool auth_from_loopback(const struct request *q)
{
	const char *a = request_field(q, FIELD_REMOTE_ADDR);

	return a && (str_prefix(a, "127.") || str_eq(a, "::1") || str_eq(a, "unix:"));
}
