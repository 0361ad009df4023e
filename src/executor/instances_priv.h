/* instances_priv.h - what instances*.c share. */
#ifndef PADDOCK_EXECUTOR_INSTANCES_PRIV_H
#define PADDOCK_EXECUTOR_INSTANCES_PRIV_H

#include "executor/idmap.h"
#include "executor/instances.h"
#include "executor/instances_meter.h"
#include "executor/instances_store.h"
#include "executor/tombs.h"

struct instance {
	struct idmap_node node;
	struct instances *is;
	struct instance_record r;
	bool handed;                    /* the provider manages it: create() or adopt() was taken in this process */
	bool in_contact;                /* READY was told, and contact not lost since */
	bool introduced;                /* connected() was called for this contact */
	bool asked;                     /* pause() or wake() for the present state was taken in this process */
	bool unsure;                    /* what became of it is asked until the provider knows */
	bool looking;                   /* being paused for too long: the next word of the provider counts as the truth */
	struct loop_timer *again;       /* asks again for what its state needs; NULL until needed */
	int64_t backoff_ms;
	int64_t until_ms;               /* boot time at which being woken or paused, or asking for a create, is given up */
	bool unsaved;                   /* what is on disk is older: written again at the next tick */
	char *ref;                      /* the provider's own name of it, as it was listed last; NULL: never */
	unsigned kept, keep_refused;
	err_t *keep_err;                /* of the last refusal */
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
	struct meter *meter;
	int64_t tombstone_ms, max_instances, quarantine_tries, create_timeout_ms;
	int64_t places;                 /* taken, of max_instances */
};

extern const struct provider_events instances_provider_events;   /* instances_event.c */

/* --- instances.c: the books --- */
struct instance *instances_add(struct instances *is, const struct instance_record *r, err_t **err);
void instances_drop(struct instance *i);
/* Of max_instances: all that are not gone, but for those never made here, of which nobody knows that there is anything. */
bool instances_takes_place(const struct instance_record *r);
int instances_save(struct instance *i, err_t **err);
/* Writes the new state down, then tells. What cannot be written is told all the same. */
void instances_change(struct instance *i, enum instance_state s);
/* The same, but what cannot be written does not happen. */
int instances_change_or_fail(struct instance *i, enum instance_state s, err_t **err);
void instances_set_error(struct instance *i, const err_t *err);   /* NULL: none */

/* --- instances_again.c: the timer of one instance --- */
void instances_again(struct instance *i);                 /* after its back-off, which doubles */
void instances_again_in(struct instance *i, int64_t ms);
void instances_again_reset(struct instance *i);           /* nothing is due, and the back-off begins anew */
bool instances_transient(const err_t *err);               /* worth another try */

/* --- instances_life.c --- */
void instances_take_up(struct instance *i);               /* after a restart; tells nobody */
void instances_adopt(struct instance *i);
void instances_gone(struct instance *i);
void instances_destroy_failed(struct instance *i, const err_t *err);
void instances_life_again(struct instance *i);            /* creating, destroying, or not taken up yet */
void instances_failed(struct instance *i, const err_t *err);   /* the provider's word, which may be that it does not know */
void instances_over(struct instance *i, enum instance_state s, const err_t *err);   /* failed or lost */

/* --- instances_pause.c --- */
void instances_came_ready(struct instance *i);
void instances_came_paused(struct instance *i);
void instances_pause_failed(struct instance *i, const err_t *err);
void instances_wake_failed(struct instance *i, const err_t *err);
void instances_keep_answered(struct instance *i, const err_t *err);
void instances_pause_again(struct instance *i);           /* pausing, waking */

#endif
