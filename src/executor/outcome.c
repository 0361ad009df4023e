#include "executor/outcome.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

static const char *const reason_names[] = {
	[REASON_EXITED] = "exited",
	[REASON_SIGNALED] = "signaled",
	[REASON_TIMEOUT] = "timeout",
	[REASON_CANCELLED] = "cancelled",
	[REASON_OUTPUT_LIMIT] = "output_limit",
	[REASON_OOM] = "oom",
	[REASON_NOT_STARTED] = "not_started",
	[REASON_LOST] = "lost",
};

static const char *const timer_names[] = {
	[TIMER_COMMAND] = "command",
	[TIMER_STAGE] = "stage",
	[TIMER_RUN] = "run",
};

static const struct {
	const char *code, *message;
	int status;
} start_errors[] = {
	[START_OK] = { "", "", 200 },
	[START_CWD_NOT_FOUND] = { "cwd_not_found", "the working directory does not exist", 422 },
	[START_CWD_FORBIDDEN] = { "cwd_forbidden", "the working directory cannot be entered", 422 },
	[START_EXEC_NOT_FOUND] = { "exec_not_found", "the program was not found", 422 },
	[START_EXEC_FORBIDDEN] = { "exec_forbidden", "the program may not be executed", 422 },
	[START_EXEC_FAILED] = { "exec_failed", "the command could not be started", 422 },
	[START_NO_PROCESS] = { "too_many_processes", "the sandbox has no room for another process: end some of its processes, or the Run", 429 },
	[START_INSTANCE_FAILED] = { "instance_failed", "the sandbox did not become ready", 503 },
	[START_EXECUTOR_RESTARTED] = { "executor_restarted", "the executor was restarted before the command was handed over; nothing was started", 503 },
	[START_WAKE_FAILED] = { "wake_failed", "the sandbox could not be woken; nothing was started", 503 },
	[START_SANDBOX_NOT_FOUND] = { "sandbox_not_found", "the sandbox is no more; nothing was started", 409 },
};

#define N_REASONS (sizeof reason_names / sizeof *reason_names)
#define N_TIMERS (sizeof timer_names / sizeof *timer_names)
#define N_START_ERRORS (sizeof start_errors / sizeof *start_errors)

const char *reason_name(enum reason r)
{
	return (size_t)r < N_REASONS ? reason_names[r] : NULL;
}

enum reason reason_parse(const char *name)
{
	for (size_t i = REASON_EXITED; i < N_REASONS; i++)
		if (str_eq(name, reason_names[i]))
			return (enum reason)i;
	return REASON_NONE;
}

const char *timer_name(enum timer t)
{
	return (size_t)t < N_TIMERS ? timer_names[t] : NULL;
}

enum timer timer_parse(const char *name)
{
	for (size_t i = TIMER_COMMAND; i < N_TIMERS; i++)
		if (str_eq(name, timer_names[i]))
			return (enum timer)i;
	return TIMER_NONE;
}

const char *start_error_code(enum start_error e)
{
	return start_errors[e].code;
}

const char *start_error_message(enum start_error e)
{
	return start_errors[e].message;
}

int start_error_status(enum start_error e)
{
	return start_errors[e].status;
}

static enum start_error start_error_parse(const char *code)
{
	for (size_t i = 0; i < N_START_ERRORS; i++)
		if (str_eq(code, start_errors[i].code))
			return (enum start_error)i;
	return START_EXEC_FAILED;
}

static void clear(struct outcome *o, enum reason r)
{
	*o = (struct outcome){ .reason = r, .exit_code = -1, .ended_ms = clock_wall_ms() };
}

void outcome_not_started(enum start_error e, struct outcome *ret)
{
	clear(ret, REASON_NOT_STARTED);
	ret->error = e;
}

void outcome_lost(struct outcome *ret)
{
	clear(ret, REASON_LOST);
}

static enum reason asked_or_cancelled(enum reason asked)
{
	return asked != REASON_NONE ? asked : REASON_CANCELLED;
}

void outcome_killed(enum reason asked, struct outcome *ret)
{
	clear(ret, asked_or_cancelled(asked));
	ret->timer = ret->reason == REASON_TIMEOUT ? TIMER_RUN : TIMER_NONE;
	ret->signal = SIGKILL;
}

static enum start_error start_error_of(const char *stage, int errnum)
{
	bool missing = errnum == ENOENT || errnum == ENOTDIR;

	if (stage && str_eq(stage, "cwd"))
		return missing ? START_CWD_NOT_FOUND : START_CWD_FORBIDDEN;
	if (errnum == EAGAIN)
		return START_NO_PROCESS;
	if (!stage || !str_eq(stage, "exec"))
		return START_EXEC_FAILED;
	if (missing)
		return START_EXEC_NOT_FOUND;
	return errnum == EACCES || errnum == EPERM ? START_EXEC_FORBIDDEN : START_EXEC_FAILED;
}

static enum reason why_of(const struct exec_exited *e, enum reason asked, bool doomed)
{
	switch (e->why) {
	case EXEC_WHY_TIMEOUT:
		return REASON_TIMEOUT;
	case EXEC_WHY_OOM:
		return REASON_OOM;
	case EXEC_WHY_KILLED:
		return asked_or_cancelled(asked);
	case EXEC_WHY_NONE:
		break;
	}
	if (e->end == EXEC_SIGNALED && doomed)
		return asked_or_cancelled(asked);
	return e->end == EXEC_SIGNALED ? REASON_SIGNALED : REASON_EXITED;
}

void outcome_of_exit(const struct exec_exited *e, enum reason asked, bool doomed, enum timer own, struct outcome *ret)
{
	if (e->end == EXEC_NOT_STARTED)
		outcome_not_started(start_error_of(e->stage, e->error), ret);
	else if (e->end == EXEC_LOST)
		outcome_lost(ret);
	else
		clear(ret, why_of(e, asked, doomed));
	if (ret->reason == REASON_TIMEOUT)
		ret->timer = e->why == EXEC_WHY_TIMEOUT ? own : TIMER_RUN;
	if (e->end == EXEC_EXITED)
		ret->exit_code = e->code;
	if (e->end == EXEC_SIGNALED)
		ret->signal = e->code;
	/* The agent's word, but for times that the database could not hold: it is the same clock as ours. */
	if (e->ended_wall_ms > 0 && e->ended_wall_ms < ret->ended_ms)
		ret->ended_ms = e->ended_wall_ms;
}

void outcome_add(struct buf *b, const struct outcome *o)
{
	buf_addf(b, "{\"reason\":\"%s\",\"error\":\"%s\"", reason_name(o->reason), start_error_code(o->error));
	if (o->timer != TIMER_NONE)
		buf_addf(b, ",\"timer\":\"%s\"", timer_name(o->timer));
	buf_addf(b, ",\"code\":%d,\"signal\":%d,\"ended\":%" PRId64 ",\"out\":%" PRIu64 ",\"err\":%" PRIu64, o->exit_code, o->signal, o->ended_ms,
		o->bytes[0], o->bytes[1]);
	buf_addf(b, ",\"out_cut\":%s,\"err_cut\":%s}", o->truncated[0] ? "true" : "false", o->truncated[1] ? "true" : "false");
}

int outcome_parse(const json_t *j, struct outcome *ret, err_t **err)
{
	const char *reason = "", *error = "", *timer = "";
	int64_t code = -1, sig = 0, out = 0, er = 0;
	struct outcome o = { 0 };

	if (json_get_str(j, "reason", true, &reason, err) < 0 ||
	    json_get_str(j, "error", true, &error, err) < 0 || json_get_str(j, "timer", false, &timer, err) < 0 ||
	    json_get_i64(j, "code", true, -1, 255, &code, err) < 0 || json_get_i64(j, "signal", true, 0, 255, &sig, err) < 0 ||
	    json_get_i64(j, "ended", true, 0, INT64_MAX, &o.ended_ms, err) < 0 ||
	    json_get_i64(j, "out", true, 0, INT64_MAX, &out, err) < 0 || json_get_i64(j, "err", true, 0, INT64_MAX, &er, err) < 0 ||
	    json_get_bool(j, "out_cut", true, &o.truncated[0], err) < 0 || json_get_bool(j, "err_cut", true, &o.truncated[1], err) < 0)
		return -1;
	o.reason = reason_parse(reason);
	if (o.reason == REASON_NONE)
		return err_set(err, ERR_INVALID, NULL, "unknown reason in the journal");
	o.error = start_error_parse(error);
	o.timer = timer_parse(timer);
	o.exit_code = (int)code;
	o.signal = (int)sig;
	o.bytes[0] = (uint64_t)out;
	o.bytes[1] = (uint64_t)er;
	*ret = o;
	return 0;
}
