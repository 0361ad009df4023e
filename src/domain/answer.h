/* answer.h - the result words of the database's functions become errors; who acts becomes an origin. For src/domain alone. */
#ifndef PADDOCK_DOMAIN_ANSWER_H
#define PADDOCK_DOMAIN_ANSWER_H

#include <stdbool.h>

#include "core/json.h"
#include "db/db_accounts.h"
#include "db/db_runs.h"
#include "domain/caller.h"

/* 0 when the word is a success; else an error with that word as its detail. */
int answer_check(const char *word, err_t **err);
struct db_origin answer_origin(const struct caller *c);   /* borrows from c, as the next one */
struct db_act answer_act(const struct caller *c);
/* "not_found" for something of the caller's that is not there. Returns -1. */
int answer_not_found(const char *what, err_t **err);
/* May the statement be sent once more? After a deadlock, or when another request is using the same Idempotency-Key at this moment. Counts down *tries and forgets *err. */
bool answer_again(int *tries, bool has_key, err_t **err);

/* How many of the first `rows` rows are the items of a page of at most `limit`; do more follow? total: how many rows there were in all. */
int answer_page(int rows, int64_t limit, int64_t total, bool *ret_more);
/* {items, next_cursor}. Takes items, also when it fails; NULL: out of memory. cursor: of the last item when more follow, else NULL. */
int answer_items(json_t *items, const char *cursor, json_t **ret, err_t **err);
/* An array of what row() makes of each row, a new reference. ERR_NO_MEMORY when it, or row(), is out of memory. */
int answer_list(const struct db_result *r, json_t *(*row)(const struct db_result *r, int i), json_t **ret, err_t **err);

#endif
