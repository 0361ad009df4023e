/* users.h - accounts. */
#ifndef PADDOCK_DOMAIN_USERS_H
#define PADDOCK_DOMAIN_USERS_H

#include "domain/caller.h"
#include "domain/domain.h"

bool users_name_valid(const char *name);   /* [a-z0-9][a-z0-9._-]{0,63} */
/* ERR_REFUSED "bad_user_name", ERR_EXISTS "user_exists". `by` is for the audit. */
int users_create(struct domain *d, const struct caller *by, const char *name, bool admin, json_t **ret, err_t **err);
int users_list(struct domain *d, json_t **ret, err_t **err);   /* array of {id, name, admin, disabled, created_at} */

#endif
