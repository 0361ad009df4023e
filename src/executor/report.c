#include "executor/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "executor/idmap.h"
#include "executor/watch.h"

struct instance_report {
	struct idmap_node node;   /* first */
	struct report report;
};

struct reports {
	struct list due, waiting;   /* waiting is in order of due_ms */
	struct loop_timer *timer;
	struct idmap instances;
	struct list watches;
	size_t count;               /* due ones */
};

static void on_timer(void *arg)
{
	struct reports *r = arg;
	int64_t now = clock_boot_ms();

	while (!list_empty(&r->waiting)) {
		struct report *p = list_entry(r->waiting.next, struct report, node);

		if (p->due_ms > now) {
			loop_timer_set(r->timer, p->due_ms - now);
			return;
		}
		report_now(r, p);
	}
}

struct reports *reports_new(struct loop *l, err_t **err)
{
	struct reports *r = calloc(1, sizeof *r);

	if (!r) {
		err_set(err, ERR_NO_MEMORY, NULL, "reports");
		return NULL;
	}
	list_init(&r->due);
	list_init(&r->waiting);
	list_init(&r->watches);
	r->timer = loop_timer_new(l, on_timer, r);
	if (!r->timer || idmap_init(&r->instances, err) < 0) {
		loop_timer_free(r->timer);
		free(r);
		return NULL;
	}
	return r;
}

static void free_instance(void *arg, struct idmap_node *n)
{
	(void)arg;
	free(n);
}

void reports_free(struct reports *r)
{
	if (!r)
		return;
	idmap_each(&r->instances, free_instance, NULL);
	idmap_free(&r->instances);
	loop_timer_free(r->timer);
	free(r);
}

void report_init(struct report *p, enum report_kind k, const char *id)
{
	*p = (struct report){ .kind = k, .id = id };
	list_init(&p->node);
}

void report_drop(struct reports *r, struct report *p)
{
	if (list_empty(&p->node))
		return;
	list_del(&p->node);
	if (p->due_ms == 0)
		r->count--;
	p->due_ms = 0;
}

/* Into the waiting list, which is in order of time: from its end, for most are the last. */
static void wait_for(struct reports *r, struct report *p, int64_t ms)
{
	struct list *at = r->waiting.prev;

	p->due_ms = clock_boot_ms() + ms;
	while (at != &r->waiting && list_entry(at, struct report, node)->due_ms > p->due_ms)
		at = at->prev;
	list_add_tail(at->next, &p->node);
	if (at == &r->waiting)
		loop_timer_set(r->timer, ms);
}

void report_later(struct reports *r, struct report *p)
{
	if (list_empty(&p->node))
		wait_for(r, p, REPORT_START_DELAY_MS);
}

void report_now(struct reports *r, struct report *p)
{
	report_drop(r, p);
	p->due_ms = 0;
	list_add_tail(&r->due, &p->node);
	r->count++;
	watch_tell(&r->watches);
}

void reports_instance(struct reports *r, const char *iid, uint64_t version)
{
	struct instance_report *i = (struct instance_report *)idmap_find(&r->instances, iid);

	if (!i) {
		i = calloc(1, sizeof *i);
		if (!i || str_copy(i->node.id, sizeof i->node.id, iid) < 0) {
			free(i);
			return;
		}
		report_init(&i->report, REPORT_INSTANCE, i->node.id);
		idmap_add(&r->instances, &i->node);
	}
	i->report.version = version;
	report_now(r, &i->report);
}

void reports_instance_acked(struct reports *r, const char *iid, uint64_t version)
{
	struct instance_report *i = (struct instance_report *)idmap_find(&r->instances, iid);

	if (!i || i->report.version != version)
		return;
	report_drop(r, &i->report);
	idmap_del(&r->instances, &i->node);
	free(i);
}

bool reports_any(const struct reports *r)
{
	return r->count > 0;
}

size_t reports_count(const struct reports *r)
{
	return r->count;
}

void reports_each(struct reports *r, enum report_said (*fn)(void *arg, const struct report *p), void *arg)
{
	list_for_each_safe(n, next, &r->due) {
		struct report *p = list_entry(n, struct report, node);
		enum report_said said = fn(arg, p);

		if (said == REPORT_STOP)
			return;
		if (said == REPORT_VOID)
			reports_instance_acked(r, p->id, p->version);
		if (said != REPORT_PUT_OFF)
			continue;
		report_drop(r, p);
		wait_for(r, p, REPORT_RETRY_MS);
	}
}

struct list *reports_watches(struct reports *r)
{
	return &r->watches;
}

void report_key(const struct report *p, char dst[REPORT_KEY_SIZE])
{
	if (str_fmt(dst, REPORT_KEY_SIZE, "%c:%s:%" PRIu64, p->kind == REPORT_COMMAND ? 'c' : 'i', p->id, p->version) < 0)
		abort();   /* ids have 36 characters */
}

int report_key_parse(const char *key, enum report_kind *kind, char id[ID_SIZE], uint64_t *version)
{
	if ((key[0] != 'c' && key[0] != 'i') || key[1] != ':' || strlen(key) < ID_SIZE + 2 || key[ID_SIZE + 1] != ':')
		return -1;
	memcpy(id, key + 2, ID_SIZE - 1);
	id[ID_SIZE - 1] = '\0';
	*kind = key[0] == 'c' ? REPORT_COMMAND : REPORT_INSTANCE;
	return id_valid(id) ? num_u64(key + ID_SIZE + 2, UINT64_MAX, version) : -1;
}
