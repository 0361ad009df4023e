/* host.h - the inside of the provider `host`; shared by its own files only. docs/host.md draws a sandbox's way. */
#ifndef PADDOCK_PROVIDER_HOST_H
#define PADDOCK_PROVIDER_HOST_H

#include "base/list.h"
#include "core/id.h"
#include "provider/agents.h"
#include "provider/host_call.h"
#include "provider/host_layout.h"
#include "provider/provider.h"
#include "provider/workspace.h"

#define HOST_BACKOFF_MIN_MS 100

enum sandbox_step {
	SANDBOX_LOOK,        /* what is there? */
	SANDBOX_MAKE,        /* its directories, the agent's socket */
	SANDBOX_LAUNCH,      /* the launcher is asked */
	SANDBOX_WAIT,        /* runs; the agent is not there yet */
	SANDBOX_UP,
	SANDBOX_PAUSED,      /* nothing of it runs; its files wait */
	SANDBOX_DOWN,        /* failed or vanished, or removal given up for now: only destroy() leads on */
	SANDBOX_END,         /* its processes are ended */
	SANDBOX_REMOVE,
};

struct sandbox {
	struct agent_instance agent;
	struct provider *p;
	char id[ID_SIZE];
	char workspace[WORKSPACE_NAME_MAX + 1];
	enum sandbox_step step;
	bool was_ready;                  /* it existed: never made anew */
	bool waking;                     /* on its way from PAUSED to UP */
	bool want_pause, want_destroy;
	bool asked;                      /* lookup(): what the next look shows is told */
	bool vanished;                   /* its directory is gone: END leads to DOWN */
	bool exited;                     /* DOWN: EXITED was told, not FAILED */
	err_t *why;                      /* DOWN */
	unsigned refusals;
	int64_t deadline_ms, backoff_ms; /* CLOCK_BOOTTIME; since: of END */
	int64_t end_since_ms, quiet_until_ms;
	struct loop_timer *timer;
	struct host_call *call;
	struct host_run run;             /* who runs; agent.pid 0: nobody known */
	int agent_fd, keeper_fd;         /* pidfds; -1 */
	struct loop_io *agent_io, *keeper_io;
};

struct provider {
	struct agents agents;            /* first: agents.h */
	const struct config *config;
	const char *sandboxes, *launcher;
	int root_fd, workspaces_fd;      /* of sandboxes, of workspaces */
	int64_t create_timeout_ms;
	struct host_call *probe;         /* out, or NULL */
	int launcher_fd;                 /* a pidfd of the launcher that was asked last, or -1 */
	int64_t probed_ms;
	char *facts;                     /* of the last probe; NULL: none yet */
	bool launcher_there;
	char launcher_hint[256];
};
_Static_assert(offsetof(struct provider, agents) == 0, "as agents.h asks");

struct sandbox *host_sandbox(struct agent_instance *i);   /* NULL: NULL */
struct sandbox *host_find(struct provider *p, const char *id);
void host_tell(struct sandbox *s, enum instance_event ev, const err_t *err);

/* host_sandbox.c */
struct sandbox *sandbox_new(struct provider *p, const char *id, err_t **err);
void sandbox_free(struct sandbox *s);                    /* forgets; it goes on */
void sandbox_begin(struct sandbox *s, enum sandbox_step first);
void sandbox_kick(struct sandbox *s);
void sandbox_go(struct sandbox *s, enum sandbox_step step);
void sandbox_destroy(struct sandbox *s);
void sandbox_pause(struct sandbox *s);
void sandbox_retry(struct sandbox *s, const err_t *why); /* again after the back-off, unless the deadline has passed */
void sandbox_fail(struct sandbox *s, const err_t *why);  /* it does not come up: FAILED, or WAKE_FAILED and PAUSED again */
void sandbox_vanished(struct sandbox *s);

/* host_up.c: from a directory to an agent that answers. */
void sandbox_look(struct sandbox *s);
void sandbox_make(struct sandbox *s);
void sandbox_launch(struct sandbox *s);
void sandbox_check_up(struct sandbox *s);

/* host_end.c */
void sandbox_end(struct sandbox *s);
void sandbox_remove(struct sandbox *s);
void sandbox_forget_run(struct sandbox *s);              /* nothing of it runs any more */

/* host_agent.c: what it is asked by agents.c */
extern const struct agents_ops host_agents_ops;

/* host_ask.c */
int host_lookup(struct provider *p, const char *id, err_t **err);
int host_pause(struct provider *p, const char *id, err_t **err);
int host_wake(struct provider *p, const char *id, err_t **err);
int host_keep_alive(struct provider *p, const char *id, int64_t ms, err_t **err);
int host_list(struct provider *p, err_t **err);
void host_sweep(struct provider *p, bool (*known)(void *arg, const char *instance_id), void *arg);

/* host_health.c */
void host_probe_begin(struct provider *p);
void host_probe_free(struct provider *p);
char *host_health(struct provider *p);

#endif
