/* host_ask.c - what is asked of sandboxes that exist. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/host.h"

#define LISTED_MAX 65536

static int owe_down(struct provider *p, const struct sandbox *s, err_t **err)
{
	return owed_event(p->agents.owed, s->id, s->exited ? INSTANCE_EXITED : INSTANCE_FAILED, err_copy(s->why), err);
}

int host_lookup(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = host_sandbox(agents_find_or_say(&p->agents, id, err));

	if (!s)
		return -1;
	if (s->want_destroy)
		return 0;   /* its end will be told */
	if (s->step == SANDBOX_DOWN)
		return owe_down(p, s, err);
	if (s->step != SANDBOX_UP && s->step != SANDBOX_PAUSED)
		return owed_event(p->agents.owed, id, INSTANCE_AT_IT, NULL, err);   /* it is being looked at anyway */
	s->asked = true;
	sandbox_kick(s);
	return 0;
}

int host_pause(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = host_sandbox(agents_find_or_say(&p->agents, id, err));

	if (!s)
		return -1;
	if (s->want_destroy || (s->step != SANDBOX_UP && s->step != SANDBOX_PAUSED && !s->want_pause))
		return s->step == SANDBOX_DOWN && s->exited ? owe_down(p, s, err) : err_set(err, ERR_BUSY, "instance_busy", "the sandbox is between two states");
	if (s->want_pause)
		return 0;
	if (s->step == SANDBOX_PAUSED)
		return owed_event(p->agents.owed, id, INSTANCE_PAUSED, NULL, err);
	if (agent_instance_is_busy(&s->agent))
		return err_set(err, ERR_BUSY, "instance_busy", "commands run in the sandbox");
	sandbox_pause(s);
	return 0;
}

int host_wake(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = host_sandbox(agents_find_or_say(&p->agents, id, err));

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
	struct sandbox *s = host_sandbox(agents_find_or_say(&p->agents, id, err));
	err_t *why = NULL;

	(void)ms;   /* nothing but a call ends or pauses it */
	if (!s)
		return -1;
	if (s->step == SANDBOX_UP && !s->want_destroy && !s->want_pause)
		return owed_event(p->agents.owed, id, INSTANCE_KEPT, NULL, err);
	if (s->step == SANDBOX_DOWN && s->exited && !s->want_destroy)
		return owe_down(p, s, err);
	err_set(&why, ERR_CONFLICT, "instance_not_ready", "the sandbox is not ready");
	return owed_event(p->agents.owed, id, INSTANCE_KEEP_FAILED, why, err);
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

static void tell_list(void *arg)
{
	struct provider *p = arg;
	cleanup_err err_t *err = NULL;
	bool complete;
	size_t n;
	struct listed *items = gather(p, &n, &complete, &err);

	p->agents.events->listed(p->agents.arg, items, n, complete, err);
	free_items(items, n);
}

int host_list(struct provider *p, err_t **err)
{
	return owed_call(p->agents.owed, tell_list, p, err);
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
	list_for_each(i, &p->agents.instances) {
		struct sandbox *s = list_entry(i, struct sandbox, agent.node);

		if (s->step == SANDBOX_UP)
			sandbox_kick(s);
	}
}
