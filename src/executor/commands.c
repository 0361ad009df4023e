#include "executor/commands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/commands_priv.h"

/* --- the table --- */

struct command *commands_find(const struct commands *cs, const char *cid)
{
	return (struct command *)idmap_find(&cs->map, cid);
}

static void recover(void *arg, unsigned slot, const struct steps *s)
{
	struct commands *cs = arg;
	cleanup_err err_t *e = NULL;
	struct command *c;
	int fd;

	if (s->ended) {
		if (s->stdin_open)
			journal_spool_remove(cs->journal, s->cid);
		c = command_new_ended(cs, slot, s, &e);
		if (c)
			report_now(cs->reports, &c->report);
	} else {
		fd = journal_log(cs->journal, slot, &e);
		c = fd < 0 ? NULL : command_new(cs, slot, s, NULL, fd, &e);
		if (c && s->started_ms)
			c->report.version = COMMAND_VERSION_STARTED;
		if (c && s->started_ms)
			report_later(cs->reports, &c->report);
		if (c && s->stdin_open) {
			fd = journal_spool(cs->journal, s->cid, &e);
			if (fd >= 0)
				(void)feed_open(&c->live->feed, fd, &e);
		}
	}
	if (e)
		log_kv(LOG_ERROR, "command_not_recovered", "command", s->cid, "err", err_message(e), NULL);
}

/* Feeds for whom the agent's connection was full. */
static void on_feed_again(void *arg)
{
	struct commands *cs = arg;

	list_for_each(p, &cs->open) {
		struct live *v = list_entry(p, struct live, node);

		if (v->c->st.stdin_open && v->c->st.started_ms &&
		    feed_push(&v->feed, cs->instances, v->c->st.instance, v->c->node.id) < 0)
			loop_timer_set(cs->feed_again, 100);
	}
}

static void on_say_again(void *arg)
{
	struct commands *cs = arg;

	cs->saying_again = false;
	list_for_each_safe(p, next, &cs->open)
		command_say_again(list_entry(p, struct live, node)->c);
}

/* What a stream of so many bytes takes on disk, at most. */
static uint64_t kept(const struct output_caps *c, uint64_t bytes)
{
	uint64_t most = c->head + c->tail + OUTPUT_HOLE_STEP;

	return bytes < most ? bytes : most;
}

static void add_held(void *arg, struct idmap_node *n)
{
	const struct command *c = (const struct command *)n;
	uint64_t *sum = arg;

	for (int s = 0; s < 2; s++) {
		if (c->live && c->live->o)
			*sum += kept(&c->st.caps, output_size(c->live->o, (enum output_stream)s));
		else
			*sum += kept(&c->st.caps, c->st.end.bytes[s]);
	}
}

static uint64_t held(void *arg, unsigned *ret_open)
{
	struct commands *cs = arg;
	uint64_t sum = 0;

	*ret_open = cs->n_open;
	idmap_each(&cs->map, add_held, &sum);
	return sum;
}

struct commands *commands_new(struct loop *l, struct journal *j, struct reports *r, const struct commands_limits *lim, err_t **err)
{
	struct commands *cs = calloc(1, sizeof *cs);

	if (!cs) {
		err_set(err, ERR_NO_MEMORY, NULL, "commands");
		return NULL;
	}
	*cs = (struct commands){ .loop = l, .journal = j, .reports = r, .limits = *lim };
	list_init(&cs->open);
	cs->feed_again = loop_timer_new(l, on_feed_again, cs);
	cs->say_again = loop_timer_new(l, on_say_again, cs);
	if (!cs->feed_again || !cs->say_again || idmap_init(&cs->map, err) < 0 || journal_recover(j, recover, cs, err) < 0) {
		commands_free(cs);
		return NULL;
	}
	journal_set_held(j, held, cs);
	return cs;
}

static void free_one(void *arg, struct idmap_node *n)
{
	(void)arg;
	command_free((struct command *)n);
}

void commands_free(struct commands *cs)
{
	if (!cs)
		return;
	if (cs->map.slots)
		idmap_each(&cs->map, free_one, NULL);
	idmap_free(&cs->map);
	loop_timer_free(cs->feed_again);
	loop_timer_free(cs->say_again);
	free(cs);
}

unsigned commands_open(struct commands *cs, const char *iid)
{
	unsigned n = 0;

	if (!iid)
		return cs->n_open;
	list_for_each(p, &cs->open)
		n += str_eq(list_entry(p, struct live, node)->c->st.instance, iid);
	return n;
}

unsigned commands_open_in(struct commands *cs, const char *iid, const char *scope)
{
	unsigned n = 0;

	list_for_each(p, &cs->open) {
		const struct command *c = list_entry(p, struct live, node)->c;

		n += !c->ended && str_eq(c->st.instance, iid) && str_eq(c->st.scope, scope);
	}
	return n;
}

/* True when a command waits for that instance. */
static bool commands_queued(const struct commands *cs, const char *iid)
{
	list_for_each(p, &cs->open) {
		const struct live *v = list_entry(p, struct live, node);

		if (!v->ending && v->c->st.handed_ms == 0 && str_eq(v->c->st.instance, iid))
			return true;
	}
	return false;
}

const struct commands_limits *commands_limits(const struct commands *cs)
{
	return &cs->limits;
}

/* --- instances --- */

static void for_instance(struct commands *cs, const char *iid, void (*fn)(struct command *c, enum instance_state s), enum instance_state s)
{
	list_for_each_safe(p, next, &cs->open) {
		struct live *v = list_entry(p, struct live, node);

		if (str_eq(v->c->st.instance, iid))
			fn(v->c, s);
	}
}

static void on_connected(struct command *c, enum instance_state s)
{
	(void)s;
	command_connected(c);
}

static void on_paused(struct command *c, enum instance_state s)
{
	(void)s;
	command_instance_paused(c);
}

static void on_wake_failed(struct command *c, enum instance_state s)
{
	(void)s;
	command_wake_failed(c);
}

/* What waits wakes it. What ran there runs no more. */
static void paused(struct commands *cs, struct instance *i)
{
	for_instance(cs, instance_id(i), on_paused, INSTANCE_IS_PAUSED);
	if (commands_queued(cs, instance_id(i)))
		(void)instances_wake(cs->instances, i, NULL);
}

/* What never reached the agent will not: its end need not wait for the destruction. */
static void on_destroying(struct command *c, enum instance_state s)
{
	if (c->st.handed_ms == 0)
		command_instance_over(c, s);
}

void commands_instance_changed(struct commands *cs, struct instance *i)
{
	switch (instance_state(i)) {
	case INSTANCE_IS_FAILED:
	case INSTANCE_IS_LOST:
	case INSTANCE_IS_GONE:
		for_instance(cs, instance_id(i), command_instance_over, instance_state(i));
		break;
	case INSTANCE_DESTROYING:
		for_instance(cs, instance_id(i), on_destroying, INSTANCE_IS_GONE);
		break;
	case INSTANCE_IS_PAUSED:
		paused(cs, i);
		break;
	case INSTANCE_CREATING:
	case INSTANCE_IS_READY:
	case INSTANCE_PAUSING:
	case INSTANCE_WAKING:
		break;
	}
}

void commands_instance_wake_failed(struct commands *cs, struct instance *i)
{
	for_instance(cs, instance_id(i), on_wake_failed, INSTANCE_IS_PAUSED);
}

void commands_instance_connected(struct commands *cs, struct instance *i)
{
	for_instance(cs, instance_id(i), on_connected, INSTANCE_IS_READY);
}

static bool is_asleep(const struct instance *i)
{
	return instance_state(i) == INSTANCE_PAUSING || instance_state(i) == INSTANCE_IS_PAUSED || instance_state(i) == INSTANCE_WAKING;
}

void commands_attach(struct commands *cs, struct instances *is, const struct scopes *s)
{
	cs->instances = is;
	cs->scopes = s;
	list_for_each_safe(p, next, &cs->open) {
		struct live *v = list_entry(p, struct live, node);
		struct instance *i = instances_find(is, v->c->st.instance);

		if (!i)
			command_instance_over(v->c, INSTANCE_IS_LOST);
		else if (is_asleep(i))
			command_instance_paused(v->c);   /* an instance is not woken for what can not run any more */
		else
			commands_instance_changed(cs, i);
	}
}

/* --- from the agent --- */

/* The command that the agent of iid may speak of. Nothing that it says about others is believed. */
static struct command *named_by(struct commands *cs, const char *iid, const char *cid)
{
	struct command *c = commands_find(cs, cid);

	if (c && !c->ended && !str_eq(c->st.instance, iid)) {
		log_kv(LOG_WARN, "command_of_another_instance", "command", cid, "instance", iid, NULL);
		return NULL;
	}
	return c;
}

void commands_started(struct commands *cs, const char *iid, const char *cid, const struct exec_started *s, int out_fd, int err_fd)
{
	struct command *c = named_by(cs, iid, cid);

	if (c && !c->ended && !c->live->ending) {
		command_started(c, s, out_fd, err_fd);
		return;
	}
	const struct exec_ref x = { .exec_id = cid, .pgid = s->pgid };

	close(out_fd);
	close(err_fd);
	if (!c && !journal_acked(cs->journal, cid))
		(void)instances_exec_kill(cs->instances, iid, &x, NULL);   /* nobody asked for it: its row and journal are gone */
}

void commands_exited(struct commands *cs, const char *iid, const char *cid, const struct exec_exited *e)
{
	struct command *c = named_by(cs, iid, cid);

	if (c && !c->ended)
		command_exited(c, e);
	else
		(void)instances_exec_ack(cs->instances, iid, cid, NULL);
}

void commands_stdin_taken(struct commands *cs, const char *iid, const char *cid, uint64_t taken, uint64_t window)
{
	struct command *c = named_by(cs, iid, cid);

	if (!c || c->ended || !c->st.stdin_open)
		return;
	feed_taken(&c->live->feed, taken, window);
	if (feed_push(&c->live->feed, cs->instances, c->st.instance, cid) < 0)
		loop_timer_set(cs->feed_again, 100);
}
