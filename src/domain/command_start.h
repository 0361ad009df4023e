/* command_start.h - what commands_start and execute_start share: checks, the row's parts, the executor. For src/domain alone. */
#ifndef PADDOCK_DOMAIN_COMMAND_START_H
#define PADDOCK_DOMAIN_COMMAND_START_H

#include "db/db_commands.h"
#include "domain/commands.h"
#include "domain/idempotency_db.h"

struct start {
	char id[ID_SIZE], scope[ID_SIZE];
	struct db_command_new row;
	struct idempotency_hash idem;
	char *cwd;               /* NULL: the workdir */
	json_t *body;            /* of the executor's PUT, as far as the request determines it */
	bool stdin_later;        /* too large for the PUT: sent after it */
};

int start_prepare(struct domain *d, const struct command_new *n, struct start *ret, err_t **err);
void start_free(struct start *s);
#define cleanup_start __attribute__((__cleanup__(start_free)))
/* The row is committed (r: its answer, a success): tells the executor. `since`: clock_boot_ms() before the row was written. */
int start_tell(struct domain *d, const struct caller *c, const struct command_new *n, struct start *s, const struct db_result *r, int64_t since,
	struct command_started *ret, err_t **err);
/* The row was refused (r: its answer): is another try worth it? After too_many_* the ends that the executor has already reported are written down first,
 * after sandbox_stale it is asked what became of the operation. 1: yes. 0: no. -1: an error. *tries begins with START_AGAIN. */
int start_again(struct domain *d, const struct db_result *r, int *tries, err_t **err);
#define START_AGAIN 5

/* Is there such a command of the caller's, and has its row an end? ERR_NOT_FOUND. */
int commands_peek(struct domain *d, const struct caller *c, const char *command_id, bool *ret_ended, err_t **err);

/* A row whose executor has not heard of it may be called lost after this; a worker does not send it any more long before. */
#define START_SETTLE_MS 30000

#endif
