/* db_sweeps.h - what the janitor reads and moves: leases, ceilings, cancels, clean-up, the ledger of instances, old keys, what is kept no longer. */
#ifndef PADDOCK_DB_DB_SWEEPS_H
#define PADDOCK_DB_DB_SWEEPS_H

#include "db/db.h"

/* Each gives the ids of the Runs that it moved in column 0. */
int db_expire_leases(struct db *d, int64_t limit, struct db_result **ret, err_t **err);
int db_expire_deadlines(struct db *d, int64_t limit, struct db_result **ret, err_t **err);
int db_settle_cancels(struct db *d, int64_t limit, int64_t patience_ms, struct db_result **ret, err_t **err);
/* Runs that wait for their commands to be killed. */
int db_cancels(struct db *d, int64_t limit, struct db_result **ret, err_t **err);
/* The Run of an instance lost it: offered again, or failed. One row with the Run's id when the ledger knows the instance and its Run was going on. */
int db_instance_lost(struct db *d, const char *instance, const char *code, const char *message, struct db_result **ret, err_t **err);

/* Due clean-ups: run id. Those taken are put off by hold_ms, so that another janitor takes others meanwhile. */
int db_cleanups_due(struct db *d, int64_t limit, int64_t hold_ms, struct db_result **ret, err_t **err);
/* A user's Runs whose clean-up is pending, column 0. */
int db_cleanups_of(struct db *d, const char *user, int64_t limit, struct db_result **ret, err_t **err);
/* pending (bool), instance id or NULL, did the Run reach its ceiling (bool), scope id or NULL, is the instance the user's (bool: it outlives the Run);
 * no row for an unknown Run. */
enum { CLEANUP_PENDING, CLEANUP_INSTANCE, CLEANUP_CEILING, CLEANUP_SCOPE, CLEANUP_SHARED };
int db_cleanup_read(struct db *d, const char *run, struct db_result **ret, err_t **err);
/* *ret_clear: the duty is cleared, or there was none. running_ms: how long an instance of the Run's own ran. */
int db_cleanup_confirm(struct db *d, const char *run, const char *instance, const char *scope, int64_t running_ms, bool *ret_clear, err_t **err);
/* Not yet: next try after a back-off between min and max that doubles with each failure (why), or after min when it is merely under way (why NULL). */
int db_cleanup_later(struct db *d, const char *run, const char *why, int64_t min_ms, int64_t max_ms, err_t **err);

/* The ledger: id, run id (NULL: a user's own), older (bool: than age_ms), cleanup (bool: its Run is being cleaned up, or it is to be destroyed), started (bool:
 * one of its commands that is older than age_ms is known to have started), state (of a user's own of this provider, at rest; else NULL). */
enum { LEDGER_ID, LEDGER_RUN, LEDGER_OLDER, LEDGER_CLEANUP, LEDGER_STARTED, LEDGER_STATE };
int db_ledger(struct db *d, int64_t age_ms, const char *provider, struct db_result **ret, err_t **err);
/* Run id of an instance that is gone, having run for so long; no row when it is not in the ledger. */
int db_ledger_gone(struct db *d, const char *instance, int64_t running_ms, struct db_result **ret, err_t **err);

/* Removes Idempotency-Keys older than age_ms. The number of removed ones in row 0. */
int db_forget_keys(struct db *d, int64_t age_ms, int64_t limit, struct db_result **ret, err_t **err);

/* One batch of what ended longer than that many days (≥ 1) ago: the outputs in commands' records, ended Runs with their commands, the audit. How many
 * rows it removed or changed in *ret; none were left when that is less than limit. */
int db_retire_outputs(struct db *d, int64_t days, int64_t limit, int64_t *ret, err_t **err);
int db_retire_runs(struct db *d, int64_t days, int64_t limit, int64_t *ret, err_t **err);
int db_retire_audit(struct db *d, int64_t days, int64_t limit, int64_t *ret, err_t **err);

#endif
