/* outcome.h - how a command ended: the words of docs/executor-api.md and the mapping from what the agent says. */
#ifndef PADDOCK_EXECUTOR_OUTCOME_H
#define PADDOCK_EXECUTOR_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "provider/provider.h"

enum reason {
	REASON_NONE,
	REASON_EXITED,
	REASON_SIGNALED,
	REASON_TIMEOUT,
	REASON_CANCELLED,
	REASON_OUTPUT_LIMIT,
	REASON_OOM,
	REASON_NOT_STARTED,
	REASON_LOST,
};

enum start_error {
	START_OK,
	START_CWD_NOT_FOUND,
	START_CWD_FORBIDDEN,
	START_EXEC_NOT_FOUND,
	START_EXEC_FORBIDDEN,
	START_EXEC_FAILED,
	START_NO_PROCESS,
	START_INSTANCE_FAILED,
	START_EXECUTOR_RESTARTED,
	START_WAKE_FAILED,
	START_SANDBOX_NOT_FOUND,
};

/* Whose time was over: what the command was given, what its stage had left, or the Run's. */
enum timer {
	TIMER_NONE,
	TIMER_COMMAND,
	TIMER_STAGE,
	TIMER_RUN,
};

struct outcome {
	enum reason reason;
	enum timer timer;          /* REASON_TIMEOUT */
	enum start_error error;    /* REASON_NOT_STARTED */
	int exit_code;             /* -1: none */
	int signal;                /* 0: none */
	int64_t ended_ms;          /* wall */
	uint64_t bytes[2];         /* all that was written, by output_stream */
	bool truncated[2];
};

const char *reason_name(enum reason r);                 /* "exited", ...; NULL for REASON_NONE */
enum reason reason_parse(const char *name);             /* REASON_NONE when unknown */
const char *timer_name(enum timer t);                   /* "command", ...; NULL for TIMER_NONE */
enum timer timer_parse(const char *name);               /* TIMER_NONE when unknown */
const char *start_error_code(enum start_error e);       /* "cwd_not_found", ... */
const char *start_error_message(enum start_error e);    /* for people */
int start_error_status(enum start_error e);             /* the HTTP status of a result that never started */

/* `asked`: why we killed it, or REASON_NONE. `doomed`: its instance is being destroyed, so a death by SIGKILL is that. `own`: whose the time is that its
 * agent keeps; a kill for want of time is the Run's. */
void outcome_of_exit(const struct exec_exited *e, enum reason asked, bool doomed, enum timer own, struct outcome *ret);
void outcome_not_started(enum start_error e, struct outcome *ret);
void outcome_lost(struct outcome *ret);
void outcome_killed(enum reason asked, struct outcome *ret);   /* before it was handed over, or ended with its instance, which we destroyed */

void outcome_add(struct buf *b, const struct outcome *o);   /* the journal's form */
int outcome_parse(const json_t *j, struct outcome *ret, err_t **err);

#endif
