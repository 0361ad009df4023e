/* auth_db.h - for src/domain alone: authentication and a read of something of the acting user's in one round trip. */
#ifndef PADDOCK_DOMAIN_AUTH_DB_H
#define PADDOCK_DOMAIN_AUTH_DB_H

#include "db/db_accounts.h"
#include "domain/auth.h"

/* Asks for the token's row; what else it reads follows from column AUTH_COLS on. */
typedef int auth_read(struct db *d, const char *token_id, const char *act_for, const void *arg, struct db_result **ret, err_t **err);

/* As auth_bearer(); *ret_row is the row, for the caller to free. Both are set on success only. */
int auth_with(struct domain *d, const struct auth_request *rq, auth_read *ask, const void *arg, struct caller *ret, struct db_result **ret_row, err_t **err);

#endif
