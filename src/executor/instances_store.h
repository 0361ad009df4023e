/* instances_store.h - an instance's directory <state>/instances/<iid>: spec.json (written once) and state (replaced whole).
 *
 * A directory without a spec belongs to a creation that died before the provider was told: it may be removed. One without a state is being
 * created. Blocking file operations on our own disk. */
#ifndef PADDOCK_EXECUTOR_INSTANCES_STORE_H
#define PADDOCK_EXECUTOR_INSTANCES_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fault.h"
#include "core/id.h"
#include "executor/instances.h"
#include "executor/instances_meter.h"
#include "provider/workspace.h"

struct instance_record {
	char id[ID_SIZE];
	char workspace[WORKSPACE_NAME_MAX + 1];   /* "" when only the id is known: it was to be destroyed and never seen */
	enum instance_state state;
	bool was_ready, enforced;
	bool wanted;                              /* it is to be woken when its pause is through */
	int64_t created_ms, ready_ms, gone_ms;    /* wall clock; 0 not yet, or never here */
	int64_t since_ms, kept_ms;                /* boot clock: it entered its state; its last keepalive that succeeded, 0 none */
	struct metered meter;
	char waits_for[ID_SIZE];                  /* "" but while it is being created and the provider was not asked: what has to go first */
	int64_t destroy_failures;
	uint64_t version, acked;
	char error_code[64], error_message[512];  /* "" when none */
};

const char *instances_store_state_name(enum instance_state s);
enum fault_point instances_store_written(enum instance_state s);   /* the point at which that is on disk and nothing done yet */
/* dir_fd: <state>/instances. A new instance needs no state file: without one it is being created. Else that comes first, so that a death in between
 * leaves nothing that counts. Of one that is there everything is written anew. Nothing is fsync'ed, which could stop the loop for seconds: what a power
 * cut forgets has lost its container too, and the sweep removes what the engine still lists. */
int instances_store_add(int dir_fd, const struct instance_record *r, err_t **err);
int instances_store_save(int dir_fd, const struct instance_record *r, err_t **err);
/* Files of earlier versions, which knew fewer members, are fine. Times of the boot clock are given in ours. ERR_NOT_FOUND: nothing that counts
 * is written there. */
int instances_store_load(int dir_fd, const char *id, struct instance_record *ret, err_t **err);
int instances_store_drop(int dir_fd, const char *id, err_t **err);

#endif
