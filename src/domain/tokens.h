/* tokens.h - bearer tokens: pdk_<12 hex>_<64 hex>; the database has a keyed hash of the whole. */
#ifndef PADDOCK_DOMAIN_TOKENS_H
#define PADDOCK_DOMAIN_TOKENS_H

#include "domain/caller.h"
#include "domain/domain.h"
#include "domain/idempotency.h"

#define TOKEN_SECRET_SIZE 128

struct token_new {
	const char *user;            /* name; ERR_NOT_FOUND "unknown_user" */
	enum caller_kind kind;       /* admin needs an admin account: ERR_REFUSED "not_an_admin" */
	const char *label;           /* NULL for none; at most 200 bytes */
	int64_t lifetime_ms;         /* 0: does not expire */
	struct idempotency idempotency;   /* with a key the token is derived from it: the same request gives the same token, for good */
};

/* The only time that secret is seen, but for a repeated Idempotency-Key; the caller wipes it. */
int tokens_create(struct domain *d, const struct caller *by, const struct token_new *n, char secret[TOKEN_SECRET_SIZE], err_t **err);
int tokens_list(struct domain *d, const char *user, json_t **ret, err_t **err);   /* user NULL: all. Array of {id, user, kind, label, created_at, expires_at, revoked_at} */
/* The caller's own, oldest first: {items, next_cursor}. limit 0: the default. ERR_REFUSED "bad_limit", ERR_INVALID "bad_cursor". */
int tokens_page(struct domain *d, const struct caller *c, int64_t limit, const char *cursor, json_t **ret, err_t **err);
int tokens_revoke(struct domain *d, const struct caller *by, const char *id, err_t **err);       /* anybody's. ERR_NOT_FOUND */
int tokens_revoke_own(struct domain *d, const struct caller *by, const char *id, err_t **err);   /* one of the caller's */

#endif
