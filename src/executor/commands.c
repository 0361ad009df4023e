#include "executor/commands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/crypto.h"
#include "executor/commands_priv.h"

#define RECORD_KEPT 4096   /* a larger record is not held in memory */

/* --- the table --- */

static struct command *find(const struct commands *cs, const char *cid)
{
	return (struct command *)idmap_find(&cs->map, cid);
}

static void recover(void *arg, const char *cid, const struct steps *s)
{
	struct commands *cs = arg;
	cleanup_err err_t *e = NULL;
	struct command *c;
	int fd;

	if (s->ended) {
		c = command_new_ended(cs, cid, s, &e);
		if (c)
			report_now(cs->reports, &c->report);
	} else {
		fd = journal_log(cs->journal, cid, &e);
		c = fd < 0 ? NULL : command_new(cs, cid, s, NULL, fd, &e);
		if (c && s->started_ms)
			c->report.version = COMMAND_VERSION_STARTED;
		if (c && s->started_ms)
			report_later(cs->reports, &c->report);
		if (c && s->stdin_open) {
			fd = journal_spool(cs->journal, cid, &e);
			if (fd >= 0)
				(void)feed_open(&c->live->feed, fd, &e);
		}
	}
	if (e)
		log_kv(LOG_ERROR, "command_not_recovered", "command", cid, "err", err_message(e), NULL);
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
	if (!cs->feed_again || idmap_init(&cs->map, err) < 0 || journal_recover(j, recover, cs, err) < 0) {
		commands_free(cs);
		return NULL;
	}
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
	case INSTANCE_CREATING:
	case INSTANCE_IS_READY:
		break;
	}
}

void commands_instance_connected(struct commands *cs, struct instance *i)
{
	for_instance(cs, instance_id(i), on_connected, INSTANCE_IS_READY);
}

void commands_attach(struct commands *cs, struct instances *is)
{
	cs->instances = is;
	list_for_each_safe(p, next, &cs->open) {
		struct live *v = list_entry(p, struct live, node);
		struct instance *i = instances_find(is, v->c->st.instance);

		if (!i)
			command_instance_over(v->c, INSTANCE_IS_LOST);
		else
			commands_instance_changed(cs, i);
	}
}

/* --- a new command --- */

static int ensure_instance(struct commands *cs, const struct spec *s, err_t **err)
{
	struct instance *i = instances_find(cs->instances, s->instance);

	if (!i && !s->workspace)
		return err_set(err, ERR_NOT_FOUND, "instance_not_found", "instance %s is not known", s->instance);
	if (!i)
		return instances_ensure(cs->instances, s->instance, s->workspace, &i, err);
	if (instance_state(i) == INSTANCE_IS_GONE || instance_state(i) == INSTANCE_DESTROYING)
		return err_set(err, ERR_GONE, "instance_gone", "instance %s was destroyed", s->instance);
	return 0;
}

static int check_limits(struct commands *cs, const struct spec *s, err_t **err)
{
	if (cs->n_open >= cs->limits.max_commands)
		return err_set(err, ERR_LIMIT, "too_many_commands", "%u commands are open on this node", cs->n_open);
	if (commands_open(cs, s->instance) >= cs->limits.instance_commands)
		return err_set(err, ERR_LIMIT, "too_many_commands", "%u commands are open in this instance", cs->limits.instance_commands);
	return 0;
}

static void steps_from(const struct commands *cs, const struct spec *s, struct steps *ret)
{
	const char *run = NULL;

	*ret = (struct steps){ .timeout_ms = s->timeout_ms, .accepted_ms = clock_wall_ms(), .caps = cs->limits.caps };
	(void)str_copy(ret->instance, sizeof ret->instance, s->instance);
	if (s->record && json_get_str(s->record, "run_id", false, &run, NULL) == 0 && run)
		(void)str_copy(ret->run_id, sizeof ret->run_id, run);
	ret->stdin_open = s->stdin_text || s->keep_stdin;
	ret->stdin_eof = !s->keep_stdin;
}

/* Into the spool, decoded. */
static int spool_first(struct commands *cs, const char *cid, const struct spec *s, struct feed *f, err_t **err)
{
	cleanup_free void *decoded = NULL;
	const void *p = s->stdin_text;
	size_t n = s->stdin_len;
	int fd;

	if (s->stdin_is_base64) {
		decoded = malloc(n + 1);
		if (!decoded)
			return err_set(err, ERR_NO_MEMORY, NULL, "stdin");
		if (crypto_base64_decode(s->stdin_text, s->stdin_len, decoded, n + 1, &n) < 0)
			return err_set(err, ERR_INVALID, "bad_field", "stdin_base64 is not base64");
		p = decoded;
	}
	fd = journal_spool(cs->journal, cid, err);
	if (fd < 0 || feed_open(f, fd, err) < 0)
		return -1;
	return p ? feed_add(f, p, n, cs->limits.stdin_bytes, err) : 0;
}

/* The journal's entry with its spool; nothing stays of it on failure. */
static int make_entry(struct commands *cs, const char *cid, const struct spec *s, const char *record, size_t n_record, struct steps *st,
		struct feed *feed, int *ret_log, err_t **err)
{
	cleanup_close int log_fd = -1;

	if (!record)
		return err_set(err, ERR_NO_MEMORY, NULL, "command %s", cid);
	if (journal_create(cs->journal, cid, st, record, n_record, &log_fd, err) < 0)
		return -1;
	if (st->stdin_open && spool_first(cs, cid, s, feed, err) < 0) {
		feed_close(feed);
		journal_discard(cs->journal, cid);
		return -1;
	}
	feed->eof = st->stdin_eof;
	*ret_log = steal_fd(&log_fd);
	return 0;
}

/* Takes over s. */
static int create(struct commands *cs, const char *cid, struct spec *s, err_t **err)
{
	struct instance *i = instances_find(cs->instances, s->instance);
	enum instance_state is = i ? instance_state(i) : INSTANCE_CREATING;
	struct steps st;
	struct feed feed;
	struct command *c;
	size_t n_record = 2;
	const char *record = s->record ? json_text((json_t *)s->record, &n_record) : "{}";
	int log_fd;

	feed_init(&feed);
	steps_from(cs, s, &st);
	if (is == INSTANCE_IS_READY)
		st.handed_ms = st.accepted_ms;
	if (make_entry(cs, cid, s, record, n_record, &st, &feed, &log_fd, err) < 0) {
		spec_free(s);
		return -1;
	}
	c = command_new(cs, cid, &st, s, log_fd, err);
	if (!c) {
		feed_close(&feed);
		journal_discard(cs->journal, cid);
		return -1;
	}
	c->live->feed = feed;
	if (n_record <= RECORD_KEPT)
		c->record = str_dup(record);
	log_kv(LOG_DEBUG, "command_accepted", "command", cid, "instance", st.instance, "run", st.run_id, NULL);
	if (is == INSTANCE_IS_FAILED || is == INSTANCE_IS_LOST)
		command_instance_over(c, INSTANCE_IS_FAILED);
	else
		command_start(c);
	return 0;
}

int commands_put(struct commands *cs, const char *cid, struct spec *s, bool *ret_new, err_t **err)
{
	*ret_new = false;
	if (find(cs, cid) || journal_acked(cs->journal, cid)) {
		spec_free(s);
		return 0;
	}
	if (check_limits(cs, s, err) < 0 || ensure_instance(cs, s, err) < 0) {
		spec_free(s);
		return -1;
	}
	*ret_new = true;
	return create(cs, cid, s, err);
}

/* --- calls on a command --- */

enum command_phase commands_phase(struct commands *cs, const char *cid)
{
	struct command *c = find(cs, cid);

	if (!c)
		return journal_has(cs->journal, cid) ? COMMAND_ENDED : COMMAND_UNKNOWN;
	if (c->ended)
		return COMMAND_ENDED;
	return c->st.started_ms ? COMMAND_RUNNING : COMMAND_PENDING;
}

/* The command when it has not ended. */
static struct command *find_open(struct commands *cs, const char *cid, err_t **err)
{
	struct command *c = find(cs, cid);

	if (c && !c->ended && !c->live->ending)
		return c;
	if (c || journal_has(cs->journal, cid))
		err_set(err, ERR_CONFLICT, "not_running", "the command has ended");
	else
		err_set(err, ERR_NOT_FOUND, "not_found", "command %s is not known", cid);
	return NULL;
}

int commands_kill(struct commands *cs, const char *cid, enum reason why, err_t **err)
{
	struct command *c = find_open(cs, cid, err);

	return c ? command_kill(c, why, err) : -1;
}

int commands_signal(struct commands *cs, const char *cid, int signo, err_t **err)
{
	struct command *c = find_open(cs, cid, err);

	return c ? command_signal(c, signo, err) : -1;
}

int commands_stdin(struct commands *cs, const char *cid, const void *p, size_t n, bool eof, err_t **err)
{
	struct command *c = find_open(cs, cid, err);
	struct live *v = c ? c->live : NULL;

	if (!c)
		return -1;
	if (!v->c->st.stdin_open || v->feed.eof)
		return err_set(err, ERR_CONFLICT, "not_running", "standard input is closed");
	if (n > 0 && feed_add(&v->feed, p, n, cs->limits.stdin_bytes, err) < 0)
		return -1;
	if (eof && steps_stdin_eof(v->log_fd, &c->st, err) < 0)
		return -1;
	v->feed.eof = eof;
	if (v->c->st.started_ms && feed_push(&v->feed, cs->instances, v->c->st.instance, cid) < 0)
		loop_timer_set(cs->feed_again, 100);
	return 0;
}

uint64_t commands_stdin_received(struct commands *cs, const char *cid)
{
	struct command *c = find(cs, cid);

	return c && c->live ? c->live->feed.size : 0;
}

void commands_ack(struct commands *cs, const char *cid, uint64_t version)
{
	struct command *c = find(cs, cid);
	cleanup_err err_t *e = NULL;

	if (!c || c->report.version != version)
		return;
	report_drop(cs->reports, &c->report);
	if (!c->ended)
		return;
	if (journal_ack(cs->journal, cid, &e) < 0) {
		log_kv(LOG_ERROR, "command_ack_not_written", "command", cid, "err", err_message(e), NULL);
		report_now(cs->reports, &c->report);
		return;
	}
	if (!c->live)
		command_free(c);   /* else when background children let go of its pipes */
	else
		c->acked = true;
}

/* --- looking --- */

struct output *commands_output(struct commands *cs, const char *cid, err_t **err)
{
	struct command *c = find(cs, cid);
	struct steps s;

	if (c && c->live && c->live->o)
		return output_ref(c->live->o);
	if (c)
		return journal_output(cs->journal, cid, &c->st, err);
	if (journal_read(cs->journal, cid, &s, NULL, err) < 0)
		return NULL;
	return journal_output(cs->journal, cid, &s, err);
}

/* The counters of an open command are those of this moment. */
static void facts_now(const struct command *c, struct steps *ret)
{
	*ret = c->st;
	for (int s = 0; !c->ended && s < 2; s++) {
		ret->end.bytes[s] = output_bytes(c->live->o, (enum output_stream)s);
		ret->end.truncated[s] = output_truncated(c->live->o, (enum output_stream)s);
	}
}

int commands_facts(struct commands *cs, const char *cid, struct steps *ret, char **ret_record, err_t **err)
{
	struct command *c = find(cs, cid);
	cleanup_free char *text = NULL;

	if (c)
		facts_now(c, ret);
	if (c && (!ret_record || c->record)) {
		text = ret_record ? str_dup(c->record) : NULL;
	} else {
		struct steps s;

		if (journal_read(cs->journal, cid, &s, ret_record ? &text : NULL, err) < 0)
			return -1;
		if (!c)
			*ret = s;
	}
	if (ret_record && !text)
		return err_set(err, ERR_NO_MEMORY, NULL, "command %s", cid);
	if (ret_record)
		*ret_record = steal_ptr(&text);
	return 0;
}

/* --- from the agent --- */

/* The command that the agent of iid may speak of. Nothing that it says about others is believed. */
static struct command *named_by(struct commands *cs, const char *iid, const char *cid)
{
	struct command *c = find(cs, cid);

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
	close(out_fd);
	close(err_fd);
	if (!c && !journal_has(cs->journal, cid))
		(void)instances_exec_kill(cs->instances, iid, cid, NULL);   /* nobody asked for it: its row and journal are gone */
}

void commands_exited(struct commands *cs, const char *iid, const char *cid, const struct exec_exited *e)
{
	struct command *c = named_by(cs, iid, cid);

	if (c && !c->ended)
		command_exited(c, e);
	else
		(void)instances_exec_ack(cs->instances, iid, cid, NULL);
}

void commands_stdin_taken(struct commands *cs, const char *cid, uint64_t taken, uint64_t window)
{
	struct command *c = find(cs, cid);

	if (!c || c->ended || !c->st.stdin_open)
		return;
	feed_taken(&c->live->feed, taken, window);
	if (feed_push(&c->live->feed, cs->instances, c->st.instance, cid) < 0)
		loop_timer_set(cs->feed_again, 100);
}
