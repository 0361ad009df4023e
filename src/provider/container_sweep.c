/* container_sweep.c - what bears our names and is in nobody's books is removed. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "core/id.h"
#include "provider/container.h"
#include "provider/leftovers.h"

#define RECORD_AGE_MS 60000    /* a younger record of the runtime may be of a create that is on its way */

struct sweep {
	struct provider *p;
	bool (*known)(void *arg, const char *instance_id);
	void *arg;
};

/* name: a container's name with our prefix. */
static void consider(void *arg, const char *name)
{
	struct sweep *s = arg;
	cleanup_err err_t *err = NULL;
	const char *id = name + strlen(s->p->prefix);
	struct box *b;

	if (!str_prefix(name, s->p->prefix) || container_find(s->p, id) || s->known(s->arg, id))
		return;
	log_kv(LOG_WARN, "orphan_found", "container", name, NULL);
	b = box_new(s->p, id, &err);
	if (!b) {
		log_kv(LOG_WARN, "orphan_not_removed", "container", name, "err", err_message(err), NULL);
		return;
	}
	b->quiet = true;
	box_destroy(b);
}

struct record {
	struct provider *p;
	char id[ENGINE_ID_SIZE];
};

static void on_record(void *arg, const struct engine_answer *a, const err_t *err)
{
	cleanup_free struct record *r = arg;

	(void)a;
	if (!err || err_code(err) != ERR_NOT_FOUND)
		return;
	log_kv(LOG_WARN, "orphan_found", "record", r->id, NULL);
	if (leftovers_of("", r->id, r->p->runtime_state, true) == 0)
		leftovers_forget(r->id, r->p->runtime_state, NULL);
}

static bool is_managed(struct provider *p, const char *container)
{
	list_for_each(i, &p->agents.instances)
		if (str_eq(list_entry(i, struct box, agent.node)->container, container))
			return true;
	return false;
}

/* A record of the runtime that the engine may not know: asked by id, and removed with its processes when it does not. */
static void consider_record(void *arg, const char *id)
{
	struct sweep *s = arg;
	struct provider *p = s->p;
	char path[PATH_MAX];
	struct stat st;
	struct record *r;

	if (is_managed(p, id) || str_fmt(path, sizeof(path), "%s/%s", p->runtime_state, id) < 0 || stat(path, &st) < 0 ||
	    clock_wall_ms() - (int64_t)st.st_mtime * 1000 < RECORD_AGE_MS)
		return;
	r = calloc(1, sizeof(*r));
	if (!r)
		return;
	r->p = p;
	str_copy(r->id, sizeof(r->id), id);
	if (p->ops->inspect(p->engine, id, on_record, r, NULL) < 0)
		free(r);
}

/* Socket directories of instances that are in nobody's books. */
static void sweep_agent_dirs(struct sweep *s)
{
	struct provider *p = s->p;
	cleanup_closedir DIR *d = opendir(p->agents.dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (id_valid(e->d_name) && !container_find(p, e->d_name) && !s->known(s->arg, e->d_name))
			io_remove_tree(dirfd(d), e->d_name, NULL);
}

static void on_listed(void *arg, const struct engine_answer *a, const err_t *err)
{
	cleanup_free struct sweep *s = arg;

	if (err) {
		log_kv(LOG_WARN, "sweep_failed", "err", err_message(err), NULL);
		return;
	}
	for (size_t i = 0; i < a->n; i++)
		consider(s, a->items[i].name);
	leftovers_names(s->p->prefix, consider, s);
	leftovers_ids(s->p->runtime_state, consider_record, s);
	sweep_agent_dirs(s);
}

void container_sweep(struct provider *p, bool (*known)(void *arg, const char *instance_id), void *arg)
{
	struct sweep *s = calloc(1, sizeof(*s));
	cleanup_err err_t *err = NULL;

	if (!s)
		return;
	*s = (struct sweep){ .p = p, .known = known, .arg = arg };
	if (p->ops->list(p->engine, p->prefix, on_listed, s, &err) < 0) {
		log_kv(LOG_WARN, "sweep_failed", "err", err_message(err), NULL);
		free(s);
	}
}
