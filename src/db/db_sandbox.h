/* db_sandbox.h - user_sandboxes and users' instances in the ledger: what moves them (sql/0007_sandboxes.sql has the decisions). */
#ifndef PADDOCK_DB_DB_SANDBOX_H
#define PADDOCK_DB_DB_SANDBOX_H

#include "db/db.h"
#include "db/db_runs.h"

/* A sandbox as its movers need it; workspace is its user's name. Sandboxes of nobody have no row. */
enum sandbox_col {
	SANDBOX_USER, SANDBOX_WORKSPACE, SANDBOX_STATE, SANDBOX_GENERATION, SANDBOX_INSTANCE, SANDBOX_PREVIOUS, SANDBOX_VERSION, SANDBOX_COLS
};

/* Decisions of a user (o->user_id): one row, the result word (see sql/), the sandbox from SANDBOX_ANSWER_AT on, then the blockers, separated by commas. */
#define SANDBOX_ANSWER_AT 1
#define SANDBOX_BLOCKERS (SANDBOX_ANSWER_AT + SANDBOX_COLS)
struct db_rebuild {
	const char *provider, *instance, *workspace;
	int64_t stale_ms, max_user_instances, max_all_instances;
};
int db_sandbox_rebuild(struct db *d, const struct db_rebuild *b, const struct db_origin *o, struct db_result **ret, err_t **err);
int db_sandbox_release(struct db *d, const char *provider, int64_t stale_ms, const struct db_origin *o, struct db_result **ret, err_t **err);
/* idle_ms < 0: its user wants it. */
int db_sandbox_pause(struct db *d, const char *provider, int64_t idle_ms, int64_t stale_ms, const struct db_origin *o, struct db_result **ret, err_t **err);
int db_sandbox_keep(struct db *d, const char *provider, int64_t ms, int64_t stale_ms, const struct db_origin *o, struct db_result **ret, err_t **err);
/* Of the user with that name, by an operator. */
int db_sandbox_quarantine(struct db *d, const char *user, const struct db_origin *o, struct db_result **ret, err_t **err);

/* What the executor says of an instance. */
struct db_seen {
	const char *instance;
	int64_t version;           /* only while the row is of that version; 0: whatever it is */
	const char *state, *ref;   /* ref: the provider's own name, or NULL */
	int64_t running_ms;        /* -1: not known */
	const char *code, *message;
};
/* The sandbox as it is then; no row when the instance is nobody's present one, or the version has passed. */
int db_sandbox_observe(struct db *d, const struct db_seen *s, struct db_result **ret, err_t **err);
int db_instance_gone(struct db *d, const char *instance, int64_t running_ms, const char *message, err_t **err);
/* Commands of a user's instance that the provider started or ended just now: its sandbox was of use. ids: an array in text form, {…}. */
int db_sandbox_used(struct db *d, const char *ids, err_t **err);
int db_sandbox_kept(struct db *d, const char *instance, err_t **err);

/* Sandbox columns from 0 on: of one instance (its user's present one); the same when its operation made no progress for age_ms, whose time begins anew for
 * the one caller that gets the row; of this provider: in an operation without progress for age_ms; idle for so long. */
int db_sandbox_of(struct db *d, const char *instance, struct db_result **ret, err_t **err);
int db_sandbox_doubt(struct db *d, const char *instance, int64_t age_ms, struct db_result **ret, err_t **err);
int db_sandboxes_moving(struct db *d, const char *provider, int64_t age_ms, int64_t limit, struct db_result **ret, err_t **err);
int db_sandboxes_idle(struct db *d, const char *provider, int64_t idle_ms, int64_t limit, struct db_result **ret, err_t **err);
/* Those with an active Run that were not kept alive for period_ms; marked as kept, so that another janitor takes others. */
int db_sandboxes_to_keep(struct db *d, const char *provider, int64_t period_ms, int64_t limit, struct db_result **ret, err_t **err);

/* Instances of this provider to be destroyed whose time has come, column 0: put off by hold_ms, so that another janitor takes others meanwhile. */
int db_instances_retired(struct db *d, const char *provider, int64_t limit, int64_t hold_ms, struct db_result **ret, err_t **err);
/* Not gone yet: why NULL, under way; else counted, and with stuck put into quarantine. */
int db_instance_later(struct db *d, const char *instance, const char *why, bool stuck, int64_t min_ms, int64_t max_ms, err_t **err);
/* An instance of a user that no row knows (a database from a backup): put into quarantine, destroyed by nobody but an operator. */
int db_instance_stranger(struct db *d, const char *instance, const char *workspace, const char *provider, err_t **err);
/* A user's instance as the ledger has it; no row when it has none of that id. IN_LEDGER_STATE and IN_LEDGER_PREVIOUS of its sandbox, NULL of one that is
 * retired, IN_LEDGER_USAGE: how far its running time is accounted for. */
enum in_ledger_col { IN_LEDGER_WORKSPACE, IN_LEDGER_PROVIDER, IN_LEDGER_USAGE, IN_LEDGER_STATE, IN_LEDGER_PREVIOUS };
int db_instance_in_ledger(struct db *d, const char *instance, struct db_result **ret, err_t **err);
/* One row when the instance is in quarantine. */
int db_instance_quarantined(struct db *d, const char *instance, struct db_result **ret, err_t **err);

#endif
