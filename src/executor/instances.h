/* instances.h - the executor's books on instances: written down first, then handed to the provider; tombstones; recovery at start.
 *
 * State directory: <state>/instances/<iid>/{spec.json,state}. A directory is written before the provider's create is called, its state
 * file before each destroy. When it is gone and that was acknowledged, only its id stays (tombs.h), for [executor] tombstone_ms. */
#ifndef PADDOCK_EXECUTOR_INSTANCES_H
#define PADDOCK_EXECUTOR_INSTANCES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/config.h"
#include "core/json.h"
#include "core/loop.h"
#include "provider/provider.h"

enum instance_state { INSTANCE_CREATING, INSTANCE_IS_READY, INSTANCE_IS_FAILED, INSTANCE_IS_LOST, INSTANCE_DESTROYING, INSTANCE_IS_GONE };

struct instances;
struct instance;

struct instances_events {
	/* Any change of state; called after it was written down. GONE is the last call for an instance. */
	void (*changed)(void *arg, struct instance *i);
	/* Each INSTANCE_READY of the provider, the first one (after changed()) and those after the agent dialled again: what the agent still holds
	 * was told by started() and exited() before; what was not told is unknown to it. */
	void (*connected)(void *arg, struct instance *i);
	/* exec events, passed through from the provider */
	void (*started)(void *arg, const char *iid, const char *cid, const struct exec_started *s, int out_fd, int err_fd);
	void (*exited)(void *arg, const char *iid, const char *cid, const struct exec_exited *e);
	void (*stdin_taken)(void *arg, const char *iid, const char *cid, uint64_t taken, uint64_t window);
};

/* Opens the provider, reads the state directory, adopts what is written there. state_fd: the executor's state directory. */
struct instances *instances_open(struct loop *l, const struct config *c, int state_fd, const struct instances_events *ev, void *arg, err_t **err);
void instances_close(struct instances *is);

/* Creates iid unless it exists (then *ret is that one). ERR_GONE (detail "instance_gone") for a tombstone, ERR_LIMIT ("too_many_instances"). */
int instances_ensure(struct instances *is, const char *iid, const char *workspace, struct instance **ret, err_t **err);
/* NULL when never seen. Of a tombstone of which only the id is left a picture, until the next call. */
struct instance *instances_find(struct instances *is, const char *iid);
/* Asks for destruction; for an id never seen a tombstone is written and it is GONE at once. Retried inside until confirmed. */
int instances_destroy(struct instances *is, const char *iid, struct instance **ret, err_t **err);
void instances_each(struct instances *is, void (*fn)(void *arg, struct instance *i), void *arg);   /* without those of which only the id is left */
size_t instances_tombstones(const struct instances *is);   /* how many these are */

const char *instance_id(const struct instance *i);
enum instance_state instance_state(const struct instance *i);
const char *instance_state_name(enum instance_state s);   /* "creating", "ready", ... */
const char *instance_error_code(const struct instance *i);      /* "" when none */
const char *instance_error_message(const struct instance *i);
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
