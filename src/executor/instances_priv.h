/* instances_priv.h - what instances*.c share. */
#ifndef PADDOCK_EXECUTOR_INSTANCES_PRIV_H
#define PADDOCK_EXECUTOR_INSTANCES_PRIV_H

#include "executor/idmap.h"
#include "executor/instances.h"
#include "executor/instances_store.h"
#include "executor/tombs.h"

struct instance {
	struct idmap_node node;
	struct instances *is;
	struct instance_record r;
	struct loop_timer *again;       /* destroy again; NULL until needed */
	int64_t backoff_ms;
	bool in_contact;                /* READY was told and contact not lost since */
};

struct instances {
	struct loop *loop;
	const struct instances_events *events;
	void *arg;
	const struct provider_ops *ops;
	struct provider *provider;
	int dir_fd;
	struct idmap map;
	struct tombs *tombs;            /* those that are gone and acknowledged; the map has all others */
	struct instance picture;        /* of one of them, for who asks */
	struct loop_timer *tick;
	int64_t tombstone_ms, max_instances;
	int64_t alive;                  /* instances that are not gone */
};

#endif
