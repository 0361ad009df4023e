/* sandbox_view.c - the part of sandbox.h that only looks. */
#include "base/cleanup.h"
#include "domain/answer.h"
#include "domain/auth_db.h"
#include "domain/sandbox.h"
#include "domain/sandbox_json.h"

static int ask_sandbox(struct db *d, const char *id, const char *act_for, const void *arg, struct db_result **ret, err_t **err)
{
	(void)arg;
	return db_auth_sandbox(d, id, act_for, ret, err);
}

int auth_sandbox_get(struct domain *d, const struct auth_request *rq, struct caller *ret, json_t **ret_sandbox, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (auth_with(d, rq, ask_sandbox, NULL, ret, &r, err) < 0)
		return -1;
	json_t *o = sandbox_json(d, r, 0, AUTH_COLS, err);
	if (!o)
		return -1;
	*ret_sandbox = o;
	return 0;
}

int sandbox_get(struct domain *d, const struct caller *c, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_sandbox_view(d->db, c->user_id, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0)
		return answer_not_found("user", err);
	json_t *o = sandbox_json(d, r, 0, 0, err);
	if (!o)
		return -1;
	*ret = o;
	return 0;
}
