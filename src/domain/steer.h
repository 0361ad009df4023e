/* steer.h - new input for a Run at work: it yields, and a successor goes on with the input. See docs/lifecycle.md. */
#ifndef PADDOCK_DOMAIN_STEER_H
#define PADDOCK_DOMAIN_STEER_H

#include "domain/caller.h"
#include "domain/domain.h"
#include "domain/idempotency.h"

struct steer {
	const json_t *input;         /* required: any JSON value but null */
	struct idempotency idempotency;
};

/* {run, successor}: the Run has yielded, its lease and its commands are no more; the successor waits in the same Thread, with the same workdir, metadata and
 * limits, for a claim or a first command, which the Thread's fence holds back until the Run's environment is cleaned up. By the Run's user, leased or not.
 * ERR_INVALID "bad_field"; ERR_NOT_FOUND "not_found"; ERR_REFUSED "idempotency_mismatch"; ERR_CONFLICT "not_running" (its own input has not been taken yet),
 * "not_steerable" (a Run of POST /api/execute), "run_ended" (also when it is being cancelled; the message names a successor). */
int steer_run(struct domain *d, const struct caller *c, const char *run_id, const struct steer *s, json_t **ret, err_t **err);

#endif
