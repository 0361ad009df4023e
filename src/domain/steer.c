#include "domain/steer.h"

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/str.h"
#include "domain/answer.h"
#include "domain/cleanup.h"
#include "domain/idempotency_db.h"
#include "domain/run_json.h"

#define TRIES 4

static int add_run(json_t *o, const char *key, const struct db_result *r, int at, const char *user, err_t **err)
{
	json_t *run = run_json(r, 0, at, user, err);
	if (!run)
		return -1;
	return json_add(o, key, run) < 0 ? err_set(err, ERR_NO_MEMORY, NULL, "no memory for an answer") : 0;
}

static int give(const struct db_result *r, const char *user, json_t **ret, err_t **err)
{
	cleanup_json json_t *o = json_object_new_object();
	if (!o)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for an answer");
	if (add_run(o, "run", r, RUN_ANSWER_AT, user, err) < 0 || add_run(o, "successor", r, RUN_SUCCESSOR_AT, user, err) < 0)
		return -1;
	*ret = steal_ptr(&o);
	return 0;
}

/* Whoever comes second learns where the Thread goes on. */
static int refused(const struct db_result *r, err_t **err)
{
	const char *word = db_str(r, 0, 0), *successor = db_str(r, 0, RUN_ANSWER_AT + RUN_SUCCESSOR);
	if (str_eq(word, "run_ended") && successor)
		return err_set(err, ERR_CONFLICT, word, "the Run has ended; Run %s is its successor", successor);
	return answer_check(word, err);
}

int steer_run(struct domain *d, const struct caller *c, const char *run_id, const struct steer *s, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct db_origin o = answer_origin(c);
	struct idempotency_hash idem;
	char successor[ID_SIZE];
	err_t *e = NULL;
	if (!id_valid(run_id))
		return answer_not_found("Run", err);
	if (!s->input)
		return err_set(err, ERR_INVALID, "bad_field", "field \"input\" is missing");
	const char *input = json_text((json_t *)s->input, NULL);
	if (!input)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for the input");
	if (idempotency_check(d, &s->idempotency, &idem, err) < 0)
		return -1;
	id_v7(successor);
	FAULT_POINT(steer_before_row);
	for (int tries = TRIES; db_run_steer(d->db, run_id, successor, input, &idem.db, &o, &r, &e) < 0;)
		if (!answer_again(&tries, s->idempotency.key, &e))
			return err_move(err, e);
	FAULT_POINT(steer_after_row);
	if (refused(r, err) < 0)
		return -1;
	/* The duty is on record; this kills the commands now. A repeated request finds it done, or does what the first one was kept from. */
	(void)cleanup_run(d, run_id, NULL);
	return give(r, c->user, ret, err);
}
