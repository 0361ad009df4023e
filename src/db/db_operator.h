/* db_operator.h - what an operator looks at, of all users. Times by the database's clock. */
#ifndef PADDOCK_DB_DB_OPERATOR_H
#define PADDOCK_DB_DB_OPERATOR_H

#include "db/db.h"
#include "db/db_accounts.h"

/* NULL and false: any. */
struct db_operator_filter {
	const char *user, *status, *run;
	bool all;                    /* Runs: those too that are over and cleaned up */
	bool stuck;                  /* Runs: that do not move by themselves in the usual time */
	bool open;                   /* commands: without an end */
	int64_t limit;
};

/* Newest first. WHY is a word: leased, lease_expired, running, unclaimed, fenced (BY: by which Run), cancelling, cleanup, cleanup_failed; NULL when it is over. */
enum { OPERATOR_RUN_ID, OPERATOR_RUN_CREATED, OPERATOR_RUN_STATUS, OPERATOR_RUN_ATTEMPT, OPERATOR_RUN_WHY, OPERATOR_RUN_BY, OPERATOR_RUN_USER, OPERATOR_RUN_THREAD,
	OPERATOR_RUN_OWNER, OPERATOR_RUN_EXPIRES, OPERATOR_RUN_CANCEL, OPERATOR_RUN_TRIES, OPERATOR_RUN_NEXT, OPERATOR_RUN_ERROR, OPERATOR_RUN_SUCCESSOR };
int db_operator_runs(struct db *d, const struct db_operator_filter *f, struct db_result **ret, err_t **err);

/* Newest first. COMMAND: of argv its JSON. */
enum { OPERATOR_COMMAND_ID, OPERATOR_COMMAND_CREATED, OPERATOR_COMMAND_STATUS, OPERATOR_COMMAND_REASON, OPERATOR_COMMAND_MS, OPERATOR_COMMAND_USER, OPERATOR_COMMAND_RUN,
	OPERATOR_COMMAND_INSTANCE, OPERATOR_COMMAND_TEXT };
int db_operator_commands(struct db *d, const struct db_operator_filter *f, struct db_result **ret, err_t **err);

/* A command's instance, whether it has ended, and whose it is; no row when it is unknown. */
enum { OPERATOR_FIND_INSTANCE, OPERATOR_FIND_ENDED, OPERATOR_FIND_USER };
int db_operator_command(struct db *d, const char *command, struct db_result **ret, err_t **err);

/* Runs whose clean-up is not confirmed, the longest waiting first. */
enum { OPERATOR_CLEANUP_RUN, OPERATOR_CLEANUP_SINCE, OPERATOR_CLEANUP_STATUS, OPERATOR_CLEANUP_TRIES, OPERATOR_CLEANUP_NEXT, OPERATOR_CLEANUP_USER, OPERATOR_CLEANUP_THREAD,
	OPERATOR_CLEANUP_INSTANCE, OPERATOR_CLEANUP_ERROR };
int db_operator_cleanups(struct db *d, const struct db_operator_filter *f, struct db_result **ret, err_t **err);
/* Their next try is now, of one Run or (NULL) of all. The ids of those that it moved; each has its row in the audit. */
int db_operator_retry(struct db *d, const char *run, const struct db_act *a, struct db_result **ret, err_t **err);

#endif
