/* instances.c - the executor's books on instances: the table, what is written when, tombstones, opening. Each change is on disk before anybody hears of
 * it; see instances.h. */
#include "executor/instances.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "base/utf8.h"
#include "executor/instances_priv.h"

#define FIRST_TICK_MS 5000
#define TICK_MS 30000               /* what is over, and what belongs to nobody, is looked for so often */
#define UNACKED_FACTOR 7            /* a tombstone that nobody acknowledged stays this many times longer */

int instances_save(struct instance *i, err_t **err)
{
	cleanup_err err_t *e = NULL;

	i->unsaved = instances_store_save(i->is->dir_fd, &i->r, &e) < 0;
	if (!i->unsaved)
		return 0;
	log_kv(LOG_ERROR, "instance_not_saved", "instance", i->r.id, "err", err_message(e), NULL);
	return err_move(err, steal_ptr(&e));
}

static void tell(struct instance *i)
{
	log_kv(LOG_INFO, "instance_state", "instance", i->r.id, "state", instances_store_state_name(i->r.state), NULL);
	i->is->events->changed(i->is->arg, i);
}

static void enter(struct instance *i, enum instance_state s)
{
	if (i->r.state != s)
		i->r.since_ms = clock_boot_ms();
	i->r.state = s;
	i->r.version++;
	i->r.wanted = i->r.wanted && s == INSTANCE_PAUSING;
	if (s != INSTANCE_CREATING)
		i->r.waits_for[0] = '\0';
	i->asked = i->looking = i->unsure = false;
}

void instances_change(struct instance *i, enum instance_state s)
{
	enter(i, s);
	(void)instances_save(i, NULL);
	FAULT_POINT_AT(instances_store_written(s));
	tell(i);
}

int instances_change_or_fail(struct instance *i, enum instance_state s, err_t **err)
{
	const struct instance_record was = i->r;
	bool asked = i->asked, looking = i->looking;

	enter(i, s);
	if (instances_save(i, err) < 0) {
		i->r = was;
		i->asked = asked;
		i->looking = looking;
		return -1;
	}
	FAULT_POINT_AT(instances_store_written(s));
	tell(i);
	return 0;
}

void instances_set_error(struct instance *i, const err_t *err)
{
	const char *text = err ? err_message(err) : "";
	size_t n = strnlen(text, sizeof(i->r.error_message) - 1);

	str_copy(i->r.error_code, sizeof(i->r.error_code), err ? err_detail(err) : "");
	if (text[n])
		n -= utf8_partial_tail(text, n);   /* an engine's words may be long; half a character would make the books unreadable */
	memcpy(i->r.error_message, text, n);
	i->r.error_message[n] = '\0';
}

bool instances_takes_place(const struct instance_record *r)
{
	return r->state != INSTANCE_IS_GONE && r->created_ms;
}

struct instance *instances_add(struct instances *is, const struct instance_record *r, err_t **err)
{
	struct instance *i = calloc(1, sizeof(*i));

	if (!i) {
		err_set(err, ERR_NO_MEMORY, NULL, "instance");
		return NULL;
	}
	i->is = is;
	i->r = *r;
	instances_again_reset(i);
	str_copy(i->node.id, sizeof(i->node.id), r->id);
	idmap_add(&is->map, &i->node);
	is->places += instances_takes_place(r);
	return i;
}

void instances_drop(struct instance *i)
{
	meter_forget(i->is->meter, &i->r.meter);
	idmap_del(&i->is->map, &i->node);
	loop_timer_free(i->again);
	err_free(i->keep_err);
	free(i->ref);
	free(i);
}

/* Gone and acknowledged: only its id stays. False: tried again later. */
static bool bury(struct instance *i)
{
	struct instances *is = i->is;
	cleanup_err err_t *err = NULL;

	if (tombs_add(is->tombs, i->r.id, i->r.gone_ms, &err) < 0 || instances_store_drop(is->dir_fd, i->r.id, &err) < 0) {
		log_kv(LOG_WARN, "instance_not_buried", "instance", i->r.id, "err", err_message(err), NULL);
		return false;
	}
	instances_drop(i);
	return true;
}

/* --- tombstones and sweeps --- */

static void expire(void *arg, struct idmap_node *n)
{
	struct instances *is = arg;
	struct instance *i = (struct instance *)n;
	int64_t age = clock_wall_ms() - i->r.gone_ms;
	bool acked = i->r.acked >= i->r.version;

	if (i->r.state != INSTANCE_IS_GONE)
		return;
	if (acked && age < is->tombstone_ms)
		bury(i);
	else if (age >= (acked ? is->tombstone_ms : is->tombstone_ms * UNACKED_FACTOR) && instances_store_drop(is->dir_fd, i->r.id, NULL) == 0)
		instances_drop(i);
}

static void save_again(void *arg, struct idmap_node *n)
{
	struct instance *i = (struct instance *)n;

	(void)arg;
	if (i->unsaved)
		(void)instances_save(i, NULL);
}

static bool is_known(void *arg, const char *id)
{
	struct instances *is = arg;
	struct instance *i = (struct instance *)idmap_find(&is->map, id);

	return i && i->r.state != INSTANCE_IS_GONE;
}

static void on_tick(void *arg)
{
	struct instances *is = arg;

	idmap_each(&is->map, save_again, NULL);
	idmap_each(&is->map, expire, is);
	tombs_expire(is->tombs, clock_wall_ms());
	tombs_make_room(is->tombs, clock_wall_ms());
	is->ops->sweep(is->provider, is_known, is);
	loop_timer_set(is->tick, TICK_MS);
}

/* --- opening: what is written is taken up again --- */

static int load_all(struct instances *is, err_t **err)
{
	cleanup_closedir DIR *d = NULL;
	struct dirent *e;
	int fd = openat(is->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || !(d = fdopendir(fd)))
		return err_sys(err, errno, "instances");
	while ((e = readdir(d))) {
		cleanup_err err_t *bad = NULL;
		struct instance_record r;

		if (!id_valid(e->d_name))
			continue;
		if (instances_store_load(is->dir_fd, e->d_name, &r, &bad) < 0) {
			/* An instance that is not in the books is swept away: what cannot be read just now is no reason for that. */
			if (err_code(bad) != ERR_NOT_FOUND && err_code(bad) != ERR_INVALID && err_code(bad) != ERR_TOO_LARGE)
				return err_move(err, steal_ptr(&bad));
			log_kv(LOG_WARN, "instance_unreadable", "instance", e->d_name, "err", err_message(bad), NULL);
			if (err_code(bad) == ERR_NOT_FOUND)
				instances_store_drop(is->dir_fd, e->d_name, NULL);
			continue;
		}
		if (!instances_add(is, &r, err))
			return -1;
	}
	return 0;
}

static void take_up(void *arg, struct idmap_node *n)
{
	(void)arg;
	instances_take_up((struct instance *)n);
}

static int open_all(struct instances *is, const struct config *c, int state_fd, err_t **err)
{
	char key[64];

	if (mkdirat(state_fd, "instances", 0700) < 0 && errno != EEXIST)
		return err_sys(err, errno, "instances");
	is->dir_fd = openat(state_fd, "instances", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (is->dir_fd < 0)
		return err_sys(err, errno, "instances");
	is->tombs = tombs_open(state_fd, "tombs", is->tombstone_ms, err);
	is->meter = is->tombs ? meter_open(is->loop, state_fd, err) : NULL;
	if (!is->meter)
		return -1;
	is->tick = loop_timer_new(is->loop, on_tick, is);
	if (!is->tick)
		return err_set(err, ERR_NO_MEMORY, NULL, "instances");
	is->ops = provider_find(config_backend(c), err);
	if (!is->ops || str_fmt(key, sizeof(key), "%s.create_timeout_ms", config_backend(c)) < 0)
		return -1;
	is->create_timeout_ms = config_int(c, key);
	is->provider = is->ops->open(is->loop, c, &instances_provider_events, is, err);
	if (!is->provider)
		return err_wrap(err, "provider %s", is->ops->name);
	if (load_all(is, err) < 0)
		return -1;
	idmap_each(&is->map, take_up, NULL);
	idmap_each(&is->map, expire, is);
	tombs_expire(is->tombs, clock_wall_ms());
	tombs_make_room(is->tombs, clock_wall_ms());
	loop_timer_set(is->tick, FIRST_TICK_MS);
	return 0;
}

struct instances *instances_open(struct loop *l, const struct config *c, int state_fd, const struct instances_events *ev, void *arg, err_t **err)
{
	struct instances *is = calloc(1, sizeof(*is));

	if (!is || idmap_init(&is->map, err) < 0) {
		free(is);
		err_set(err, ERR_NO_MEMORY, NULL, "instances");
		return NULL;
	}
	is->loop = l;
	is->events = ev;
	is->arg = arg;
	is->dir_fd = -1;
	is->tombstone_ms = config_int(c, "executor.tombstone_ms");
	is->max_instances = config_int(c, "executor.max_instances");
	is->quarantine_tries = config_int(c, "sandbox.quarantine_tries");
	if (open_all(is, c, state_fd, err) < 0) {
		instances_close(is);
		return NULL;
	}
	return is;
}

static void let_go(void *arg, struct idmap_node *n)
{
	(void)arg;
	instances_drop((struct instance *)n);
}

void instances_close(struct instances *is)
{
	if (!is)
		return;
	if (is->provider)
		is->ops->close(is->provider);
	if (is->meter)
		meter_flush(is->meter);
	idmap_each(&is->map, let_go, NULL);
	idmap_free(&is->map);
	loop_timer_free(is->tick);
	tombs_free(is->tombs);
	meter_close(is->meter);
	if (is->dir_fd >= 0)
		close(is->dir_fd);
	free(is);
}

/* --- looking --- */

bool instances_persistent(const struct instances *is)
{
	return (is->ops->caps & PROVIDER_PERSISTENT) != 0;
}

struct instance *instances_find(struct instances *is, const char *iid)
{
	struct instance *i = (struct instance *)idmap_find(&is->map, iid);

	if (i || !id_valid(iid) || !tombs_has(is->tombs, iid))
		return i;
	is->picture = (struct instance){ .is = is, .r = { .state = INSTANCE_IS_GONE } };
	(void)str_copy(is->picture.r.id, sizeof(is->picture.r.id), iid);
	return &is->picture;
}

size_t instances_tombstones(const struct instances *is)
{
	return tombs_count(is->tombs);
}

struct each {
	void (*fn)(void *arg, struct instance *i);
	void *arg;
};

static void each_node(void *arg, struct idmap_node *n)
{
	struct each *e = arg;

	e->fn(e->arg, (struct instance *)n);
}

void instances_each(struct instances *is, void (*fn)(void *arg, struct instance *i), void *arg)
{
	struct each e = { .fn = fn, .arg = arg };

	idmap_each(&is->map, each_node, &e);
}

void instance_ack(struct instance *i, uint64_t version)
{
	if (version <= i->r.acked || version > i->r.version)
		return;
	i->r.acked = version;
	if (i->r.state == INSTANCE_IS_GONE && version == i->r.version && bury(i))
		return;
	(void)instances_save(i, NULL);
}
