/* db_accounts.h - users, tokens, audit. */
#ifndef PADDOCK_DB_DB_ACCOUNTS_H
#define PADDOCK_DB_DB_ACCOUNTS_H

#include "db/db.h"
#include "db/db_runs.h"

/* One row, or none when the token is unknown: hash, kind, usable (bool: neither expired nor revoked, account enabled), user id, name, admin, then
 * id and name of the user that act_for names (NULL: none, or unknown). With run_id the Run's columns follow from RUN_AT on, NULL when the
 * user has no such Run. */
enum { AUTH_HASH, AUTH_KIND, AUTH_USABLE, AUTH_USER_ID, AUTH_USER, AUTH_ADMIN, AUTH_FOR_ID, AUTH_FOR, AUTH_COLS };
int db_auth(struct db *d, const char *token_id, const char *act_for, struct db_result **ret, err_t **err);
int db_auth_run(struct db *d, const char *token_id, const char *act_for, const char *run_id, struct db_result **ret, err_t **err);

/* Who changes something, for the audit: actor names one without an account. What follows writes its row in the same transaction. */
struct db_act {
	struct db_origin origin;
	const char *actor;
};

/* ERR_EXISTS for a name that is taken. */
int db_user_insert(struct db *d, const char *id, const char *name, bool admin, const struct db_act *a, err_t **err);
enum { USER_ID, USER_NAME, USER_ADMIN, USER_DISABLED, USER_CREATED };
int db_users(struct db *d, const char *name, struct db_result **ret, err_t **err);   /* NULL: all */

struct db_token_new {
	const char *id, *user_id, *kind, *label;   /* label: NULL for none */
	const void *hash;
	size_t hash_len;
	int64_t lifetime_ms;                       /* 0: for ever */
};
int db_token_insert(struct db *d, const struct db_token_new *t, const struct db_act *a, err_t **err);
enum { TOKEN_ID, TOKEN_USER, TOKEN_KIND, TOKEN_LABEL, TOKEN_CREATED, TOKEN_EXPIRES, TOKEN_REVOKED };
int db_tokens(struct db *d, const char *user, struct db_result **ret, err_t **err);   /* NULL: all */
/* One user's, oldest first, behind the token `after` (NULL: from the first). */
int db_tokens_of(struct db *d, const char *user_id, const char *after, int64_t limit, struct db_result **ret, err_t **err);
int db_token_is_of(struct db *d, const char *id, const char *user_id, bool *ret, err_t **err);
/* user_id: whose it must be; NULL: anybody's. A second time changes nothing. */
int db_token_revoke(struct db *d, const char *id, const char *user_id, const struct db_act *a, bool *ret_found, err_t **err);

int db_audit(struct db *d, const struct db_act *a, const char *action, const char *object, const char *result, err_t **err);

#endif
