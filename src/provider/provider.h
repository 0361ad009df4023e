/* provider.h - the contract between the executor and whatever isolates code (container, host, a remote microVM).
 *
 * A provider owns instances by an id that its caller chose (a UUID, which is also the operation id of the create: asking twice
 * is safe). All calls return at once; what comes of them arrives later through provider_events, from the loop. An instance and its
 * commands outlive the executor: after a restart provider_adopt() finds them again and the same events come for them.
 *
 * Errors that matter to the caller: ERR_NOT_FOUND (confirmed absent), ERR_BUSY, ERR_UNKNOWN (ask again by id, never create a second),
 * ERR_DENIED, ERR_UNAVAILABLE (engine away, nothing done), ERR_LIMIT (quota). */
#ifndef PADDOCK_PROVIDER_PROVIDER_H
#define PADDOCK_PROVIDER_PROVIDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "core/config.h"
#include "core/loop.h"

enum provider_cap {
	PROVIDER_PERSISTENT = 1 << 0,  /* instances outlive a Run */
	PROVIDER_PAUSE = 1 << 1,
	PROVIDER_RELEASE = 1 << 2,
	PROVIDER_MOUNTS = 1 << 3,      /* workspace and skills are mounted at their virtual paths */
	PROVIDER_SUDO = 1 << 4,
};

struct instance_spec {
	const char *id;             /* UUID, also the operation id */
	const char *workspace;      /* directory name below [paths] workspaces, checked: [a-z0-9][a-z0-9._-]{0,63}; never a path from a caller */
};

enum instance_event {
	INSTANCE_READY,             /* commands can be started now; also after an adoption or when the agent dialled again */
	INSTANCE_LOST_CONTACT,      /* the agent's connection broke; it may come back */
	INSTANCE_FAILED,            /* will never be ready; destroy() it to clean up. err says why */
	INSTANCE_EXITED,            /* it ran and has ended by itself (its commands are lost) */
	INSTANCE_GONE,              /* confirmed: nothing of it is left (answer to destroy) */
	INSTANCE_DESTROY_FAILED,    /* could not be confirmed; err says why; destroy() again later */
};

struct exec_spec {
	const char *exec_id;        /* UUID */
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

/* All called from the loop. ids are borrowed. Descriptors are handed over: the callee closes them. */
struct provider_events {
	void (*instance)(void *arg, const char *instance_id, enum instance_event ev, const err_t *err);
	/* out_fd and err_fd: read ends of pipes, non-blocking. Bytes still in them belong to the command even after its end. */
	void (*started)(void *arg, const char *instance_id, const char *exec_id, const struct exec_started *s, int out_fd, int err_fd);
	/* The leader was reaped and everything it wrote is in the pipes. Repeated after a reconnect until exec_ack(). */
	void (*exited)(void *arg, const char *instance_id, const char *exec_id, const struct exec_exited *e);
	/* stdin: the agent holds `taken` bytes in all; up to `window` more may be sent. Told after started() of an adopted command, too:
	 * nothing may be sent to it before. */
	void (*stdin_taken)(void *arg, const char *instance_id, const char *exec_id, uint64_t taken, uint64_t window);
};

struct provider;   /* one opened provider */

struct provider_ops {
	const char *name;
	unsigned caps;
	struct provider *(*open)(struct loop *l, const struct config *c, const struct provider_events *ev, void *arg, err_t **err);
	void (*close)(struct provider *p);   /* instances go on */

	/* Row first: the caller has written the instance down before this call. ERR_EXISTS when it is already managed. */
	int (*create)(struct provider *p, const struct instance_spec *s, err_t **err);
	/* After a restart: take up an instance that was written down, in whatever state the engine has it: running -> READY after the agent
	 * dialled in; half-made -> finished or made anew; absent -> made anew when `was_ready` is false, else EXITED. */
	int (*adopt)(struct provider *p, const struct instance_spec *s, bool was_ready, err_t **err);
	/* Idempotent; also for ids never seen. Ends in INSTANCE_GONE or INSTANCE_DESTROY_FAILED. */
	int (*destroy)(struct provider *p, const char *instance_id, err_t **err);
	/* Everything of ours that the engine holds at any layer and that is not in the set `known` is destroyed. Asynchronous, logs. */
	void (*sweep)(struct provider *p, bool (*known)(void *arg, const char *instance_id), void *arg);

	int (*exec)(struct provider *p, const char *instance_id, const struct exec_spec *s, err_t **err);
	int (*exec_ack)(struct provider *p, const char *instance_id, const char *exec_id, err_t **err);   /* the end is in the journal */
	int (*exec_stdin)(struct provider *p, const char *instance_id, const char *exec_id, uint64_t offset, const void *data, size_t n, bool eof, err_t **err);
	int (*exec_signal)(struct provider *p, const char *instance_id, const char *exec_id, int signo, err_t **err);   /* to the process group */
	int (*exec_kill)(struct provider *p, const char *instance_id, const char *exec_id, err_t **err);   /* the whole tree; ends in exited() with EXEC_WHY_KILLED */

	/* True when the kernel holds the instance to its memory and process limits; known once it was ready. */
	bool (*enforced)(struct provider *p, const char *instance_id);

	/* Readiness (R1.9): appends {"name","ok","hint"} facts as JSON objects separated by commas to *ret (malloc'ed); cheap, from cached probes. */
	char *(*health)(struct provider *p);
};

extern const struct provider_ops provider_container;

/* The provider for the configured backend, or NULL with an error that names what is allowed. */
const struct provider_ops *provider_find(const char *name, err_t **err);

#endif
