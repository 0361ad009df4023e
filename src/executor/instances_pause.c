/* instances_pause.c - pausing, waking and being kept awake (declared in instances.h and instances_priv.h).
 *
 * What was asked for is on disk before the provider is asked. After a restart the provider first says how the instance is; then what was asked
 * for is asked again. */
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "executor/instances_priv.h"

/* --- ready --- */

static void introduce(struct instance *i)
{
	if (i->r.state != INSTANCE_IS_READY || !i->in_contact || i->introduced)
		return;
	i->introduced = true;
	i->is->events->connected(i->is->arg, i);
}

static void become_ready(struct instance *i)
{
	instances_again_reset(i);
	if (!i->r.was_ready || !i->r.ready_ms)
		i->r.ready_ms = clock_wall_ms();
	i->r.was_ready = true;
	i->r.enforced = i->is->ops->enforced(i->is->provider, i->r.id);
	meter_start(i->is->meter, &i->r.meter);
	instances_change(i, INSTANCE_IS_READY);
	introduce(i);
}

/* No pause. What was queued meanwhile is started; nothing else is open in it. */
static void call_off(struct instance *i)
{
	i->introduced = false;
	become_ready(i);
}

static void ask_pause(struct instance *i, err_t **err);

/* The provider has said how it is. */
static void known(struct instance *i)
{
	if (!i->unsure)
		return;
	i->unsure = false;
	instances_again_reset(i);
	if (i->r.state == INSTANCE_PAUSING || i->r.state == INSTANCE_WAKING)
		instances_again_in(i, i->until_ms - clock_boot_ms());
}

void instances_came_ready(struct instance *i)
{
	bool confirmed = i->r.meter.confirmed;

	known(i);
	i->in_contact = true;
	switch (i->r.state) {
	case INSTANCE_CREATING:
	case INSTANCE_IS_PAUSED:
	case INSTANCE_WAKING:
		instances_set_error(i, NULL);
		become_ready(i);
		break;
	case INSTANCE_IS_READY:
		meter_start(i->is->meter, &i->r.meter);
		if (!confirmed)
			(void)instances_save(i, NULL);
		introduce(i);
		break;
	case INSTANCE_PAUSING:
		meter_start(i->is->meter, &i->r.meter);
		if (i->looking || (i->r.wanted && !i->asked))
			call_off(i);   /* the pause did not come about, or is not wanted any more */
		else if (!i->asked)
			ask_pause(i, NULL);
		break;
	case INSTANCE_IS_FAILED:
	case INSTANCE_IS_LOST:
	case INSTANCE_DESTROYING:
	case INSTANCE_IS_GONE:
		break;
	}
}

/* --- pause --- */

void instances_pause_failed(struct instance *i, const err_t *err)
{
	if (i->r.state != INSTANCE_PAUSING)
		return;
	log_kv(LOG_WARN, "pause_failed", "instance", i->r.id, "err", err_message(err), NULL);
	if (err_code(err) == ERR_UNKNOWN) {
		i->looking = true;
		instances_lookup(i->is, i);
		instances_again(i);
		return;
	}
	instances_set_error(i, err);
	call_off(i);
}

/* Of one that is being paused and not asked for yet. */
static void ask_pause(struct instance *i, err_t **err)
{
	cleanup_err err_t *e = NULL;

	if (i->is->ops->pause(i->is->provider, i->r.id, &e) == 0) {
		FAULT_POINT(instance_pausing_asked);
		i->asked = true;
		instances_again_in(i, i->until_ms - clock_boot_ms());
		return;
	}
	instances_pause_failed(i, e);
	if (i->r.state != INSTANCE_PAUSING)
		(void)err_move(err, steal_ptr(&e));
}

/* Why nothing can be asked of it any more. */
static int is_over(const struct instance *i, err_t **err)
{
	if (i->r.state == INSTANCE_IS_FAILED)
		return err_set(err, ERR_CONFLICT, "instance_failed", "the instance never was ready");
	if (i->r.state == INSTANCE_IS_LOST)
		return err_set(err, ERR_CONFLICT, "instance_lost", "the instance is no more");
	return err_set(err, ERR_GONE, "instance_gone", "the instance was destroyed");
}

static int start_pause(struct instances *is, struct instance *i, err_t **err)
{
	err_t *e = NULL;

	if (!(is->ops->caps & PROVIDER_PAUSE))
		return err_set(err, ERR_CONFLICT, "pause_unsupported", "provider %s does not pause", is->ops->name);
	if (!i->handed)
		return err_set(err, ERR_CONFLICT, "instance_busy", "the instance is being taken up again");
	if (instances_change_or_fail(i, INSTANCE_PAUSING, err) < 0)
		return -1;
	instances_again_reset(i);
	i->until_ms = clock_boot_ms() + is->create_timeout_ms;
	ask_pause(i, &e);
	if (!e)
		return 0;
	if (err_code(e) == ERR_BUSY || err_code(e) == ERR_CONFLICT)
		err_set(err, ERR_CONFLICT, "instance_busy", "%s", err_message(e));
	else if (err_code(e) == ERR_REFUSED)
		err_set(err, ERR_CONFLICT, "pause_unsupported", "%s", err_message(e));
	else if (err_code(e) == ERR_UNAVAILABLE)
		err_set(err, ERR_UNAVAILABLE, "control_plane_unavailable", "%s", err_message(e));
	else
		err_set(err, err_code(e), err_detail(e), "%s", err_message(e));
	err_free(e);
	return -1;
}

int instances_pause(struct instances *is, struct instance *i, err_t **err)
{
	switch (i->r.state) {
	case INSTANCE_IS_READY:
		return start_pause(is, i, err);
	case INSTANCE_PAUSING:
		if (!i->r.wanted)
			return 0;
		break;
	case INSTANCE_IS_PAUSED:
		return 0;
	case INSTANCE_CREATING:
	case INSTANCE_WAKING:
	case INSTANCE_DESTROYING:
		break;
	case INSTANCE_IS_FAILED:
	case INSTANCE_IS_LOST:
	case INSTANCE_IS_GONE:
		return is_over(i, err);
	}
	return err_set(err, ERR_CONFLICT, "instance_busy", "the instance is being made, woken or destroyed");
}

/* --- wake --- */

static void give_up(struct instance *i, const err_t *err)
{
	cleanup_err err_t *e = NULL;

	instances_again_reset(i);
	err_set(&e, err_code(err), "wake_failed", "%s", err_message(err));
	instances_set_error(i, e);
	i->is->events->wake_failed(i->is->arg, i);
	instances_change(i, INSTANCE_IS_PAUSED);
	if (!i->handed)
		instances_again(i);
}

void instances_wake_failed(struct instance *i, const err_t *err)
{
	if (i->r.state != INSTANCE_WAKING)
		return;
	log_kv(LOG_WARN, "wake_failed", "instance", i->r.id, "err", err_message(err), NULL);
	i->asked = false;
	if (err_code(err) == ERR_REFUSED || clock_boot_ms() >= i->until_ms)
		give_up(i, err);
	else
		instances_again(i);
}

static void ask_wake(struct instance *i)
{
	cleanup_err err_t *e = NULL;

	if (!i->handed)
		return;   /* asked for when the provider has taken it up */
	if (i->is->ops->wake(i->is->provider, i->r.id, &e) < 0) {
		instances_wake_failed(i, e);
		return;
	}
	FAULT_POINT(instance_waking_asked);
	i->asked = true;
	instances_again_in(i, i->until_ms - clock_boot_ms());
}

static int start_wake(struct instance *i, err_t **err)
{
	bool adopting = !i->handed;

	if (instances_change_or_fail(i, INSTANCE_WAKING, err) < 0)
		return -1;
	if (!adopting)
		instances_again_reset(i);
	i->until_ms = clock_boot_ms() + i->is->create_timeout_ms;
	ask_wake(i);
	return 0;
}

static int want(struct instance *i, err_t **err)
{
	if (i->r.wanted)
		return 0;
	i->r.wanted = true;
	i->until_ms = clock_boot_ms() + i->is->create_timeout_ms;
	if (instances_save(i, err) == 0)
		return 0;
	i->r.wanted = false;
	return -1;
}

int instances_wake(struct instances *is, struct instance *i, err_t **err)
{
	(void)is;
	switch (i->r.state) {
	case INSTANCE_IS_PAUSED:
		return start_wake(i, err);
	case INSTANCE_PAUSING:
		return want(i, err);
	case INSTANCE_CREATING:
	case INSTANCE_IS_READY:
	case INSTANCE_WAKING:
		return 0;
	case INSTANCE_IS_FAILED:
	case INSTANCE_IS_LOST:
	case INSTANCE_DESTROYING:
	case INSTANCE_IS_GONE:
		break;
	}
	return is_over(i, err);
}

/* --- paused --- */

void instances_came_paused(struct instance *i)
{
	bool wanted = i->r.wanted;

	known(i);
	i->in_contact = i->introduced = false;
	if (i->r.state == INSTANCE_IS_PAUSED)
		return;
	if (i->r.state == INSTANCE_WAKING) {
		if (i->asked)
			instances_again(i);   /* an older word, or it fell asleep again */
		else
			ask_wake(i);
		return;
	}
	if (i->r.state != INSTANCE_CREATING && i->r.state != INSTANCE_IS_READY && i->r.state != INSTANCE_PAUSING)
		return;
	instances_again_reset(i);
	instances_set_error(i, NULL);
	meter_stop(i->is->meter, &i->r.meter);
	i->r.was_ready = true;
	instances_change(i, INSTANCE_IS_PAUSED);
	if (wanted && i->r.state == INSTANCE_IS_PAUSED)
		(void)instances_wake(i->is, i, NULL);
}

/* --- too long, or another try --- */

/* Its pause does not come to an end: what waits for it need not wait for ever. */
static void want_no_more(struct instance *i)
{
	i->r.wanted = false;
	(void)instances_save(i, NULL);
	log_kv(LOG_WARN, "pause_stuck", "instance", i->r.id, NULL);
	i->is->events->wake_failed(i->is->arg, i);
}

void instances_pause_again(struct instance *i)
{
	cleanup_err err_t *late = NULL;

	if (i->r.state == INSTANCE_PAUSING) {
		i->looking = i->asked;
		if (i->r.wanted && clock_boot_ms() >= i->until_ms)
			want_no_more(i);
		instances_lookup(i->is, i);
		instances_again(i);
	} else if (clock_boot_ms() >= i->until_ms) {
		err_set(&late, ERR_TIMEOUT, "wake_failed", "the instance was not awake in time");
		give_up(i, late);
	} else {
		ask_wake(i);
	}
}

/* --- what changes no state --- */

int instances_keep(struct instances *is, struct instance *i, int64_t ms, err_t **err)
{
	if (i->r.state != INSTANCE_IS_READY || !i->handed)
		return err_set(err, ERR_CONFLICT, "instance_not_ready", "the instance is %s", instances_store_state_name(i->r.state));
	return is->ops->keep(is->provider, i->r.id, ms, err);
}

void instances_keep_answered(struct instance *i, const err_t *err)
{
	err_free(steal_ptr(&i->keep_err));
	if (err) {
		i->keep_refused++;
		err_set(&i->keep_err, err_code(err), err_detail(err), "%s", err_message(err));
		if (err_code(err) == ERR_CONFLICT && i->r.state == INSTANCE_IS_READY)
			instances_lookup(i->is, i);   /* it is not what the books say */
	} else {
		i->kept++;
		i->r.kept_ms = clock_boot_ms();
		(void)instances_save(i, NULL);
	}
	i->is->events->kept(i->is->arg, i);
}

void instances_lookup(struct instances *is, struct instance *i)
{
	cleanup_err err_t *err = NULL;

	if (!i->handed || i->r.state == INSTANCE_IS_GONE)
		return;
	if (is->ops->lookup(is->provider, i->r.id, &err) == 0)
		return;
	log_kv(LOG_INFO, "lookup_failed", "instance", i->r.id, "err", err_message(err), NULL);
	if (err_code(err) != ERR_NOT_FOUND || i->r.state == INSTANCE_DESTROYING || i->r.state == INSTANCE_IS_FAILED || i->r.state == INSTANCE_IS_LOST)
		return;
	i->handed = false;   /* it does not know that it manages it: taken up again, which brings the truth */
	instances_again(i);
}
