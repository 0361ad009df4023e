/* sandbox_json.h - the Sandbox object of the HTTP contract from a row of db_sandbox_view.h. */
#ifndef PADDOCK_DOMAIN_SANDBOX_JSON_H
#define PADDOCK_DOMAIN_SANDBOX_JSON_H

#include "core/json.h"
#include "db/db_sandbox_view.h"
#include "domain/domain.h"

/* A new reference, or NULL (ERR_NO_MEMORY). Its columns start at `at`. */
json_t *sandbox_json(const struct domain *d, const struct db_result *r, int row, int at, err_t **err);

#endif
