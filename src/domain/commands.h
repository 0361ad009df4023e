/* commands.h - commands in a Run: row first, then the executor. */
#ifndef PADDOCK_DOMAIN_COMMANDS_H
#define PADDOCK_DOMAIN_COMMANDS_H

#include "domain/caller.h"
#include "domain/domain.h"
#include "domain/idempotency.h"

#define TICKET_SIZE 129
#define COMMAND_TEXT_MAX (1 << 20)

/* Which view nginx will fetch by the ticket. */
enum command_view { COMMAND_VIEW_NONE, COMMAND_VIEW_RESULT, COMMAND_VIEW_SSE, COMMAND_VIEW_NDJSON, COMMAND_VIEW_STDOUT, COMMAND_VIEW_STDERR };

/* An operation of the service's own, on files or to verify variables, is on record as a command is. */
enum command_kind { COMMAND_KIND_COMMAND, COMMAND_KIND_FILE, COMMAND_KIND_VERIFY };

/* What the caller sent; checked here. Pass json members as they are: exactly one of command and argv. */
struct command_new {
	const char *lease_token;     /* NULL: by the Run's own user while no lease is held; not used by execute_start */
	const char *command;         /* text for bash -c, NUL-free */
	const json_t *argv;          /* array of 1-4096 strings */
	const char *cwd;             /* NULL: the Run's workdir */
	const json_t *env;           /* object of strings; NULL for none */
	const char *stdin_text;      /* NULL: none; may hold NUL, see stdin_len */
	size_t stdin_len;
	bool keep_stdin;
	bool has_timeout;
	int64_t timeout_ms;
	const char *stage;           /* NULL: none. Commands of a stage share its time; a timeout_ms of the command goes before */
	bool has_stage_timeout;
	int64_t stage_timeout_ms;
	bool background;
	enum command_view view;      /* COMMAND_VIEW_NONE with background */
	bool base64;                 /* ?encoding=base64 */
	bool with_sandbox;           /* a sandbox that no longer exists is replaced, and the command started once more in the new one */
	enum command_kind kind;
	struct idempotency idempotency;
};

struct command_started {
	char id[ID_SIZE];
	char run_id[ID_SIZE];
	char ticket[TICKET_SIZE];    /* "" with COMMAND_VIEW_NONE, or when `command` is the final answer already (a replay) */
	json_t *command;             /* the Command as it is now: set when ticket is "" (202 for background); free with json_object_put */
	bool replayed;               /* an earlier answer to the same Idempotency-Key */
};

/* One round trip to the database (durable), then one to the executor.
 * ERR_INVALID "bad_field" (neither or both of command and argv, wrong types inside argv and env);
 * ERR_REFUSED "bad_command" (empty, too long), "bad_argv", "bad_cwd", "bad_env", "bad_timeout", "bad_stage", "bad_stdin";
 * ERR_CONFLICT "cleanup_pending", "lease_lost", "lease_required", "run_ended", "sandbox_lost", "stage_timeout", "with_sandbox_unsupported", and of a user's
 * own sandbox "sandbox_not_found", "provider_changed"; ERR_LIMIT "too_many_commands", "too_many_instances";
 * ERR_UNAVAILABLE "executor_unavailable", "control_plane_unavailable": it was not started and never will be. ERR_UNKNOWN "outcome_unknown": it may run; the
 * janitor settles it. With with_sandbox the call waits until the command has started, at most 15 s. */
int commands_start(struct domain *d, const struct caller *c, const char *run_id, const struct command_new *n, struct command_started *ret, err_t **err);

/* The Command with its texts. While its row is not final the executor's live view is merged in; without the executor the row alone. */
int commands_get(struct domain *d, const struct caller *c, const char *command_id, json_t **ret, err_t **err);

struct command_list {
	const char *cursor;      /* as in runs.h */
	int64_t limit;
};
/* {items:[Command without texts], next_cursor}, oldest first. */
int commands_list(struct domain *d, const struct caller *c, const char *run_id, const struct command_list *q, json_t **ret, err_t **err);

/* A ticket for a view of the caller's command. ERR_GONE "output_expired": the executor has forgotten it; its row (commands_get) is what is left. */
int commands_ticket(struct domain *d, const struct caller *c, const char *command_id, enum command_view view, uint64_t from, bool base64,
	char ticket[TICKET_SIZE], err_t **err);

/* {received_bytes} · ERR_CONFLICT "not_running" · ERR_TOO_LARGE "stdin_too_large". */
int commands_stdin(struct domain *d, const struct caller *c, const char *command_id, const void *p, size_t n, bool eof, json_t **ret, err_t **err);
/* signal: a name with or without SIG, or a number 1-64 in digits; ERR_REFUSED "bad_signal". 202; ERR_CONFLICT "not_running". */
int commands_signal(struct domain *d, const struct caller *c, const char *command_id, const char *sig, err_t **err);
int commands_kill(struct domain *d, const struct caller *c, const char *command_id, err_t **err);

#endif
