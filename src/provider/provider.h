/* provider.h - the contract between the executor and whatever isolates code (container, host, a remote microVM).
 *
 * A provider owns instances by an id that its caller chose (a UUID, which is also the operation id of the create: asking twice is safe, and what a lost
 * answer left behind is found again under it). All calls return at once; what comes of them arrives later through provider_events, from the loop, never
 * from within a call. An instance and its commands outlive the executor: after a restart adopt() finds them again and the same events come for them.
 *
 *              create               pause                  destroy
 *    (nothing) ──────► being made ─► READY ──────► PAUSED ──────────► GONE
 *                          │           ▲    wake     │                 ▲ from every state, also for ids never seen
 *                          └► FAILED   └─────────────┘   EXITED: it vanished
 *
 * Error classes, in calls and events: ERR_NOT_FOUND (confirmed absent), ERR_BUSY (not now, nothing done), ERR_UNKNOWN (it may have been done: ask again
 * by id, never create a second), ERR_DENIED (credentials), ERR_UNAVAILABLE (engine or control plane away, nothing done), ERR_LIMIT (quota),
 * ERR_REFUSED with detail "…_unsupported" (a capability that the provider does not have). Messages end up in answers: they name no path of this machine
 * (outside.h). Every provider passes tests/unit/test_provider.c. */
#ifndef PADDOCK_PROVIDER_PROVIDER_H
#define PADDOCK_PROVIDER_PROVIDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "core/config.h"
#include "core/loop.h"
#include "provider/exec.h"

enum provider_cap {
	PROVIDER_PERSISTENT = 1 << 0,  /* one instance a user, which outlives Runs; else one a Run */
	PROVIDER_PAUSE = 1 << 1,       /* pause() and wake() */
	PROVIDER_RELEASE = 1 << 2,     /* the instance is merely warm: its user may give it up */
	PROVIDER_MOUNTS = 1 << 3,      /* workspace and skills are mounted at their virtual paths */
	PROVIDER_SUDO = 1 << 4,
};

/* The capabilities of a configured backend ("container", "host", ...); 0 for an unknown one. Pure: also for processes that hold no provider. */
unsigned provider_caps(const char *name);
/* What every answer about its sandboxes has to warn of: fixed texts, NULL-terminated, maybe none. Also for processes that hold no provider: decided by
 * the configuration and, at each call, by whether a program that it needs is installed on this machine. */
const char *const *provider_warnings(const char *name, const struct config *c);

struct instance_spec {
	const char *id;             /* UUID, also the operation id */
	const char *workspace;      /* directory name below [paths] workspaces, checked: [a-z0-9][a-z0-9._-]{0,63}; never a path from a caller */
};

enum instance_event {
	INSTANCE_READY,             /* commands can be started now; also after an adoption, a wake, or when the agent dialled again. The first one, and the
	                             * first after LOST_CONTACT or PAUSED: all that it still holds of commands was told before. Any other answers lookup() */
	INSTANCE_AT_IT,             /* answer to lookup(): still being made, woken or paused */
	INSTANCE_PAUSED,            /* answer to pause(), or it paused by itself, or its processes ended but it can be woken: its commands are lost */
	INSTANCE_PAUSE_FAILED,      /* it goes on as before; err says why (ERR_BUSY: commands run) */
	INSTANCE_WAKE_FAILED,       /* still paused; err says why. Not for one that vanished: that is EXITED */
	INSTANCE_KEPT,              /* answer to keep() */
	INSTANCE_KEEP_FAILED,
	INSTANCE_LOST_CONTACT,      /* the agent's connection broke; it may come back */
	INSTANCE_FAILED,            /* will never be ready; destroy() it to clean up. err says why; ERR_UNKNOWN: its making is in doubt, lookup() tells */
	INSTANCE_EXITED,            /* it existed and is no more (its commands are lost); never made anew under this id */
	INSTANCE_GONE,              /* confirmed: nothing of it is left (answer to destroy) */
	INSTANCE_DESTROY_FAILED,    /* could not be confirmed; err says why; destroy() again later */
};

enum listed_state { LISTED_RUNNING, LISTED_PAUSED, LISTED_OTHER };

struct listed {
	const char *ref;            /* the provider's own name of it */
	const char *id;             /* the instance id that created it; NULL: not one of ours */
	enum listed_state state;
};

/* All called from the loop. ids are borrowed. Descriptors are handed over: the callee closes them. */
struct provider_events {
	void (*instance)(void *arg, const char *instance_id, enum instance_event ev, const err_t *err);
	/* out_fd and err_fd: read ends of pipes, non-blocking. Bytes still in them belong to the command even after its end, until exec_ack(). */
	void (*started)(void *arg, const char *instance_id, const char *exec_id, const struct exec_started *s, int out_fd, int err_fd);
	/* The leader was reaped and everything it wrote is in the pipes. Repeated after a reconnect until exec_ack(). */
	void (*exited)(void *arg, const char *instance_id, const char *exec_id, const struct exec_exited *e);
	/* stdin: the agent holds `taken` bytes in all; up to `window` more may be sent. Told after started() of an adopted command, too:
	 * nothing may be sent to it before. */
	void (*stdin_taken)(void *arg, const char *instance_id, const char *exec_id, uint64_t taken, uint64_t window);
	/* Answer to scope_end(): err NULL: confirmed, no process of it is left and none will start; else it could not be confirmed: ask again. */
	void (*scope_ended)(void *arg, const char *instance_id, const char *scope, const err_t *err);
	/* Answer to list(): complete is false when the provider gave only a part: absence from it means nothing. err: no list at all. */
	void (*listed)(void *arg, const struct listed *items, size_t n, bool complete, const err_t *err);
};

/* How an instance was left when it was last written down. */
enum instance_was { INSTANCE_WAS_MADE, INSTANCE_WAS_READY, INSTANCE_WAS_PAUSED };   /* WAS_MADE: its creation was under way */

struct provider;   /* one opened provider */

struct provider_ops {
	const char *name;
	unsigned caps;
	struct provider *(*open)(struct loop *l, const struct config *c, const struct provider_events *ev, void *arg, err_t **err);
	void (*close)(struct provider *p);   /* instances go on */

	/* Row first: the caller has written the instance down before this call. ERR_EXISTS when it is already managed. */
	int (*create)(struct provider *p, const struct instance_spec *s, err_t **err);
	/* After a restart: take up an instance that was written down, in whatever state the engine has it: running -> READY after the agent
	 * dialled in; paused -> PAUSED; half-made -> finished or made anew; absent -> made anew when it was only being made, else EXITED. */
	int (*adopt)(struct provider *p, const struct instance_spec *s, enum instance_was was, err_t **err);
	/* Asks the engine anew what became of it. Answered by READY, AT_IT, PAUSED, EXITED, FAILED, or nothing when the engine is away. */
	int (*lookup)(struct provider *p, const char *instance_id, err_t **err);
	/* With PROVIDER_PAUSE, else ERR_REFUSED "pause_unsupported". Repeating either is safe. pause() while commands run: ERR_BUSY. wake() of one that runs: READY,
	 * of one that is being paused: ERR_BUSY. */
	int (*pause)(struct provider *p, const char *instance_id, err_t **err);
	int (*wake)(struct provider *p, const char *instance_id, err_t **err);
	/* It shall not be paused or removed by the provider's own timer for so long. Answered by KEPT, KEEP_FAILED (ERR_CONFLICT when it
	 * is not ready), or EXITED. */
	int (*keep)(struct provider *p, const char *instance_id, int64_t ms, err_t **err);
	/* Idempotent; also for ids never seen. Ends in INSTANCE_GONE or INSTANCE_DESTROY_FAILED. */
	int (*destroy)(struct provider *p, const char *instance_id, err_t **err);
	/* Everything of ours that the engine holds at any layer and that is not in the set `known`: destroyed when instances are per Run; with
	 * PROVIDER_PERSISTENT only logged, for it holds a user's things. Asynchronous. */
	void (*sweep)(struct provider *p, bool (*known)(void *arg, const char *instance_id), void *arg);

	int (*exec)(struct provider *p, const char *instance_id, const struct exec_spec *s, err_t **err);
	/* The end and all that was in the pipes at the end is in the journal: what comes after it nobody reads. */
	int (*exec_ack)(struct provider *p, const char *instance_id, const char *exec_id, err_t **err);
	int (*exec_stdin)(struct provider *p, const char *instance_id, const char *exec_id, uint64_t offset, const void *data, size_t n, bool eof, err_t **err);
	int (*exec_signal)(struct provider *p, const char *instance_id, const struct exec_ref *x, int signo, err_t **err);   /* to the process group */
	/* The whole tree; ends in exited() with EXEC_WHY_KILLED. Of one that has ended what it left in the background, without an event. */
	int (*exec_kill)(struct provider *p, const char *instance_id, const struct exec_ref *x, err_t **err);
	/* Kills what is left of all commands of the scope, also what an ended one left in the background, and drops what it kept for it ($PADDOCK_ENV).
	 * From now on exec() with this scope starts nothing. Idempotent; of an instance that is paused without processes, absent or unknown: confirmed
	 * at once. Answered by scope_ended(). */
	int (*scope_end)(struct provider *p, const char *instance_id, const char *scope, err_t **err);
	/* The provider's own whole list, unknown ones included. Answered by listed(). */
	int (*list)(struct provider *p, err_t **err);

	/* True when the kernel holds the instance to its memory and process limits; known once it was ready. */
	bool (*enforced)(struct provider *p, const char *instance_id);

	/* Readiness (R1.9): facts, JSON objects {"name","ok","hint"} separated by commas (malloc'ed); cheap, from cached probes. One of what the provider can do
	 * nothing without (engine, control plane) has besides "away": true while it is not ok: nothing new is asked of the provider then. */
	char *(*health)(struct provider *p);
};

extern const struct provider_ops provider_container, provider_host;

/* The provider for the configured backend, or NULL with an error that names what is allowed. */
const struct provider_ops *provider_find(const char *name, err_t **err);

#endif
