/* command_end.h - ends of commands become rows. For src/domain alone. */
#ifndef PADDOCK_DOMAIN_COMMAND_END_H
#define PADDOCK_DOMAIN_COMMAND_END_H

#include "base/buf.h"
#include "core/json.h"
#include "db/db.h"
#include "domain/domain.h"

/* A batch: what the executor said about commands, to be written in one commit. */
struct ends {
	json_t *items;
	struct buf out, err;     /* arrays of bytea, see db_array.h */
	size_t n, expected;
};

/* expected: how many elements will be added, exactly. */
int ends_begin(struct ends *e, size_t expected, err_t **err);
void ends_free(struct ends *e);
#define cleanup_ends __attribute__((__cleanup__(ends_free)))
/* The executor's Command: running, or ended with its texts. */
int ends_add(struct ends *e, const json_t *command, err_t **err);
/* The executor has never heard of it, or has lost it. */
int ends_add_lost(struct ends *e, const char *command_id, err_t **err);
/* Writes the batch durably. *ret: rows of db_commands_record. */
int ends_commit(struct domain *d, struct ends *e, struct db_result **ret, err_t **err);
/* What is to be done after a batch: cleans up Runs that ended with it, kills strays. Failures are left to the sweeps. */
void ends_follow(struct domain *d, const struct db_result *r);

/* Asks the executor to kill every open command of a Run. The number of open commands, or -1 when one could not be asked. */
int command_end_kill_open(struct domain *d, const char *run_id, const char *reason, err_t **err);
/* For a Run whose instance is gone: each open command gets the end that the executor has on record, else it is lost. The number of those
 * that have none yet, or -1. */
int command_end_settle(struct domain *d, const char *run_id, err_t **err);
/* One of them: 0 settled (*ret, when ret is not NULL, as ends_commit), 1 it has no end yet, -1. */
int command_end_settle_one(struct domain *d, const char *command_id, struct db_result **ret, err_t **err);

#endif
