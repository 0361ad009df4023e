/* sandbox_admin.h - users' sandboxes as operators see them: what there is, what is stuck and why, what to do. What they change is in sandbox.h. */
#ifndef PADDOCK_DOMAIN_SANDBOX_ADMIN_H
#define PADDOCK_DOMAIN_SANDBOX_ADMIN_H

#include "domain/caller.h"
#include "domain/domain.h"

/* An array of {user, provider, state, generation, instance_id, provider_ref, since, last_activity_at, keep_until, created_at, lock_version, error, stuck: [text]}
 * by user name; user NULL: all. Asks no executor. */
int sandbox_admin_list(struct domain *d, const char *user, json_t **ret, err_t **err);

/* An array of former instances that are not gone yet, of one user (NULL: all): {id, user, generation, created_at, retired_at, quarantined_at, tries, error,
 * advice}; advice is text for who has to look at one in quarantine, else null. */
int sandbox_admin_left(struct domain *d, const char *user, json_t **ret, err_t **err);

struct sandbox_page {
	const char *cursor;   /* NULL: from the first; ERR_INVALID "bad_cursor" */
	int64_t limit;        /* 0: 50; else 1-200 (ERR_REFUSED "bad_limit") */
};
/* {items, next_cursor} of those in quarantine. */
int sandbox_admin_quarantine(struct domain *d, const struct sandbox_page *q, json_t **ret, err_t **err);

/* The janitor looks at once at what is under way with a user's sandbox and at what is to be destroyed of former ones. ERR_NOT_FOUND "not_found". */
int sandbox_admin_retry(struct domain *d, const struct caller *by, const char *user, err_t **err);

#endif
