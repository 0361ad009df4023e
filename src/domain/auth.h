/* auth.h - a bearer token becomes a caller, in one SELECT. Also what nginx's subrequest /_auth asks. */
#ifndef PADDOCK_DOMAIN_AUTH_H
#define PADDOCK_DOMAIN_AUTH_H

#include "domain/caller.h"
#include "domain/domain.h"

struct auth_request {
	const char *authorization;   /* the header's value ("Bearer ..."); NULL or "" when absent */
	const char *act_for;         /* X-Paddock-User; NULL or "" when absent */
	const char *request_id;      /* copied, cut to its size; NULL is fine */
	const char *address;         /* the same */
};

/* ERR_DENIED "unauthorized" (missing, malformed, unknown, expired, revoked token, disabled account: 401);
 * ERR_INVALID "user_header_required" (service token without X-Paddock-User), ERR_DENIED "forbidden" (X-Paddock-User with another kind: 403);
 * ERR_NOT_FOUND "unknown_user" (a service token for a user that does not exist). */
int auth_bearer(struct domain *d, const struct auth_request *rq, struct caller *ret, err_t **err);

/* auth_bearer and runs_get in one round trip: what GET /api/runs/{id} calls. *ret_run is set on success only. */
int auth_run_get(struct domain *d, const struct auth_request *rq, const char *run_id, struct caller *ret, json_t **ret_run, err_t **err);

#endif
