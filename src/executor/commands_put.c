/* commands_put.c - a new command: limits, its instance, its entry in the journal, its start (declared in commands.h). */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/crypto.h"
#include "executor/commands_priv.h"
#include "executor/scopes.h"

#define RECORD_KEPT 4096   /* a larger record is not held in memory */

static int ensure_instance(struct commands *cs, const struct spec *s, err_t **err)
{
	struct instance *i = instances_find(cs->instances, s->instance);

	if (!i && !s->workspace)
		return err_set(err, ERR_NOT_FOUND, "instance_not_found", "instance %s is not known", s->instance);
	if (!i) {
		err_t *e = NULL;
		if (instances_ensure(cs->instances, s->instance, s->workspace, s->replaces, &i, &e) == 0)
			return 0;
		if (err_code(e) != ERR_UNAVAILABLE)
			return err_move(err, e);
		err_set(err, ERR_UNAVAILABLE, "control_plane_unavailable", "%s", err_message(e));
		err_free(e);
		return -1;
	}
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

static void steps_from(const struct commands *cs, const char *cid, const struct spec *s, struct steps *ret)
{
	const char *run = NULL;

	*ret = (struct steps){ .timeout_ms = s->timeout_ms, .timer = s->timer, .accepted_ms = clock_wall_ms(), .caps = cs->limits.caps };
	(void)str_copy(ret->cid, sizeof ret->cid, cid);
	(void)str_copy(ret->instance, sizeof ret->instance, s->instance);
	(void)str_copy(ret->scope, sizeof ret->scope, s->scope);
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

/* What a new command is before it is in the table. */
struct entry {
	struct steps st;
	struct feed feed;
	unsigned slot;
	int log_fd;
};

/* The journal's entry with its spool; nothing stays of it on failure. */
static int entry_make(struct commands *cs, const struct spec *s, const char *record, size_t n_record, struct entry *e, err_t **err)
{
	feed_init(&e->feed);
	e->log_fd = record ? journal_create(cs->journal, &e->st, record, n_record, &e->slot, err) :
		err_set(err, ERR_NO_MEMORY, NULL, "command %s", e->st.cid);
	if (e->log_fd < 0)
		return -1;
	if (e->st.stdin_open && spool_first(cs, e->st.cid, s, &e->feed, err) < 0) {
		feed_close(&e->feed);
		journal_discard(cs->journal, e->st.cid, e->slot, e->log_fd);
		return -1;
	}
	e->feed.eof = e->st.stdin_eof;
	return 0;
}

/* Takes over s. */
static struct command *create(struct commands *cs, struct spec *s, struct entry *e, err_t **err)
{
	size_t n_record = 2;
	const char *record = s->record ? json_text((json_t *)s->record, &n_record) : "{}";
	struct command *c;

	if (entry_make(cs, s, record, n_record, e, err) < 0) {
		spec_free(s);
		return NULL;
	}
	c = command_new(cs, e->slot, &e->st, s, e->log_fd, err);
	if (!c) {
		feed_close(&e->feed);
		journal_discard(cs->journal, e->st.cid, e->slot, -1);
		return NULL;
	}
	c->live->feed = e->feed;
	if (n_record <= RECORD_KEPT)
		c->record = str_dup(record);   /* NULL: it is read from the journal */
	log_kv(LOG_DEBUG, "command_accepted", "command", e->st.cid, "instance", e->st.instance, "run", e->st.run_id, NULL);
	return c;
}

/* Starts it now when its instance is ready; else it waits, and wakes one that sleeps. */
static void start_or_queue(struct commands *cs, struct command *c, struct instance *i)
{
	enum instance_state is = i ? instance_state(i) : INSTANCE_CREATING;

	if (is == INSTANCE_IS_FAILED || is == INSTANCE_IS_LOST)
		command_instance_over(c, is);
	else if (is == INSTANCE_IS_READY)
		command_start(c);
	else if (i && instances_wake(cs->instances, i, NULL) < 0)
		command_wake_failed(c);
}

static int take_on(struct commands *cs, const char *cid, struct spec *s, err_t **err)
{
	struct instance *i = instances_find(cs->instances, s->instance);
	enum instance_state is = i ? instance_state(i) : INSTANCE_CREATING;
	struct entry e;
	struct command *c;

	steps_from(cs, cid, s, &e.st);
	if (is == INSTANCE_IS_READY)
		e.st.handed_ms = e.st.accepted_ms;
	c = create(cs, s, &e, err);
	if (!c)
		return -1;
	start_or_queue(cs, c, i);
	return 0;
}

int commands_put(struct commands *cs, const char *cid, struct spec *s, bool *ret_new, err_t **err)
{
	*ret_new = false;
	if (commands_find(cs, cid) || journal_acked(cs->journal, cid)) {
		spec_free(s);
		return 0;
	}
	if (scopes_over(cs->scopes, s->scope)) {
		spec_free(s);
		return err_set(err, ERR_GONE, "scope_gone", "the scope was ended");
	}
	if (check_limits(cs, s, err) < 0 || journal_room(cs->journal, err) < 0 || ensure_instance(cs, s, err) < 0) {
		spec_free(s);
		return -1;
	}
	*ret_new = true;
	return take_on(cs, cid, s, err);
}
