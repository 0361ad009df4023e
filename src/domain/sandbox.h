/* sandbox.h - a user's own sandbox, which outlives Runs: what it is, and the calls that move it. States and who moves them: docs/lifecycle.md.
 *
 * Every call decides under the user's advisory lock in one short transaction and then tells the executor; what the executor does not hear, the janitor
 * tells it again. None waits for a provider longer than WAIT_MS in sandbox.c. Besides the errors of domain.h:
 *   ERR_CONFLICT "rebuild_unsupported", "pause_unsupported", "release_unsupported", "keep_alive_unsupported" (the backend has no such sandboxes),
 *   "sandbox_busy" (*ret_blockers says why), "sandbox_not_found" (it vanished; a rebuild makes another), "sandbox_not_running", "provider_changed";
 *   ERR_LIMIT "too_many_instances" (a rebuild, where too many that cannot be removed are left);
 *   ERR_UNAVAILABLE "control_plane_unavailable" (an operation is in doubt and the executor or provider cannot be asked; nothing was done).
 *
 * Blockers: active_runs, cancel_requested, active_operations, cleanup_pending, operation_in_progress; a look also names rebuild_unsupported and
 * provider_changed, which a move refuses with these codes. */
#ifndef PADDOCK_DOMAIN_SANDBOX_H
#define PADDOCK_DOMAIN_SANDBOX_H

#include "domain/auth.h"
#include "domain/caller.h"
#include "domain/domain.h"

/* The Sandbox object of the HTTP contract, from rows alone: wakes nothing, counts as no activity, asks no executor. One round trip with the
 * authentication, as auth_run_get(). */
int auth_sandbox_get(struct domain *d, const struct auth_request *rq, struct caller *ret, json_t **ret_sandbox, err_t **err);
/* The same for a caller that is known. */
int sandbox_get(struct domain *d, const struct caller *c, json_t **ret, err_t **err);

/* Each gives the Sandbox as it is then. On "sandbox_busy" *ret_blockers is a new array of words, else NULL. */
int sandbox_rebuild(struct domain *d, const struct caller *c, json_t **ret, json_t **ret_blockers, err_t **err);
int sandbox_pause(struct domain *d, const struct caller *c, json_t **ret, json_t **ret_blockers, err_t **err);
int sandbox_release(struct domain *d, const struct caller *c, json_t **ret, json_t **ret_blockers, err_t **err);
#define SANDBOX_KEEP_MAX_MS INT64_C(604800000)   /* 7 days */
int sandbox_keep_alive(struct domain *d, const struct caller *c, int64_t ms, json_t **ret, err_t **err);   /* ERR_REFUSED "bad_timeout": 1..SANDBOX_KEEP_MAX_MS */

/* Operators: takes a sandbox that is of no use out of its user's hands; it is destroyed as far as that is possible, the next use makes another.
 * ERR_NOT_FOUND "not_found". */
int sandbox_quarantine(struct domain *d, const char *user, const struct caller *c, err_t **err);
/* Operators: somebody has looked and says that nothing of a quarantined instance is left. ERR_NOT_FOUND: not in quarantine. */
int sandbox_retire(struct domain *d, const char *instance, const struct caller *c, err_t **err);

#endif
