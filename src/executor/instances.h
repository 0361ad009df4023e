/* instances.h - the executor's books on instances: written down first, then handed to the provider; tombstones; recovery at start.
 *
 *   creating ──► ready ──► pausing ──► paused ──► waking ──► ready          failed: it never was ready; lost: it existed and is no more
 *       any of them ──► destroying ──► gone
 *
 * State directory: <state>/instances/<iid>/{spec.json,state}. A directory is written before the provider's create is called, its state
 * file before each pause, wake and destroy. When it is gone and that was acknowledged, only its id stays (tombs.h), for [executor] tombstone_ms.
 *
 * With PROVIDER_PERSISTENT there are never two living instances of one workspace at the provider: a new one waits until every other is gone or
 * stuck, that is, could not be destroyed in [sandbox] quarantine_tries tries. */
#ifndef PADDOCK_EXECUTOR_INSTANCES_H
#define PADDOCK_EXECUTOR_INSTANCES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/config.h"
#include "core/json.h"
#include "core/loop.h"
#include "provider/provider.h"

enum instance_state {
	INSTANCE_CREATING,
	INSTANCE_IS_READY,
	INSTANCE_PAUSING,
	INSTANCE_IS_PAUSED,
	INSTANCE_WAKING,
	INSTANCE_IS_FAILED,
	INSTANCE_IS_LOST,
	INSTANCE_DESTROYING,
	INSTANCE_IS_GONE,
};
#define INSTANCE_N_STATES (INSTANCE_IS_GONE + 1)

struct instances;
struct instance;

struct instances_events {
	/* Any change of state; called after it was written down. GONE is the last call for an instance. */
	void (*changed)(void *arg, struct instance *i);
	/* Each INSTANCE_READY of the provider, the first one (after changed()) and those after the agent dialled again: what the agent still holds
	 * was told by started() and exited() before; what was not told is unknown to it. Also when a pause did not come about. */
	void (*connected)(void *arg, struct instance *i);
	/* It could not be woken in time: it is paused, which changed() says next, or its pause does not come to an end. */
	void (*wake_failed)(void *arg, struct instance *i);
	/* An answer to instances_keep() came; instance_keeps() counts them. */
	void (*kept)(void *arg, struct instance *i);
	/* passed through from the provider */
	void (*started)(void *arg, const char *iid, const char *cid, const struct exec_started *s, int out_fd, int err_fd);
	void (*exited)(void *arg, const char *iid, const char *cid, const struct exec_exited *e);
	void (*stdin_taken)(void *arg, const char *iid, const char *cid, uint64_t taken, uint64_t window);
	void (*scope_ended)(void *arg, const char *iid, const char *scope, const err_t *err);
	void (*listed)(void *arg, const struct listed *items, size_t n, bool complete, const err_t *err);
};

/* Opens the provider, reads the state directory, adopts what is written there. state_fd: the executor's state directory. */
struct instances *instances_open(struct loop *l, const struct config *c, int state_fd, const struct instances_events *ev, void *arg, err_t **err);
void instances_close(struct instances *is);
bool instances_persistent(const struct instances *is);   /* one instance a user, which outlives Runs */

/* Creates iid unless it exists (then *ret is that one). replaces, when not NULL: that id is destroyed first, also when it was never seen. ERR_GONE
 * (detail "instance_gone") for a tombstone, ERR_LIMIT ("too_many_instances"), ERR_CONFLICT ("other_workspace"): what shall be replaced is another's. */
int instances_ensure(struct instances *is, const char *iid, const char *workspace, const char *replaces, struct instance **ret, err_t **err);
/* One that its caller knows to have been made, ran for so long by his count, and was ready or paused then: our books may be younger. In them already:
 * nothing changes. Else it is written down and taken up as after a restart, never made: the provider says what it is, or that it is no more (LOST). It is
 * not refused for [executor] max_instances. ERR_CONFLICT "take_up_unsupported": not with PROVIDER_PERSISTENT. */
struct instance_past {
	bool paused;
	int64_t running_ms;
};
int instances_take_back(struct instances *is, const char *iid, const char *workspace, const struct instance_past *p, struct instance **ret, err_t **err);
/* NULL when never seen. Of a tombstone of which only the id is left a picture, until the next call. */
struct instance *instances_find(struct instances *is, const char *iid);
/* Asks for destruction, which is retried inside until the provider has confirmed it. An id never seen is no exception: the books may be younger than
 * what bears it. It takes no place of [executor] max_instances, and is in nobody's way before it is named as replaced. */
int instances_destroy(struct instances *is, const char *iid, struct instance **ret, err_t **err);
/* The operator's word that nothing of it is left: GONE now, whatever the provider says, which is asked all the same. */
int instances_forget(struct instances *is, const char *iid, struct instance **ret, err_t **err);
void instances_each(struct instances *is, void (*fn)(void *arg, struct instance *i), void *arg);   /* without those of which only the id is left */
size_t instances_tombstones(const struct instances *is);   /* how many these are */

/* The next two are written down before the provider is asked and survive a restart.
 * Pause: 0: it is being paused, or is paused. Nothing may be open in it, which the caller knows. ERR_CONFLICT instance_busy (being made, woken or
 * destroyed), pause_unsupported, instance_failed, instance_lost; ERR_GONE. */
int instances_pause(struct instances *is, struct instance *i, err_t **err);
/* Wake: 0: it is ready, or will be; one that is being paused is woken when that is through. ERR_GONE; ERR_CONFLICT instance_failed, instance_lost. */
int instances_wake(struct instances *is, struct instance *i, err_t **err);
/* Its own timer shall not pause or remove it for so long; answered by kept(). ERR_CONFLICT instance_not_ready. */
int instances_keep(struct instances *is, struct instance *i, int64_t ms, err_t **err);
/* The provider is asked anew what became of it; what it says shows later. */
void instances_lookup(struct instances *is, struct instance *i);
int instances_list(struct instances *is, err_t **err);   /* answered by listed() */
/* Answered by scope_ended(). ERR_CONFLICT "instance_not_ready": not while the provider does not manage it; what it said then would say nothing. */
int instances_scope_end(struct instances *is, const char *iid, const char *scope, err_t **err);

const char *instance_id(const struct instance *i);
enum instance_state instance_state(const struct instance *i);
const char *instance_state_name(enum instance_state s);   /* "creating", "ready", ... */
const char *instance_error_code(const struct instance *i);      /* "" when none */
const char *instance_error_message(const struct instance *i);
bool instance_stuck(const struct instance *i);
/* How many answers to instances_keep() there were in this process. err: why the last one was a refusal, or NULL. */
struct instance_keeps {
	unsigned kept, refused;
	const err_t *err;
};
struct instance_keeps instance_keeps(const struct instance *i);
json_t *instance_json(const struct instance *i, unsigned commands);   /* the Instance of docs/executor-api.md; new reference */
/* For reports: a counter that grows with each change, and what was acknowledged (kept in the state directory). */
uint64_t instance_version(const struct instance *i);
uint64_t instance_acked(const struct instance *i);
void instance_ack(struct instance *i, uint64_t version);   /* of one that is gone: i is no more */

/* The provider's exec calls, routed to the instance. ERR_CONFLICT when it is not ready. */
int instances_exec(struct instances *is, const char *iid, const struct exec_spec *s, err_t **err);
int instances_exec_ack(struct instances *is, const char *iid, const char *cid, err_t **err);
int instances_exec_stdin(struct instances *is, const char *iid, const char *cid, uint64_t offset, const void *data, size_t n, bool eof, err_t **err);
int instances_exec_signal(struct instances *is, const char *iid, const struct exec_ref *x, int signo, err_t **err);
int instances_exec_kill(struct instances *is, const char *iid, const struct exec_ref *x, err_t **err);
char *instances_health(struct instances *is);   /* see provider_ops.health */

#endif
