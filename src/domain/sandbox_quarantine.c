/* sandbox_quarantine.c - what operators do with an instance that can be neither used nor removed (declared in sandbox.h). */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "domain/answer.h"
#include "domain/audit.h"
#include "domain/executor_client.h"
#include "domain/sandbox.h"
#include "domain/sandbox_ask.h"

int sandbox_quarantine(struct domain *d, const char *user, const struct caller *c, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct db_origin o = answer_origin(c);
	err_t *e = NULL;
	if (db_sandbox_quarantine(d->db, user, &o, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0 || !str_eq(db_str(r, 0, 0), "quarantined"))
		return err_set(err, ERR_NOT_FOUND, "not_found", "this user has no sandbox");
	const char *instance = db_str(r, 0, SANDBOX_ANSWER_AT + SANDBOX_PREVIOUS);
	if (domain_persistent(d) && sandbox_tell_destroy(d, instance, &e) < 0) {
		log_kv(LOG_WARN, "quarantine_not_told", "sandbox", instance, "err", err_message(e), NULL);
		err_free(e);
	}
	return 0;
}

int sandbox_retire(struct domain *d, const char *instance, const struct caller *c, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (!id_valid(instance))
		return answer_not_found("instance in quarantine", err);
	if (db_instance_quarantined(d->db, instance, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0)
		return answer_not_found("instance in quarantine", err);
	if (executor_client_instance_forget(d->executor, instance, err) < 0 || db_instance_gone(d->db, instance, -1, "an operator says that it is gone", err) < 0)
		return -1;
	return audit_write(d, c, "sandbox.retire", instance, "ok", err);
}
