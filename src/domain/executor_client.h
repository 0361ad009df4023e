/* executor_client.h - blocking calls of docs/executor-api.md. Each has a deadline of its own; a connection is kept.
 *
 * Errors: ERR_UNAVAILABLE "executor_unavailable" (nothing was done), ERR_UNKNOWN "outcome_unknown" (ask again by id), else by the executor's code word:
 * ERR_NOT_FOUND "not_found"|"instance_not_found", ERR_GONE "instance_gone"|"scope_gone", ERR_LIMIT "too_many_commands"|"too_many_instances",
 * ERR_CONFLICT "not_running"|"instance_busy"|"instance_not_ready"|"other_instance", ERR_TOO_LARGE "stdin_too_large", ERR_REFUSED for other 4xx. */
#ifndef PADDOCK_DOMAIN_EXECUTOR_CLIENT_H
#define PADDOCK_DOMAIN_EXECUTOR_CLIENT_H

#include "base/err.h"
#include "core/json.h"

struct executor_client;

/* text_bytes: [executor] text_bytes, which bounds its answers. */
struct executor_client *executor_client_new(const char *socket_path, int64_t text_bytes, err_t **err);
void executor_client_free(struct executor_client *x);
void executor_client_request_id(struct executor_client *x, const char *id);   /* for the calls that follow; copied; NULL for none */

/* Each *ret is the answer's JSON, a new reference. */
/* wait_start_ms > 0: the answer is held until the command has started or ended, at most so long. */
int executor_client_command_put(struct executor_client *x, const char *cid, json_t *body, int64_t wait_start_ms, json_t **ret, err_t **err);
int executor_client_command_get(struct executor_client *x, const char *cid, bool texts, json_t **ret, err_t **err);
int executor_client_commands_query(struct executor_client *x, const char *const *ids, size_t n, json_t **ret, err_t **err);
int executor_client_ticket(struct executor_client *x, const char *cid, json_t *body, json_t **ret, err_t **err);
int executor_client_stdin(struct executor_client *x, const char *cid, const void *p, size_t n, bool eof, json_t **ret, err_t **err);
/* Both are refused with "other_instance" unless the command is of that one. NULL, for a kill: whichever. */
int executor_client_signal(struct executor_client *x, const char *cid, const char *instance, const char *sig, err_t **err);
int executor_client_kill(struct executor_client *x, const char *cid, const char *instance, const char *reason, err_t **err);
int executor_client_instances(struct executor_client *x, json_t **ret, err_t **err);
/* lookup: the provider is asked anew besides; what it says shows in later answers and reports. */
int executor_client_instance_get(struct executor_client *x, const char *iid, bool lookup, json_t **ret, err_t **err);
/* replaces: NULL, or an instance that has to be gone first. */
int executor_client_instance_put(struct executor_client *x, const char *iid, const char *workspace, const char *replaces, json_t **ret, err_t **err);
/* One that was made and that it may not know: what it did not know before it finds out from the provider. */
int executor_client_instance_take_back(struct executor_client *x, const char *iid, const char *workspace, bool paused, int64_t running_ms, json_t **ret, err_t **err);
int executor_client_instance_pause(struct executor_client *x, const char *iid, int64_t wait_ms, json_t **ret, err_t **err);
int executor_client_instance_wake(struct executor_client *x, const char *iid, json_t **ret, err_t **err);
int executor_client_instance_keep(struct executor_client *x, const char *iid, int64_t ms, json_t **ret, err_t **err);
/* Nothing of it is left: an operator says so. */
int executor_client_instance_forget(struct executor_client *x, const char *iid, err_t **err);
/* {state: "ending"|"gone"}: nothing of the scope is left in the instance, nor can start there. */
int executor_client_scope_delete(struct executor_client *x, const char *iid, const char *scope, const char *reason, json_t **ret, err_t **err);
int executor_client_instance_delete(struct executor_client *x, const char *iid, int64_t wait_ms, json_t **ret, err_t **err);
int executor_client_reports(struct executor_client *x, int64_t wait_ms, int64_t limit, json_t **ret, err_t **err);
int executor_client_ack(struct executor_client *x, json_t *keys, err_t **err);
int executor_client_health(struct executor_client *x, json_t **ret, err_t **err);

#endif
