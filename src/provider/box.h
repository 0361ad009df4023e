/* box.h - one container of the provider `container`: its way from a name to READY and from there to confirmed absence.
 *
 * The states and what leads from one to the next are drawn in docs/container.md. A box is driven by its timer and by answers of engine, guard
 * and agent; at most one engine call is out for it. Internal to the provider. */
#ifndef PADDOCK_PROVIDER_BOX_H
#define PADDOCK_PROVIDER_BOX_H

#include "base/list.h"
#include "provider/agents.h"
#include "provider/engine.h"
#include "provider/guard.h"
#include "provider/provider.h"
#include "provider/workspace.h"

#define BOX_BACKOFF_MIN_MS 100

enum box_step {
	BOX_LOOKUP,     /* ask the engine by name, decide */
	BOX_CREATE,
	BOX_START,
	BOX_REMAKE,     /* it ended before it was ever ready: remove it, create anew */
	BOX_WAIT,       /* runs; limits, network guard and agent are not all there yet */
	BOX_UP,
	BOX_DOWN,       /* failed, ended, or removal given up for now: only destroy() leads on */
	BOX_END,        /* to be removed: its processes are ended; the engine is left to those that are being made */
	BOX_REMOVE,
	BOX_CONFIRM,    /* removed at the engine; nothing may be left at any layer */
};

struct box {
	struct agent_instance agent;
	struct provider *p;
	char id[ENGINE_INSTANCE_SIZE];
	char name[ENGINE_NAME_SIZE];
	char workspace[WORKSPACE_NAME_MAX + 1];
	enum box_step step;
	bool busy;                      /* an engine call is out */
	bool queued;                    /* in CREATE: another box's create is out */
	bool want_destroy;
	bool quiet;                     /* an orphan: its end is logged, not told */
	bool was_ready;                 /* told READY in this life or an earlier one: never made anew */
	bool asked;                     /* lookup(): the engine's next answer is told */
	int64_t deadline_ms;            /* CLOCK_BOOTTIME: creation, or removal */
	int64_t backoff_ms;
	int64_t hold_until_ms;          /* END: removal waits no longer than that; 0: not begun */
	int64_t unsure_until_ms;        /* a create whose answer was lost may still take effect until then */
	unsigned refusals, remakes, ghosts, guard_tries;
	struct loop_timer *timer;
	char token_hash[AGENT_HASH_SIZE];
	char container[ENGINE_ID_SIZE]; /* the engine's id; "" when not known */
	pid_t pid;                      /* first process, as the host sees it; 0 when not known */
	uid_t uid;                      /* of the first process */
	int monitor_fd;                 /* END: pidfd of the engine's monitor process of the container; -1 when there is none */
	struct guard *guard;
	pid_t guard_pid;                /* whose network the guard closes, or closed */
	bool guarded;                   /* network rules are in force for guard_pid, or there is no network */
	err_t *why;                     /* DOWN: what it failed or ended of; NULL: removal given up */
	bool exited;                    /* DOWN: EXITED was told, not FAILED */
};

struct box *box_new(struct provider *p, const char *id, err_t **err);
void box_free(struct box *b);           /* forgets; the container goes on */
void box_begin(struct box *b, enum box_step first);   /* creation or adoption; work starts from the loop */
void box_destroy(struct box *b);
void box_kick(struct box *b);           /* run the next step from the loop, now */

/* Between the files of a box. */
void box_go(struct box *b, enum box_step step);        /* log it and run it from the loop, now */
void box_fail(struct box *b, const err_t *why);          /* -> DOWN, FAILED is told */
void box_fail_with(struct box *b, enum err_code code, const char *detail, const char *what);
void box_exited(struct box *b, const err_t *why);        /* -> DOWN, EXITED is told */
void box_retry(struct box *b, const err_t *why);         /* again after the back-off, unless the deadline has passed */
bool box_answered(struct box *b);                        /* first in every answer; true: it is to be destroyed, the answer no longer matters */
bool box_is_made(const struct box *b);                   /* on its way to READY */

int box_create(struct box *b, err_t **err);              /* CREATE */
bool box_take_turn(struct box *b);                       /* creates go one by one; false: it is kicked when its turn may have come */
void box_pass_turn(struct box *b);                       /* its create is answered, or it no longer waits for its turn */
int box_start(struct box *b, err_t **err);               /* START */
void box_look_early(struct box *b);                      /* while the start is out */
int box_remake(struct box *b, err_t **err);              /* REMAKE */

void box_settle(struct box *b, pid_t pid);               /* this is its first process: limits, guard, agent; -> WAIT when the engine has said so */
void box_unsettle(struct box *b);                        /* what was known of its processes no longer holds */
void box_check_up(struct box *b);                        /* -> UP when all is there */
int box_recheck(struct box *b, err_t **err);             /* WAIT, UP: does it still run? */

void box_run_removal(struct box *b);                     /* END, REMOVE, CONFIRM */

/* What it is asked by agents.c (box_agent.c). */
extern const struct agents_ops box_agents_ops;

#endif
