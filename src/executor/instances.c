/* instances.c - the executor's books on instances. Each change is on disk before anybody hears of it; see instances.h. */
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
#define DESTROY_BACKOFF_MIN_MS 1000
#define DESTROY_BACKOFF_MAX_MS 60000
#define UNACKED_FACTOR 7            /* a tombstone that nobody acknowledged stays this many times longer */

static void save(struct instance *i)
{
	cleanup_err err_t *err = NULL;

	if (instances_store_save(i->is->dir_fd, &i->r, &err) < 0)
		log_kv(LOG_ERROR, "instance_not_saved", "instance", i->r.id, "err", err_message(err), NULL);
}

/* Writes the new state down, then tells. */
static void change(struct instance *i, enum instance_state s)
{
	i->r.state = s;
	i->r.version++;
	save(i);
	FAULT_POINT(instance_changed);
	log_kv(LOG_INFO, "instance_state", "instance", i->r.id, "state", instances_store_state_name(s), NULL);
	i->is->events->changed(i->is->arg, i);
}

static void set_error(struct instance *i, const err_t *err)
{
	const char *text = err ? err_message(err) : "";
	size_t n = strnlen(text, sizeof(i->r.error_message) - 1);

	str_copy(i->r.error_code, sizeof(i->r.error_code), err ? err_detail(err) : "");
	if (text[n])
		n -= utf8_partial_tail(text, n);   /* an engine's words may be long; half a character would make the books unreadable */
	memcpy(i->r.error_message, text, n);
	i->r.error_message[n] = '\0';
}

static struct instance *add(struct instances *is, const struct instance_record *r, err_t **err)
{
	struct instance *i = calloc(1, sizeof(*i));

	if (!i) {
		err_set(err, ERR_NO_MEMORY, NULL, "instance");
		return NULL;
	}
	i->is = is;
	i->r = *r;
	i->backoff_ms = DESTROY_BACKOFF_MIN_MS;
	str_copy(i->node.id, sizeof(i->node.id), r->id);
	idmap_add(&is->map, &i->node);
	if (r->state != INSTANCE_IS_GONE)
		is->alive++;
	return i;
}

static void drop(struct instance *i)
{
	idmap_del(&i->is->map, &i->node);
	loop_timer_free(i->again);
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
	drop(i);
	return true;
}

/* --- destruction --- */

static void destroy_again(struct instance *i);

static void on_again(void *arg)
{
	struct instance *i = arg;
	cleanup_err err_t *err = NULL;

	if (i->r.state == INSTANCE_DESTROYING && i->is->ops->destroy(i->is->provider, i->r.id, &err) < 0) {
		log_kv(LOG_WARN, "destroy_failed", "instance", i->r.id, "err", err_message(err), NULL);
		destroy_again(i);
	}
}

static void destroy_again(struct instance *i)
{
	if (!i->again)
		i->again = loop_timer_new(i->is->loop, on_again, i);
	if (i->again)
		loop_timer_set(i->again, i->backoff_ms);
	i->backoff_ms = i->backoff_ms * 2 > DESTROY_BACKOFF_MAX_MS ? DESTROY_BACKOFF_MAX_MS : i->backoff_ms * 2;
}

static void gone(struct instance *i)
{
	if (i->r.state == INSTANCE_IS_GONE)
		return;
	i->is->alive--;
	i->r.gone_ms = clock_wall_ms();
	loop_timer_free(steal_ptr(&i->again));
	change(i, INSTANCE_IS_GONE);
}

/* --- events of the provider --- */

static void ready(struct instance *i)
{
	if (i->r.state == INSTANCE_CREATING) {
		i->r.was_ready = true;
		i->r.ready_ms = clock_wall_ms();
		i->r.enforced = i->is->ops->enforced(i->is->provider, i->r.id);
		change(i, INSTANCE_IS_READY);
	}
	/* an answer to lookup() tells nothing anew of what the agent holds */
	if (i->r.state == INSTANCE_IS_READY && !i->in_contact) {
		i->in_contact = true;
		i->is->events->connected(i->is->arg, i);
	}
}

static void ended(struct instance *i, enum instance_state s, const err_t *err)
{
	if (i->r.state != INSTANCE_CREATING && i->r.state != INSTANCE_IS_READY)
		return;
	set_error(i, err);
	change(i, s);
}

static void on_instance(void *arg, const char *id, enum instance_event ev, const err_t *err)
{
	struct instances *is = arg;
	struct idmap_node *n = idmap_find(&is->map, id);
	struct instance *i = (struct instance *)n;

	if (!i)
		return;
	switch (ev) {
	case INSTANCE_READY:
		ready(i);
		break;
	case INSTANCE_LOST_CONTACT:
		i->in_contact = false;
		log_kv(LOG_INFO, "instance_contact_lost", "instance", id, NULL);
		break;
	case INSTANCE_FAILED:
		ended(i, INSTANCE_IS_FAILED, err);
		break;
	case INSTANCE_EXITED:
		ended(i, INSTANCE_IS_LOST, err);
		break;
	case INSTANCE_GONE:
		gone(i);
		break;
	case INSTANCE_DESTROY_FAILED:
		log_kv(LOG_WARN, "destroy_failed", "instance", id, "err", err_message(err), NULL);
		destroy_again(i);
		break;
	case INSTANCE_AT_IT:
	case INSTANCE_PAUSED:
	case INSTANCE_PAUSE_FAILED:
	case INSTANCE_WAKE_FAILED:
	case INSTANCE_KEPT:
	case INSTANCE_KEEP_FAILED:
		break;   /* answers to what is never asked here */
	}
}

static void on_started(void *arg, const char *iid, const char *cid, const struct exec_started *s, int out_fd, int err_fd)
{
	struct instances *is = arg;

	is->events->started(is->arg, iid, cid, s, out_fd, err_fd);
}

static void on_exited(void *arg, const char *iid, const char *cid, const struct exec_exited *e)
{
	struct instances *is = arg;

	is->events->exited(is->arg, iid, cid, e);
}

static void on_stdin_taken(void *arg, const char *iid, const char *cid, uint64_t taken, uint64_t window)
{
	struct instances *is = arg;

	is->events->stdin_taken(is->arg, iid, cid, taken, window);
}

static void on_scope_ended(void *arg, const char *iid, const char *scope, const err_t *err)
{
	(void)arg;
	log_kv(LOG_DEBUG, "scope_ended", "instance", iid, "scope", scope, "err", err ? err_message(err) : "", NULL);
}

static void on_listed(void *arg, const struct listed *items, size_t n, bool complete, const err_t *err)
{
	(void)arg;
	(void)items;
	(void)n;
	log_kv(LOG_DEBUG, "instances_listed", "complete", complete ? "1" : "0", "err", err ? err_message(err) : "", NULL);
}

static const struct provider_events provider_events = {
	.instance = on_instance,
	.started = on_started,
	.exited = on_exited,
	.stdin_taken = on_stdin_taken,
	.scope_ended = on_scope_ended,
	.listed = on_listed,
};

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
		drop(i);
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

	idmap_each(&is->map, expire, is);
	tombs_expire(is->tombs, clock_wall_ms());
	is->ops->sweep(is->provider, is_known, is);
	loop_timer_set(is->tick, TICK_MS);
}

/* --- opening: what is written is taken up again --- */

static void take_up(struct instance *i)
{
	struct instances *is = i->is;
	struct instance_spec spec = { .id = i->r.id, .workspace = i->r.workspace };
	cleanup_err err_t *err = NULL;
	int rc = 0;

	if (i->r.state == INSTANCE_CREATING || i->r.state == INSTANCE_IS_READY)
		rc = is->ops->adopt(is->provider, &spec, i->r.was_ready ? INSTANCE_WAS_READY : INSTANCE_WAS_MADE, &err);
	else if (i->r.state == INSTANCE_DESTROYING)
		rc = is->ops->destroy(is->provider, i->r.id, &err);
	if (rc == 0)
		return;
	log_kv(LOG_WARN, "instance_not_taken_up", "instance", i->r.id, "err", err_message(err), NULL);
	if (i->r.state == INSTANCE_DESTROYING) {
		destroy_again(i);
		return;
	}
	set_error(i, err);
	i->r.state = INSTANCE_IS_FAILED;
	i->r.version++;
	save(i);
}

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
		struct instance *i;

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
		if (!(i = add(is, &r, err)))
			return -1;
		take_up(i);
	}
	return 0;
}

static int open_all(struct instances *is, const struct config *c, int state_fd, err_t **err)
{
	if (mkdirat(state_fd, "instances", 0700) < 0 && errno != EEXIST)
		return err_sys(err, errno, "instances");
	is->dir_fd = openat(state_fd, "instances", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (is->dir_fd < 0)
		return err_sys(err, errno, "instances");
	is->tombs = tombs_open(state_fd, is->tombstone_ms, err);
	if (!is->tombs)
		return -1;
	is->tick = loop_timer_new(is->loop, on_tick, is);
	if (!is->tick)
		return err_set(err, ERR_NO_MEMORY, NULL, "instances");
	is->ops = provider_find(config_backend(c), err);
	if (!is->ops)
		return -1;
	is->provider = is->ops->open(is->loop, c, &provider_events, is, err);
	if (!is->provider)
		return err_wrap(err, "provider %s", is->ops->name);
	if (load_all(is, err) < 0)
		return -1;
	idmap_each(&is->map, expire, is);
	tombs_expire(is->tombs, clock_wall_ms());
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
	if (open_all(is, c, state_fd, err) < 0) {
		instances_close(is);
		return NULL;
	}
	return is;
}

static void forget(void *arg, struct idmap_node *n)
{
	(void)arg;
	drop((struct instance *)n);
}

void instances_close(struct instances *is)
{
	if (!is)
		return;
	if (is->provider)
		is->ops->close(is->provider);
	idmap_each(&is->map, forget, NULL);
	idmap_free(&is->map);
	loop_timer_free(is->tick);
	tombs_free(is->tombs);
	if (is->dir_fd >= 0)
		close(is->dir_fd);
	free(is);
}

/* --- calls --- */

static int create(struct instances *is, const char *iid, const char *workspace, struct instance **ret, err_t **err)
{
	struct instance_record r = { .state = INSTANCE_CREATING, .version = 1, .created_ms = clock_wall_ms() };
	struct instance_spec spec = { .id = iid, .workspace = workspace };
	struct instance *i;

	if (is->alive >= is->max_instances)
		return err_set(err, ERR_LIMIT, "too_many_instances", "%lld instances exist", (long long)is->alive);
	if (str_copy(r.id, sizeof(r.id), iid) < 0 || !workspace_name_valid(workspace) || str_copy(r.workspace, sizeof(r.workspace), workspace) < 0)
		return err_set(err, ERR_INVALID, "bad_workspace", "a workspace name is [a-z0-9][a-z0-9._-]{0,63}");
	if (instances_store_add(is->dir_fd, &r, err) < 0)
		return -1;
	FAULT_POINT(instance_written);
	i = add(is, &r, err);
	if (!i || is->ops->create(is->provider, &spec, err) < 0) {
		/* the provider did nothing: as if it had never been asked */
		if (i) {
			is->alive--;
			drop(i);
		}
		instances_store_drop(is->dir_fd, iid, NULL);
		return -1;
	}
	*ret = i;
	return 0;
}

int instances_ensure(struct instances *is, const char *iid, const char *workspace, struct instance **ret, err_t **err)
{
	struct instance *i;

	if (!id_valid(iid))
		return err_set(err, ERR_INVALID, "bad_id", "an instance id is a UUID");
	i = instances_find(is, iid);
	if (!i)
		return create(is, iid, workspace, ret, err);
	if (i->r.state == INSTANCE_IS_GONE || i->r.state == INSTANCE_DESTROYING)
		return err_set(err, ERR_GONE, "instance_gone", "the instance was destroyed");
	*ret = i;
	return 0;
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

/* An id never seen: from now on it cannot be created. The provider is not asked, but the sweep removes what bears such a name. */
static int entomb(struct instances *is, const char *iid, struct instance **ret, err_t **err)
{
	struct instance_record r = { .state = INSTANCE_IS_GONE, .version = 1 };
	struct instance *i;

	r.created_ms = r.gone_ms = clock_wall_ms();
	if (str_copy(r.id, sizeof(r.id), iid) < 0)
		return err_set(err, ERR_INVALID, "bad_id", "an instance id is a UUID");
	if (instances_store_add(is->dir_fd, &r, err) < 0 || !(i = add(is, &r, err)))
		return -1;
	*ret = i;
	is->events->changed(is->arg, i);
	return 0;
}

int instances_destroy(struct instances *is, const char *iid, struct instance **ret, err_t **err)
{
	struct instance *i;
	err_t *failed = NULL;

	if (!id_valid(iid))
		return err_set(err, ERR_INVALID, "bad_id", "an instance id is a UUID");
	i = instances_find(is, iid);
	if (!i)
		return entomb(is, iid, ret, err);
	*ret = i;
	if (i->r.state == INSTANCE_IS_GONE || i->r.state == INSTANCE_DESTROYING)
		return 0;
	change(i, INSTANCE_DESTROYING);
	if (is->ops->destroy(is->provider, iid, &failed) < 0) {
		log_kv(LOG_WARN, "destroy_failed", "instance", iid, "err", err_message(failed), NULL);
		err_free(failed);
		destroy_again(i);
	}
	return 0;
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
	save(i);
}
