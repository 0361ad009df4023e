/* run_json.h - a Run's row as the HTTP contract shows it. For src/domain alone. */
#ifndef PADDOCK_DOMAIN_RUN_JSON_H
#define PADDOCK_DOMAIN_RUN_JSON_H

#include "core/json.h"
#include "db/db_runs.h"

/* The Run in row `row`, whose columns begin at `at`; a new reference. user: its owner's name. */
json_t *run_json(const struct db_result *r, int row, int at, const char *user, err_t **err);
/* An RFC 3339 time of a column in milliseconds, null for NULL. */
int run_json_time(json_t *o, const char *key, const struct db_result *r, int row, int col);

#endif
