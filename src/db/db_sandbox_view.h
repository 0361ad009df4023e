/* db_sandbox_view.h - what is shown of users' sandboxes. These statements read and write nothing. */
#ifndef PADDOCK_DB_DB_SANDBOX_VIEW_H
#define PADDOCK_DB_DB_SANDBOX_VIEW_H

#include "db/db.h"

/* Columns of a user's sandbox, from the column at which they start. Up to SBV_MOVING they are NULL while the user never had one. SBV_KEEP_MS: how long
 * from now it was asked to be kept; SBV_MOVING: an operation is under way. SBV_BUSY: an array, a word for each thing that goes on, named as what stands
 * against a rebuild: active_runs, cancel_requested, cleanup_pending, active_operations. */
enum sandbox_view_col {
	SBV_PROVIDER, SBV_STATE, SBV_GENERATION, SBV_REF, SBV_CREATED, SBV_ACTIVITY, SBV_KEEP_MS, SBV_ERROR_CODE, SBV_ERROR_MESSAGE, SBV_MOVING,
	SBV_USAGE_MS, SBV_BUSY, SBV_COLS
};

/* As db_auth(), with the acting user's sandbox from AUTH_COLS on. */
int db_auth_sandbox(struct db *d, const char *token_id, const char *act_for, struct db_result **ret, err_t **err);
/* One row from column 0 on; none when there is no such user. */
int db_sandbox_view(struct db *d, const char *user_id, struct db_result **ret, err_t **err);

#endif
