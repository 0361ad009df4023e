#include "domain/execute.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "domain/answer.h"
#include "domain/check.h"
#include "domain/command_start.h"

#define TRIES 4

static int write_rows(struct domain *d, const struct caller *c, const struct start *s, struct db_result **ret, err_t **err)
{
	char run[ID_SIZE], instance[ID_SIZE];
	struct db_origin o = answer_origin(c);
	struct db_execute x = { .run = run, .instance = instance, .workspace = c->user, .backend = d->backend, .workdir = CHECK_WORKSPACE, .timeout_ms = d->limits.run_timeout_ms };
	err_t *e = NULL;
	id_v7(run);
	id_v7(instance);
	FAULT_POINT(execute_before_row);
	for (int tries = TRIES; db_execute_start(d->db, &x, &s->row, &s->idem.db, &o, ret, &e) < 0;)
		if (!answer_again(&tries, s->idem.db.key, &e))
			return err_move(err, e);
	FAULT_POINT(execute_after_row);
	return 0;
}

int execute_start(struct domain *d, const struct caller *c, const struct command_new *n, struct command_started *ret, err_t **err)
{
	cleanup_start struct start s = { 0 };
	cleanup_db_result struct db_result *r = NULL;
	int64_t since;
	int again, tries = START_AGAIN;
	if (start_prepare(d, n, &s, err) < 0)
		return -1;
	do {
		db_result_free(steal_ptr(&r));
		since = clock_boot_ms();
		if (write_rows(d, c, &s, &r, err) < 0)
			return -1;
		again = start_again(d, r, &tries, err);
	} while (again > 0);
	if (again < 0 || answer_check(db_str(r, 0, START_RESULT), err) < 0)
		return -1;
	return start_tell(d, c, n, &s, r, since, ret, err);
}
