#include "domain/operator.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "db/db_operator.h"
#include "domain/answer.h"
#include "domain/audit.h"
#include "domain/executor_client.h"

static int kill_at(struct domain *d, const char *command_id, const char *instance, err_t **err)
{
	err_t *e = NULL;
	if (executor_client_kill(d->executor, command_id, instance, "cancelled", &e) == 0)
		return 0;
	if (err_code(e) != ERR_NOT_FOUND && err_code(e) != ERR_CONFLICT) {
		err_move(err, e);
		return err_wrap(err, "the executor");
	}
	err_free(e);
	return err_set(err, ERR_CONFLICT, "not_running", "the command is not running");
}

int operator_kill(struct domain *d, const struct caller *by, const char *command_id, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct caller act = *by;
	err_t *e = NULL;
	if (!id_valid(command_id))
		return answer_not_found("command", err);
	if (db_operator_command(d->db, command_id, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0)
		return answer_not_found("command", err);
	if (db_bool(r, 0, OPERATOR_FIND_ENDED))
		return err_set(err, ERR_CONFLICT, "not_running", "the command has ended");
	int rc = kill_at(d, command_id, db_str(r, 0, OPERATOR_FIND_INSTANCE), &e);
	if (str_copy(act.user_id, sizeof act.user_id, db_str(r, 0, OPERATOR_FIND_USER)) == 0)
		(void)audit_write(d, &act, "command.kill", command_id, rc < 0 ? err_detail(e) : "ok", NULL);
	return rc < 0 ? err_move(err, e) : 0;
}

int operator_retry(struct domain *d, const struct caller *by, const char *run_id, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	cleanup_json json_t *ids = json_object_new_array();
	struct db_act a = answer_act(by);
	if (run_id && !id_valid(run_id))
		return answer_not_found("clean-up", err);
	if (db_operator_retry(d->db, run_id, &a, &r, err) < 0)
		return -1;
	if (run_id && db_rows(r) == 0)
		return answer_not_found("clean-up", err);
	for (int i = 0; ids && i < db_rows(r); i++)
		json_object_array_add(ids, json_object_new_string(db_str(r, i, 0)));
	if (!ids)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a list");
	*ret = steal_ptr(&ids);
	return 0;
}
