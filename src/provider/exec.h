/* exec.h - a command inside an instance, as provider.h and the agent's connection speak of it. */
#ifndef PADDOCK_PROVIDER_EXEC_H
#define PADDOCK_PROVIDER_EXEC_H

#include <stdbool.h>
#include <stdint.h>

/* A file operation of the service runs as the same account as a command, tracked and killed like one, but with the base environment alone: nothing
 * that the user or an earlier command set reaches it. */
enum exec_kind { EXEC_COMMAND, EXEC_FILE };

struct exec_spec {
	const char *exec_id;        /* UUID */
	const char *scope;          /* UUID: the attempt of a Run to which it belongs; scope_end() ends all of them */
	enum exec_kind kind;
	char *const *argv;          /* NULL-terminated; NULL when command is given */
	const char *command;        /* text for /bin/bash -c, any length up to 1 MiB */
	const char *cwd;            /* absolute, inside the instance */
	bool make_cwd;              /* create cwd (as user) when it is missing: the Run's own workdir */
	char *const *env;           /* NAME=value, added to the agent's base environment; borrowed until the call returns */
	int64_t timeout_ms;         /* enforced by the agent, > 0 */
	bool stdin_open;            /* false: /dev/null */
};

struct exec_started {
	int64_t started_wall_ms;
	int32_t pgid;               /* inside the instance */
	uint64_t stdin_taken;       /* bytes of stdin that the agent already has (after an adoption) */
	bool adopted;               /* told again after a reconnect */
};

enum exec_end { EXEC_EXITED, EXEC_SIGNALED, EXEC_NOT_STARTED, EXEC_LOST };
enum exec_why { EXEC_WHY_NONE, EXEC_WHY_TIMEOUT, EXEC_WHY_KILLED, EXEC_WHY_OOM };

struct exec_exited {
	enum exec_end end;
	enum exec_why why;          /* what killed it, as the agent or the kernel's counters say */
	int code;                   /* exit status or signal number */
	int64_t ended_wall_ms;
	int32_t error;              /* EXEC_NOT_STARTED: errno */
	const char *stage;          /* EXEC_NOT_STARTED: "cwd", "exec", "limits", ... static */
};

/* What a kill or signal is verified against: all three must name the same command, or nothing is touched (R2.5). */
struct exec_ref {
	const char *exec_id;
	int32_t pgid;               /* as told by started(); 0 when that was never told */
};

#endif
