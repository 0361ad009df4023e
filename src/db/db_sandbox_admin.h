/* db_sandbox_admin.h - users' sandboxes as operators see them. */
#ifndef PADDOCK_DB_DB_SANDBOX_ADMIN_H
#define PADDOCK_DB_DB_SANDBOX_ADMIN_H

#include "db/db.h"

/* One row a sandbox, by user name. SBA_STILL_MS: since the last progress of what is under way, NULL when nothing is. SBA_LEFT: of the user's former instances
 * that are not gone yet. SBA_CLEANUPS: Runs of the user whose clean-up is not confirmed. */
enum { SBA_USER, SBA_PROVIDER, SBA_STATE, SBA_GENERATION, SBA_INSTANCE, SBA_REF, SBA_SINCE, SBA_STILL_MS, SBA_ACTIVITY, SBA_KEEP_UNTIL, SBA_ERROR_CODE,
	SBA_ERROR_MESSAGE, SBA_CREATED, SBA_VERSION, SBA_LEFT, SBA_CLEANUPS };
int db_sandboxes(struct db *d, const char *user, struct db_result **ret, err_t **err);   /* NULL: all */

/* Former instances that are not gone: of one user (NULL: all), only those in quarantine when asked for; behind the id `after`, by id. Instances that no row
 * knew are destroyed by nobody: SBI_STRANGER. */
enum { SBI_ID, SBI_USER, SBI_GENERATION, SBI_CREATED, SBI_RETIRED, SBI_QUARANTINED, SBI_TRIES, SBI_ERROR, SBI_STRANGER };
int db_instances_left(struct db *d, const char *user, bool quarantined, const char *after, int64_t limit, struct db_result **ret, err_t **err);

/* What is under way counts as without progress for an hour, and what is to be destroyed is due. False: there is no such user. */
int db_sandbox_retry(struct db *d, const char *user, bool *ret_found, err_t **err);

#endif
