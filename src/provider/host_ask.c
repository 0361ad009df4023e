/* host_ask.c - what is asked of sandboxes that exist. What is known already is told from the loop, for no call answers from within itself. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/host.h"

#define LISTED_MAX 65536

enum owed_kind { OWED_EVENT, OWED_SCOPE, OWED_LIST };

struct owed {
	struct list node;
	enum owed_kind kind;
	char id[ID_SIZE];
	char scope[ID_SIZE];
	enum instance_event ev;
	err_t *err;
};

static void owed_free(struct owed *o)
{
	list_del(&o->node);
	err_free(o->err);
	free(o);
}

static void tell_list(struct provider *p);

static void tell_owed(void *arg)
{
	struct provider *p = arg;
	struct owed *o = list_entry(p->owed.next, struct owed, node);

	list_del(&o->node);
	if (!list_empty(&p->owed))
		loop_timer_set(p->owed_timer, 0);
	/* whoever is told may ask again, which owes anew */
	if (o->kind == OWED_SCOPE)
		p->events->scope_ended(p->arg, o->id, o->scope, o->err);
	else if (o->kind == OWED_LIST)
		tell_list(p);
	else
		p->events->instance(p->arg, o->id, o->ev, o->err);
	owed_free(o);
}

void host_ask_free(struct provider *p)
{
	list_for_each_safe(i, following, &p->owed)
		owed_free(list_entry(i, struct owed, node));
	loop_timer_free(p->owed_timer);
}

/* Takes over what. */
static int owe(struct provider *p, enum owed_kind kind, const char *id, const char *scope, enum instance_event ev, err_t *what, err_t **err)
{
	struct owed *o = calloc(1, sizeof(*o));

	if (!p->owed_timer)
		p->owed_timer = loop_timer_new(p->loop, tell_owed, p);
	if (!o || !p->owed_timer || str_copy(o->id, sizeof(o->id), id) < 0 || str_copy(o->scope, sizeof(o->scope), scope) < 0) {
		free(o);
		err_free(what);
		return err_set(err, ERR_NO_MEMORY, NULL, "answer");
	}
	o->kind = kind;
	o->ev = ev;
	o->err = what;
	list_add_tail(&p->owed, &o->node);
	loop_timer_set(p->owed_timer, 0);
	return 0;
}

static int owe_event(struct provider *p, const char *id, enum instance_event ev, err_t *what, err_t **err)
{
	return owe(p, OWED_EVENT, id, "", ev, what, err);
}

static struct sandbox *managed(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = host_find(p, id);

	if (!s)
		err_set(err, ERR_NOT_FOUND, "instance_not_found", "no such instance");
	return s;
}

static int owe_down(struct provider *p, const struct sandbox *s, err_t **err)
{
	return owe_event(p, s->id, s->exited ? INSTANCE_EXITED : INSTANCE_FAILED, err_copy(s->why), err);
}

int host_lookup(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = managed(p, id, err);

	if (!s)
		return -1;
	if (s->want_destroy)
		return 0;   /* its end will be told */
	if (s->step == SANDBOX_DOWN)
		return owe_down(p, s, err);
	if (s->step != SANDBOX_UP && s->step != SANDBOX_PAUSED)
		return owe_event(p, id, INSTANCE_AT_IT, NULL, err);   /* it is being looked at anyway */
	s->asked = true;
	sandbox_kick(s);
	return 0;
}

int host_pause(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = managed(p, id, err);

	if (!s)
		return -1;
	if (s->want_destroy || (s->step != SANDBOX_UP && s->step != SANDBOX_PAUSED && !s->want_pause))
		return s->step == SANDBOX_DOWN && s->exited ? owe_down(p, s, err) : err_set(err, ERR_BUSY, "instance_busy", "the sandbox is between two states");
	if (s->want_pause)
		return 0;
	if (s->step == SANDBOX_PAUSED)
		return owe_event(p, id, INSTANCE_PAUSED, NULL, err);
	if (sandbox_is_busy(s))
		return err_set(err, ERR_BUSY, "instance_busy", "commands run in the sandbox");
	sandbox_pause(s);
	return 0;
}

int host_wake(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = managed(p, id, err);

	if (!s)
		return -1;
	if (s->want_destroy || s->want_pause)
		return err_set(err, ERR_BUSY, "instance_busy", "the sandbox is between two states");
	if (s->step == SANDBOX_DOWN)
		return owe_down(p, s, err);
	if (s->step == SANDBOX_UP) {
		s->asked = true;
		sandbox_kick(s);
		return 0;
	}
	if (s->step != SANDBOX_PAUSED) {
		s->waking = s->waking || s->was_ready;   /* on its way, or being looked at: then it goes on to be up */
		return 0;
	}
	s->waking = true;
	sandbox_begin(s, SANDBOX_LOOK);
	return 0;
}

int host_keep_alive(struct provider *p, const char *id, int64_t ms, err_t **err)
{
	struct sandbox *s = managed(p, id, err);
	err_t *why = NULL;

	(void)ms;   /* nothing but a call ends or pauses it */
	if (!s)
		return -1;
	if (s->step == SANDBOX_UP && !s->want_destroy && !s->want_pause)
		return owe_event(p, id, INSTANCE_KEPT, NULL, err);
	if (s->step == SANDBOX_DOWN && s->exited && !s->want_destroy)
		return owe_down(p, s, err);
	err_set(&why, ERR_CONFLICT, "instance_not_ready", "the sandbox is not ready");
	return owe_event(p, id, INSTANCE_KEEP_FAILED, why, err);
}

int host_owe_scope(struct provider *p, const char *id, const char *scope, err_t *what, err_t **err)
{
	return owe(p, OWED_SCOPE, id, scope, INSTANCE_AT_IT, what, err);
}

int host_scope_end(struct provider *p, const char *id, const char *scope, err_t **err)
{
	struct sandbox *s = host_find(p, id);

	return s ? sandbox_scope_end(s, scope, err) : host_owe_scope(p, id, scope, NULL, err);
}

/* --- all of them --- */

static enum listed_state state_of(int root_fd, const char *id)
{
	cleanup_close int dir = host_layout_open(root_fd, id, NULL);

	if (dir < 0 || !host_layout_whole(dir))
		return LISTED_OTHER;
	return host_layout_keeper(dir) > 0 ? LISTED_RUNNING : LISTED_PAUSED;
}

static void free_items(struct listed *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)(uintptr_t)items[i].ref);
	free(items);
}

/* Everything in the directory; complete is false when memory is out or there is more than anybody can have. */
static struct listed *gather(struct provider *p, size_t *n, bool *complete, err_t **err)
{
	int fd = openat(p->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct listed *items = NULL, *more;

	*n = 0;
	*complete = false;
	if (!d) {
		err_sys(err, errno, "[host] sandboxes");
		return NULL;
	}
	for (struct dirent *e; (e = readdir(d));) {
		char *ref;

		if (e->d_name[0] == '.')
			continue;
		if (*n == LISTED_MAX || !(more = realloc(items, (*n + 1) * sizeof(*items))))
			return items;
		items = more;
		if (!(ref = str_dup(e->d_name)))
			return items;
		items[(*n)++] = (struct listed){ .ref = ref, .id = id_valid(ref) ? ref : NULL, .state = state_of(p->root_fd, ref) };
	}
	*complete = true;
	return items;
}

static void tell_list(struct provider *p)
{
	cleanup_err err_t *err = NULL;
	bool complete;
	size_t n;
	struct listed *items = gather(p, &n, &complete, &err);

	p->events->listed(p->arg, items, n, complete, err);
	free_items(items, n);
}

int host_list(struct provider *p, err_t **err)
{
	return owe(p, OWED_LIST, "", "", INSTANCE_AT_IT, NULL, err);
}

/* Those that hold a user's things are never removed unasked; what vanished under a running sandbox is noticed. */
void host_sweep(struct provider *p, bool (*known)(void *arg, const char *instance_id), void *arg)
{
	bool complete;
	size_t n;
	struct listed *items = gather(p, &n, &complete, NULL);

	for (size_t i = 0; i < n; i++)
		if (!items[i].id || (!known(arg, items[i].id) && !host_find(p, items[i].id)))
			log_kv(LOG_WARN, "sandbox_unknown", "ref", items[i].ref, NULL);
	free_items(items, n);
	list_for_each(i, &p->sandboxes_list) {
		struct sandbox *s = list_entry(i, struct sandbox, link_node);

		if (s->step == SANDBOX_UP)
			sandbox_kick(s);
	}
}
