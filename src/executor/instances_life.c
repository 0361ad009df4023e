/* instances_life.c - how an instance comes into being, is replaced, and ends (declared in instances.h and instances_priv.h). */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/instances_priv.h"

static void unblock(struct instances *is, const char *workspace);

/* --- ends --- */

void instances_over(struct instance *i, enum instance_state s, const err_t *err)
{
	instances_again_reset(i);
	meter_stop(i->is->meter, &i->r.meter);
	instances_set_error(i, err);
	instances_change(i, s);
}

/* "Failed" of what may have been done, or of what was there before, says that the provider cannot tell: one that is there is not given up for that, and
 * one that may have been made is asked for by its id, for as long as a creation may take. */
void instances_failed(struct instance *i, const err_t *err)
{
	bool unknown = err_code(err) == ERR_UNKNOWN, hope;

	if (i->r.state == INSTANCE_CREATING)
		hope = unknown && clock_boot_ms() < i->until_ms;
	else
		hope = instances_persistent(i->is) && (unknown || (instances_transient(err) && !i->unsure));   /* asked already: that is its answer */
	if (!hope) {
		instances_over(i, INSTANCE_IS_FAILED, err);
		return;
	}
	log_kv(LOG_WARN, "instance_in_doubt", "instance", i->r.id, "err", err_message(err), NULL);
	i->unsure = true;
	instances_again(i);
}

void instances_gone(struct instance *i)
{
	if (i->r.state == INSTANCE_IS_GONE)
		return;
	i->is->places -= instances_takes_place(&i->r);
	i->r.gone_ms = clock_wall_ms();
	meter_stop(i->is->meter, &i->r.meter);
	instances_again_reset(i);
	instances_change(i, INSTANCE_IS_GONE);
	unblock(i->is, i->r.workspace);
}

void instances_destroy_failed(struct instance *i, const err_t *err)
{
	bool was_stuck = instance_stuck(i);

	log_kv(LOG_WARN, "destroy_failed", "instance", i->r.id, "err", err_message(err), NULL);
	i->asked = false;
	i->r.destroy_failures++;
	instances_set_error(i, err);
	if (!was_stuck && instance_stuck(i)) {
		log_kv(LOG_ERROR, "instance_stuck", "instance", i->r.id, "workspace", i->r.workspace, "err", err_message(err), NULL);
		instances_change(i, INSTANCE_DESTROYING);
		unblock(i->is, i->r.workspace);
	} else {
		(void)instances_save(i, NULL);
	}
	instances_again(i);
}

static void ask_destroy(struct instance *i)
{
	cleanup_err err_t *err = NULL;

	if (i->is->ops->destroy(i->is->provider, i->r.id, &err) < 0) {
		instances_destroy_failed(i, err);
		return;
	}
	FAULT_POINT(instance_destroying_asked);
	i->asked = true;
	instances_again_in(i, i->is->create_timeout_ms);
}

/* Another try; an answer that never came is a failure like any other. */
static void destroy_again(struct instance *i)
{
	cleanup_err err_t *late = NULL;

	if (!i->asked) {
		ask_destroy(i);
		return;
	}
	err_set(&late, ERR_TIMEOUT, "destroy_timeout", "the provider did not say that it is gone");
	instances_destroy_failed(i, late);
}

/* --- being taken up, and being made when the provider was away --- */

static enum instance_was was(const struct instance *i)
{
	if (i->r.state == INSTANCE_IS_PAUSED || i->r.state == INSTANCE_WAKING)
		return INSTANCE_WAS_PAUSED;
	return i->r.state == INSTANCE_CREATING && !i->r.was_ready ? INSTANCE_WAS_MADE : INSTANCE_WAS_READY;
}

/* When the provider has said nothing by then, it is asked. */
static void wait_for_it(struct instance *i)
{
	int64_t left = i->until_ms - clock_boot_ms();

	if (i->r.state == INSTANCE_CREATING || i->r.state == INSTANCE_PAUSING || i->r.state == INSTANCE_WAKING)
		instances_again_in(i, left > 0 ? left : i->is->create_timeout_ms);
}

static int adopt(struct instance *i, err_t **err)
{
	struct instance_spec spec = { .id = i->r.id, .workspace = i->r.workspace };
	err_t *e = NULL;

	i->unsure = i->is->ops->adopt(i->is->provider, &spec, was(i), &e) < 0 && err_code(e) == ERR_EXISTS;
	if (i->r.state == INSTANCE_CREATING)
		FAULT_POINT(instance_creating_asked);
	i->handed = !e || i->unsure;
	if (!i->handed)
		return err_move(err, e);
	err_free(e);
	if (i->unsure)
		instances_again(i);   /* it is managed already: how it is has to be asked */
	else
		wait_for_it(i);
	return 0;
}

/* One that exists is asked for until there is an answer; one that was only to be made, for as long as a creation may take. */
static void not_adopted(struct instance *i, const err_t *err)
{
	log_kv(i->backoff_ms ? LOG_DEBUG : LOG_WARN, "instance_not_taken_up", "instance", i->r.id, "err", err_message(err), NULL);
	if (instances_transient(err) && (i->r.state != INSTANCE_CREATING || clock_boot_ms() < i->until_ms))
		instances_again(i);
	else
		instances_over(i, i->r.was_ready && err_code(err) == ERR_NOT_FOUND ? INSTANCE_IS_LOST : INSTANCE_IS_FAILED, err);
}

void instances_adopt(struct instance *i)
{
	cleanup_err err_t *err = NULL;

	if (adopt(i, &err) < 0)
		not_adopted(i, err);
}

void instances_take_up(struct instance *i)
{
	bool ran = i->r.meter.since_ms != 0;

	meter_take_up(i->is->meter, &i->r.meter);
	if (ran)
		(void)instances_save(i, NULL);
	i->until_ms = clock_boot_ms() + i->is->create_timeout_ms;
	switch (i->r.state) {
	case INSTANCE_IS_GONE:
	case INSTANCE_IS_FAILED:
	case INSTANCE_IS_LOST:
		return;
	case INSTANCE_DESTROYING:
		if (i->is->ops->destroy(i->is->provider, i->r.id, NULL) < 0)
			instances_again(i);
		else
			instances_again_in(i, i->is->create_timeout_ms);
		return;
	case INSTANCE_CREATING:
	case INSTANCE_IS_READY:
	case INSTANCE_PAUSING:
	case INSTANCE_IS_PAUSED:
	case INSTANCE_WAKING:
		break;
	}
	/* what cannot be done now is tried again when there is somebody to tell */
	if (i->r.waits_for[0] || adopt(i, NULL) < 0)
		instances_again_in(i, 0);
}

/* --- one living instance a workspace --- */

/* True when b has to go before i is made. What waits itself has to go first only when it was put down before. */
static bool blocks(const struct instance *b, const struct instance_record *i)
{
	if (b->r.state == INSTANCE_IS_GONE || instance_stuck(b) || !str_eq(b->r.workspace, i->workspace) || str_eq(b->r.id, i->id))
		return false;
	if (!b->r.waits_for[0])
		return true;
	return b->r.created_ms != i->created_ms ? b->r.created_ms < i->created_ms : strcmp(b->r.id, i->id) < 0;
}

struct search {
	const struct instance_record *of;
	const struct instance *found;
};

static void look_at(void *arg, struct idmap_node *n)
{
	struct search *s = arg;

	if (!s->found && blocks((const struct instance *)n, s->of))
		s->found = (const struct instance *)n;
}

static const struct instance *blocker(struct instances *is, const struct instance_record *r)
{
	struct search s = { .of = r };

	if (instances_persistent(is))
		idmap_each(&is->map, look_at, &s);
	return s.found;
}

/* One that waited: asked for when nothing is in its way any more. */
static void go_on(struct instance *i)
{
	const struct instance *b = blocker(i->is, &i->r);
	char waited[ID_SIZE];

	(void)str_copy(waited, sizeof(waited), i->r.waits_for);
	if (b && str_eq(b->r.id, waited))
		return;
	(void)str_copy(i->r.waits_for, sizeof(i->r.waits_for), b ? b->r.id : "");
	if (instances_change_or_fail(i, INSTANCE_CREATING, NULL) < 0) {
		(void)str_copy(i->r.waits_for, sizeof(i->r.waits_for), waited);
		instances_again(i);
	} else if (!b) {
		i->until_ms = clock_boot_ms() + i->is->create_timeout_ms;
		instances_adopt(i);   /* of one that is absent: makes it */
	}
}

struct freed {
	struct instances *is;
	const char *workspace;
};

static void go_on_if(void *arg, struct idmap_node *n)
{
	struct freed *f = arg;
	struct instance *i = (struct instance *)n;

	if (i->r.state == INSTANCE_CREATING && i->r.waits_for[0] && str_eq(i->r.workspace, f->workspace))
		go_on(i);
}

static void unblock(struct instances *is, const char *workspace)
{
	struct freed f = { .is = is, .workspace = workspace };

	if (instances_persistent(is) && workspace[0])
		idmap_each(&is->map, go_on_if, &f);
}

/* Taken up, or asked what became of it. */
static void find_out(struct instance *i)
{
	cleanup_err err_t *late = NULL;

	if (!i->handed) {
		instances_adopt(i);
	} else if (i->unsure && i->r.state == INSTANCE_CREATING && clock_boot_ms() >= i->until_ms) {
		err_set(&late, ERR_UNKNOWN, NULL, "whether it was made is not known");
		instances_over(i, INSTANCE_IS_FAILED, late);
	} else if (i->unsure || i->r.state == INSTANCE_CREATING) {
		instances_again(i);
		instances_lookup(i->is, i);
	}
}

void instances_life_again(struct instance *i)
{
	switch (i->r.state) {
	case INSTANCE_DESTROYING:
		destroy_again(i);
		break;
	case INSTANCE_CREATING:
		if (i->r.waits_for[0])
			go_on(i);
		else
			find_out(i);
		break;
	case INSTANCE_IS_READY:
	case INSTANCE_PAUSING:
	case INSTANCE_IS_PAUSED:
	case INSTANCE_WAKING:
		find_out(i);
		break;
	case INSTANCE_IS_FAILED:
	case INSTANCE_IS_LOST:
	case INSTANCE_IS_GONE:
		break;
	}
}

/* --- calls --- */

/* The provider has it, or may have it; or it did nothing, and it is as if it had never been asked. */
static int ask_create(struct instance *i, err_t **err)
{
	struct instance_spec spec = { .id = i->r.id, .workspace = i->r.workspace };
	struct instances *is = i->is;
	cleanup_err err_t *e = NULL;
	char id[ID_SIZE];

	i->handed = is->ops->create(is->provider, &spec, &e) == 0;
	FAULT_POINT(instance_creating_asked);
	if (i->handed) {
		wait_for_it(i);
		return 0;
	}
	if (err_code(e) == ERR_UNKNOWN || err_code(e) == ERR_EXISTS) {
		instances_again(i);   /* adopted */
		return 0;
	}
	(void)str_copy(id, sizeof(id), i->r.id);
	is->places--;
	instances_drop(i);
	(void)instances_store_drop(is->dir_fd, id, NULL);
	return err_move(err, steal_ptr(&e));
}

static int create(struct instances *is, const char *iid, const char *workspace, struct instance **ret, err_t **err)
{
	struct instance_record r = { .state = INSTANCE_CREATING, .version = 1, .created_ms = clock_wall_ms(), .since_ms = clock_boot_ms() };
	const struct instance *b;
	struct instance *i;

	if (str_copy(r.id, sizeof(r.id), iid) < 0 || str_copy(r.workspace, sizeof(r.workspace), workspace) < 0)
		return err_set(err, ERR_INVALID, "bad_workspace", "workspace or id is too long");
	b = blocker(is, &r);
	(void)str_copy(r.waits_for, sizeof(r.waits_for), b ? b->r.id : "");
	if (instances_store_add(is->dir_fd, &r, err) < 0)
		return -1;
	FAULT_POINT(instance_creating_written);
	i = instances_add(is, &r, err);
	if (!i) {
		(void)instances_store_drop(is->dir_fd, iid, NULL);
		return -1;
	}
	i->until_ms = clock_boot_ms() + is->create_timeout_ms;
	if (!b && ask_create(i, err) < 0)
		return -1;
	*ret = i;
	return 0;
}

/* An id never seen: from now on it cannot be created. Our books may be younger than the instance, so that only the provider knows whether there is one.
 * workspace "": not known. */
static int destroy_unseen(struct instances *is, const char *iid, const char *workspace, struct instance **ret, err_t **err)
{
	struct instance_record r = { .state = INSTANCE_DESTROYING, .version = 1, .since_ms = clock_boot_ms() };
	struct instance *i;

	if (str_copy(r.id, sizeof(r.id), iid) < 0 || str_copy(r.workspace, sizeof(r.workspace), workspace) < 0)
		return err_set(err, ERR_INVALID, "bad_workspace", "workspace or id is too long");
	if (instances_store_add(is->dir_fd, &r, err) < 0 || !(i = instances_add(is, &r, err)))
		return -1;
	FAULT_POINT(instance_destroying_written);
	*ret = i;
	is->events->changed(is->arg, i);
	ask_destroy(i);
	return 0;
}

/* Of one that is being destroyed by its id alone it is known now what it is in the way of. */
static int name_workspace(struct instance *i, const char *workspace, err_t **err)
{
	struct instance_record r = i->r;

	if (str_copy(r.workspace, sizeof(r.workspace), workspace) < 0)
		return err_set(err, ERR_INVALID, "bad_workspace", "the workspace's name is too long");
	if (instances_store_add(i->is->dir_fd, &r, err) < 0)
		return -1;
	i->r = r;
	i->unsaved = false;
	return 0;
}

/* What is replaced is destroyed, and that is on disk: no late request can make or use it, and no restart brings it back. */
static int replace(struct instances *is, const char *old, const char *workspace, err_t **err)
{
	struct instance *o = instances_find(is, old);

	if (!o)
		return destroy_unseen(is, old, workspace, &o, err);
	if (o->r.state == INSTANCE_DESTROYING && !o->r.workspace[0])
		return name_workspace(o, workspace, err);
	if (o->r.state == INSTANCE_IS_GONE || o->r.state == INSTANCE_DESTROYING)
		return o->unsaved ? instances_save(o, err) : 0;
	if (instances_change_or_fail(o, INSTANCE_DESTROYING, err) < 0)
		return -1;
	instances_again_reset(o);
	ask_destroy(o);
	return 0;
}

static int check_replaced(struct instances *is, const char *iid, const char *workspace, const char *old, err_t **err)
{
	const struct instance *o;

	if (!id_valid(old) || str_eq(old, iid))
		return err_set(err, ERR_INVALID, "bad_field", "replaces: the id of another instance");
	o = instances_find(is, old);
	if (o && o->r.state != INSTANCE_IS_GONE && o->r.workspace[0] && !str_eq(o->r.workspace, workspace))
		return err_set(err, ERR_CONFLICT, "other_workspace", "instance %s has another workspace", old);
	return 0;
}

/* A replacement needs no further place. */
static int check_room(struct instances *is, const char *old, err_t **err)
{
	const struct instance *o = old ? instances_find(is, old) : NULL;
	int64_t others = is->places - (o && instances_takes_place(&o->r));

	if (others >= is->max_instances)
		return err_set(err, ERR_LIMIT, "too_many_instances", "%lld instances exist", (long long)is->places);
	return 0;
}

int instances_ensure(struct instances *is, const char *iid, const char *workspace, const char *replaces, struct instance **ret, err_t **err)
{
	struct instance *i;

	if (!id_valid(iid))
		return err_set(err, ERR_INVALID, "bad_id", "an instance id is a UUID");
	if (!workspace_name_valid(workspace))
		return err_set(err, ERR_INVALID, "bad_workspace", "a workspace name is [a-z0-9][a-z0-9._-]{0,63}");
	i = instances_find(is, iid);
	if (i && (i->r.state == INSTANCE_IS_GONE || i->r.state == INSTANCE_DESTROYING))
		return err_set(err, ERR_GONE, "instance_gone", "the instance was destroyed");
	if (replaces && check_replaced(is, iid, workspace, replaces, err) < 0)
		return -1;
	if (!i && check_room(is, replaces, err) < 0)
		return -1;
	if (replaces && replace(is, replaces, workspace, err) < 0)
		return -1;
	if (!i)
		return create(is, iid, workspace, ret, err);
	*ret = i;
	return 0;
}

static int take_back(struct instances *is, const char *iid, const char *workspace, const struct instance_past *p, struct instance **ret, err_t **err)
{
	struct instance_record r = { .state = p->paused ? INSTANCE_IS_PAUSED : INSTANCE_IS_READY, .version = 1, .was_ready = true };
	struct instance *i;

	r.created_ms = clock_wall_ms();   /* here */
	r.since_ms = clock_boot_ms();
	r.meter.running_ms = p->running_ms;
	if (str_copy(r.id, sizeof(r.id), iid) < 0 || str_copy(r.workspace, sizeof(r.workspace), workspace) < 0)
		return err_set(err, ERR_INVALID, "bad_workspace", "workspace or id is too long");
	if (instances_store_add(is->dir_fd, &r, err) < 0 || !(i = instances_add(is, &r, err)))
		return -1;
	FAULT_POINT_AT(instances_store_written(r.state));
	log_kv(LOG_WARN, "instance_taken_back", "instance", iid, "workspace", workspace, "state", instances_store_state_name(r.state), NULL);
	*ret = i;
	is->events->changed(is->arg, i);
	instances_adopt(i);
	return 0;
}

int instances_take_back(struct instances *is, const char *iid, const char *workspace, const struct instance_past *p, struct instance **ret, err_t **err)
{
	if (!id_valid(iid))
		return err_set(err, ERR_INVALID, "bad_id", "an instance id is a UUID");
	if (!workspace_name_valid(workspace))
		return err_set(err, ERR_INVALID, "bad_workspace", "a workspace name is [a-z0-9][a-z0-9._-]{0,63}");
	if (!instances_persistent(is))
		return err_set(err, ERR_CONFLICT, "take_up_unsupported", "instances of provider %s do not outlive their Runs", is->ops->name);
	*ret = instances_find(is, iid);
	return *ret ? 0 : take_back(is, iid, workspace, p, ret, err);
}

int instances_destroy(struct instances *is, const char *iid, struct instance **ret, err_t **err)
{
	struct instance *i;

	if (!id_valid(iid))
		return err_set(err, ERR_INVALID, "bad_id", "an instance id is a UUID");
	i = instances_find(is, iid);
	if (!i)
		return destroy_unseen(is, iid, "", ret, err);
	*ret = i;
	if (i->r.state == INSTANCE_IS_GONE || i->r.state == INSTANCE_DESTROYING)
		return 0;
	instances_change(i, INSTANCE_DESTROYING);   /* also when it cannot be written: to destroy may be what makes room */
	instances_again_reset(i);
	ask_destroy(i);
	return 0;
}

int instances_forget(struct instances *is, const char *iid, struct instance **ret, err_t **err)
{
	struct instance *i;
	bool asked;

	if (!id_valid(iid))
		return err_set(err, ERR_INVALID, "bad_id", "an instance id is a UUID");
	i = instances_find(is, iid);
	if (!i && destroy_unseen(is, iid, "", &i, err) < 0)
		return -1;
	*ret = i;
	if (i->r.state == INSTANCE_IS_GONE)
		return 0;
	log_kv(LOG_WARN, "instance_forgotten", "instance", iid, "workspace", i->r.workspace, "state", instances_store_state_name(i->r.state), NULL);
	asked = i->r.state == INSTANCE_DESTROYING;
	instances_gone(i);
	if (!asked)
		(void)is->ops->destroy(is->provider, iid, NULL);   /* for what the provider itself remembers; its answer counts no more */
	return 0;
}
