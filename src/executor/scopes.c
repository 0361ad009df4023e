#include "executor/scopes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "core/json.h"
#include "executor/idmap.h"
#include "executor/tombs.h"
#include "executor/watch.h"

#define FILE_MAX 1024
#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 5000
#define ANSWER_MS 10000       /* a provider that has not answered by then is asked again */
#define EXPIRE_MS 60000

/* One that is being ended. */
struct ending {
	struct idmap_node node;   /* first; its id */
	struct scopes *s;
	char instance[ID_SIZE];
	enum reason why;
	bool unsaved;
	struct loop_timer *again;
	int64_t backoff_ms;
};

struct scopes {
	struct loop *loop;
	int dir_fd;
	struct idmap map;
	struct tombs *tombs;
	struct loop_timer *tick;
	struct list watches;
	struct instances *instances;   /* NULL until scopes_attach() */
	struct commands *commands;
};

/* --- files --- */

/* What cannot be written is done all the same: it may be what makes room. A restart forgets it then, and whoever wants it asks until it is confirmed. */
static void write_down(struct ending *e)
{
	cleanup_json json_t *o = json_object_new_object();
	cleanup_err err_t *err = NULL;
	bool was_unsaved = e->unsaved;
	const char *text = NULL;
	size_t n = 0;

	if (o && json_add_str(o, "instance", e->instance) == 0 && json_add_str(o, "reason", reason_name(e->why)) == 0)
		text = json_text(o, &n);
	e->unsaved = !text || io_write_file(e->s->dir_fd, e->node.id, text, n, 0600, 0, &err) < 0;
	if (e->unsaved && !was_unsaved)
		log_kv(LOG_ERROR, "scope_not_saved", "scope", e->node.id, "err", err ? err_message(err) : "out of memory", NULL);
}

static int read_back(struct ending *e, err_t **err)
{
	cleanup_free char *text = NULL;
	const char *instance = "", *reason = "";
	size_t n = 0;

	if (io_read_file(e->s->dir_fd, e->node.id, FILE_MAX, &text, &n, err) < 0)
		return -1;
	cleanup_json json_t *o = json_parse(text, n, FILE_MAX, 2, err);
	if (!o || json_get_str(o, "instance", true, &instance, err) < 0 || json_get_str(o, "reason", true, &reason, err) < 0)
		return -1;
	e->why = reason_parse(reason);
	if (!id_valid(instance) || e->why == REASON_NONE || str_copy(e->instance, sizeof e->instance, instance) < 0)
		return err_set(err, ERR_INVALID, NULL, "scope %s", e->node.id);
	return 0;
}

/* --- one that is being ended --- */

static void on_again(void *arg);

static void ending_free(struct ending *e)
{
	if (!e)
		return;
	loop_timer_free(e->again);
	free(e);
}

static struct ending *ending_new(struct scopes *s, const char *scope, err_t **err)
{
	struct ending *e = calloc(1, sizeof *e);

	if (!e || str_copy(e->node.id, sizeof e->node.id, scope) < 0 || !(e->again = loop_timer_new(s->loop, on_again, e))) {
		free(e);
		err_set(err, ERR_NO_MEMORY, NULL, "scope %s", scope);
		return NULL;
	}
	e->s = s;
	return e;
}

static void again(struct ending *e)
{
	if (e->backoff_ms < BACKOFF_MIN_MS)
		e->backoff_ms = BACKOFF_MIN_MS;
	loop_timer_set(e->again, e->backoff_ms);
	e->backoff_ms = e->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : e->backoff_ms * 2;
}

/* Confirmed: the tombstone takes the place of the file. */
static void settle(struct ending *e)
{
	struct scopes *s = e->s;
	cleanup_err err_t *err = NULL;

	if (commands_open_in(s->commands, e->instance, e->node.id) > 0) {
		again(e);   /* an end that could not be written yet */
		return;
	}
	if (tombs_add(s->tombs, e->node.id, clock_wall_ms(), &err) < 0) {
		log_kv(LOG_WARN, "scope_not_buried", "scope", e->node.id, "err", err_message(err), NULL);
		again(e);
		return;
	}
	FAULT_POINT(scope_gone_written);
	if (unlinkat(s->dir_fd, e->node.id, 0) < 0 && errno != ENOENT)
		log_kv(LOG_WARN, "scope_file_not_removed", "scope", e->node.id, "err", strerror(errno), NULL);
	log_kv(LOG_INFO, "scope_gone", "instance", e->instance, "scope", e->node.id, NULL);
	idmap_del(&s->map, &e->node);
	ending_free(e);
	watch_tell(&s->watches);
}

/* An instance in which nothing of any scope can be, whatever the provider says. */
static bool is_empty(const struct instance *i)
{
	switch (instance_state(i)) {
	case INSTANCE_CREATING:
	case INSTANCE_IS_FAILED:
	case INSTANCE_IS_LOST:
	case INSTANCE_IS_GONE:
		return true;
	case INSTANCE_IS_READY:
	case INSTANCE_PAUSING:
	case INSTANCE_IS_PAUSED:
	case INSTANCE_WAKING:
	case INSTANCE_DESTROYING:
		break;
	}
	return false;
}

static void ask(struct ending *e)
{
	struct scopes *s = e->s;
	const struct instance *i = instances_find(s->instances, e->instance);
	cleanup_err err_t *err = NULL;

	if (!i) {
		again(e);   /* our books may be younger than the instance, and what runs there */
	} else if (is_empty(i)) {
		settle(e);
	} else if (instances_scope_end(s->instances, e->instance, e->node.id, &err) < 0) {
		log_kv(LOG_DEBUG, "scope_end_failed", "scope", e->node.id, "err", err_message(err), NULL);
		again(e);
	} else {
		FAULT_POINT(scope_ending_asked);
		loop_timer_set(e->again, ANSWER_MS);
	}
}

static void on_again(void *arg)
{
	struct ending *e = arg;

	if (e->unsaved)
		write_down(e);
	ask(e);
}

/* --- opening --- */

static void on_tick(void *arg)
{
	struct scopes *s = arg;

	tombs_expire(s->tombs, clock_wall_ms());
	tombs_make_room(s->tombs, clock_wall_ms());
	loop_timer_set(s->tick, EXPIRE_MS);
}

static int load_all(struct scopes *s, err_t **err)
{
	int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		return err_sys(err, errno, "ending");
	for (struct dirent *n; (n = readdir(d));) {
		cleanup_err err_t *bad = NULL;
		struct ending *e;

		if (!id_valid(n->d_name))
			continue;
		e = ending_new(s, n->d_name, err);
		if (!e)
			return -1;
		if (read_back(e, &bad) < 0) {
			ending_free(e);
			/* what cannot be read just now would be forgotten */
			if (err_code(bad) != ERR_INVALID && err_code(bad) != ERR_TOO_LARGE)
				return err_move(err, steal_ptr(&bad));
			log_kv(LOG_ERROR, "scope_unreadable", "scope", n->d_name, "err", err_message(bad), NULL);
			continue;
		}
		idmap_add(&s->map, &e->node);
	}
	return 0;
}

static int open_all(struct scopes *s, int state_fd, int64_t keep_ms, err_t **err)
{
	if (mkdirat(state_fd, "ending", 0700) < 0 && errno != EEXIST)
		return err_sys(err, errno, "ending");
	s->dir_fd = openat(state_fd, "ending", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->dir_fd < 0)
		return err_sys(err, errno, "ending");
	s->tombs = tombs_open(state_fd, "scopes", keep_ms, err);
	if (!s->tombs)
		return -1;
	s->tick = loop_timer_new(s->loop, on_tick, s);
	if (!s->tick)
		return err_set(err, ERR_NO_MEMORY, NULL, "scopes");
	on_tick(s);
	return load_all(s, err);
}

struct scopes *scopes_open(struct loop *l, int state_fd, int64_t keep_ms, err_t **err)
{
	struct scopes *s = calloc(1, sizeof *s);

	if (!s || idmap_init(&s->map, err) < 0) {
		free(s);
		err_set(err, ERR_NO_MEMORY, NULL, "scopes");
		return NULL;
	}
	s->loop = l;
	s->dir_fd = -1;
	list_init(&s->watches);
	if (open_all(s, state_fd, keep_ms, err) == 0)
		return s;
	scopes_close(s);
	return NULL;
}

static void free_one(void *arg, struct idmap_node *n)
{
	(void)arg;
	ending_free((struct ending *)n);
}

void scopes_close(struct scopes *s)
{
	if (!s)
		return;
	idmap_each(&s->map, free_one, NULL);
	idmap_free(&s->map);
	loop_timer_free(s->tick);
	tombs_free(s->tombs);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	free(s);
}

static void resume(void *arg, struct idmap_node *n)
{
	struct scopes *s = arg;
	struct ending *e = (struct ending *)n;

	commands_scope_end(s->commands, e->instance, e->node.id, e->why);
	loop_timer_set(e->again, 0);
}

void scopes_attach(struct scopes *s, struct instances *is, struct commands *cs)
{
	s->instances = is;
	s->commands = cs;
	idmap_each(&s->map, resume, s);
}

/* --- calls --- */

bool scopes_over(const struct scopes *s, const char *scope)
{
	return idmap_find(&s->map, scope) || tombs_has(s->tombs, scope);
}

struct search {
	const char *iid;
	bool found;
};

static void look_at(void *arg, struct idmap_node *n)
{
	struct search *f = arg;

	f->found = f->found || str_eq(((const struct ending *)n)->instance, f->iid);
}

bool scopes_any_in(const struct scopes *s, const char *iid)
{
	struct search f = { .iid = iid };

	idmap_each((struct idmap *)&s->map, look_at, &f);
	return f.found;
}

struct list *scopes_watches(struct scopes *s)
{
	return &s->watches;
}

/* Written down first; then its commands, then the rest. */
static int begin(struct scopes *s, const char *iid, const char *scope, enum reason why, err_t **err)
{
	struct ending *e = ending_new(s, scope, err);

	if (!e)
		return -1;
	e->why = why;
	(void)str_copy(e->instance, sizeof e->instance, iid);
	write_down(e);
	FAULT_POINT(scope_ending_written);
	idmap_add(&s->map, &e->node);
	commands_scope_end(s->commands, iid, scope, why);
	ask(e);
	return 0;
}

int scopes_end(struct scopes *s, const char *iid, const char *scope, enum reason why, bool *ret_gone, err_t **err)
{
	const struct ending *e = (const struct ending *)idmap_find(&s->map, scope);
	bool over;

	if (!id_valid(iid) || !id_valid(scope))
		return err_set(err, ERR_INVALID, "bad_id", "instance and scope are UUIDs");
	if (e && !str_eq(e->instance, iid))
		return err_set(err, ERR_CONFLICT, "other_instance", "the scope is being ended in instance %s", e->instance);
	over = !e && tombs_has(s->tombs, scope) && commands_open_in(s->commands, iid, scope) == 0;
	if (!over && !instances_find(s->instances, iid))
		return err_set(err, ERR_NOT_FOUND, "instance_not_found", "the instance was never seen");
	if (!e && !over && begin(s, iid, scope, why, err) < 0)
		return -1;
	*ret_gone = !idmap_find(&s->map, scope);
	return 0;
}

/* --- from the instances --- */

void scopes_answered(struct scopes *s, const char *iid, const char *scope, const err_t *err)
{
	struct ending *e = (struct ending *)idmap_find(&s->map, scope);

	if (!e || !str_eq(e->instance, iid))
		return;
	if (!err) {
		settle(e);
		return;
	}
	log_kv(LOG_DEBUG, "scope_not_ended", "scope", scope, "err", err_message(err), NULL);
	again(e);
}

/* In a moment: not from within what tells it. */
static void soon(void *arg, struct idmap_node *n)
{
	struct ending *e = (struct ending *)n;

	if (!str_eq(e->instance, arg))
		return;
	e->backoff_ms = 0;
	loop_timer_set(e->again, 0);
}

void scopes_instance_changed(struct scopes *s, struct instance *i)
{
	idmap_each(&s->map, soon, (void *)instance_id(i));
}

void scopes_instance_connected(struct scopes *s, struct instance *i)
{
	scopes_instance_changed(s, i);
}
