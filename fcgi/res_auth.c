#include "fcgi/res_auth.h"

#include <stdbool.h>

#include "fcgi/auth.h"

int res_auth_me(struct call *c, err_t **err)
{
	const struct caller *w = &c->caller;
	json_t *o = json_object_new_object();

	if (o && (json_add_str(o, "user", w->user) < 0 || json_add_str(o, "user_id", w->user_id) < 0 || json_add_str(o, "actor", w->actor) < 0 ||
		  json_add_str(o, "kind", caller_kind_name(w->kind)) < 0 || json_add_bool(o, "admin", w->admin) < 0 ||
		  json_add_str(o, "token_id", w->token_id) < 0)) {
		json_object_put(o);
		o = NULL;
	}
	return response_json(c->r, 200, o, err);
}

int res_auth_subrequest(struct call *c, err_t **err)
{
	err_t *why = NULL;

	if (auth_call(c, ROUTE_CALLER, &why) < 0) {
		bool bad_request = err_code(why) == ERR_INVALID || err_code(why) == ERR_NOT_FOUND;

		if (!bad_request)
			return err_move(err, why);
		err_set(err, ERR_DENIED, "forbidden", "%s", err_message(why));
		err_free(why);
		return -1;
	}
	response_empty(c->r, 204);
	if (response_header(c->r, "X-Paddock-User", c->caller.user, err) < 0)
		return -1;
	return response_header(c->r, "X-Paddock-Kind", caller_kind_name(c->caller.kind), err);
}
