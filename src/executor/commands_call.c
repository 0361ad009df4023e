/* commands_call.c - what callers ask of a command that is there (declared in commands.h). */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/commands_priv.h"

enum command_phase commands_phase(struct commands *cs, const char *cid)
{
	struct command *c = commands_find(cs, cid);

	if (!c)
		return journal_acked(cs->journal, cid) ? COMMAND_ENDED : COMMAND_UNKNOWN;
	if (c->ended)
		return COMMAND_ENDED;
	return c->st.started_ms ? COMMAND_RUNNING : COMMAND_PENDING;
}

/* The command when it has not ended. */
static struct command *find_open(struct commands *cs, const char *cid, err_t **err)
{
	struct command *c = commands_find(cs, cid);

	if (c && !c->ended && !c->live->ending)
		return c;
	if (c || journal_acked(cs->journal, cid))
		err_set(err, ERR_CONFLICT, "not_running", "the command has ended");
	else
		err_set(err, ERR_NOT_FOUND, "not_found", "command %s is not known", cid);
	return NULL;
}

/* The same, when it is of the instance that is meant. */
static struct command *find_open_of(struct commands *cs, const char *cid, const char *iid, err_t **err)
{
	struct command *c = find_open(cs, cid, err);

	if (!c || !iid || str_eq(c->st.instance, iid))
		return c;
	err_set(err, ERR_CONFLICT, "other_instance", "the command is of instance %s", c->st.instance);
	return NULL;
}

int commands_kill(struct commands *cs, const char *cid, const char *iid, enum reason why, err_t **err)
{
	struct command *c = find_open_of(cs, cid, iid, err);

	return c ? command_kill(c, why, err) : -1;
}

void commands_scope_end(struct commands *cs, const char *iid, const char *scope, enum reason why)
{
	list_for_each_safe(p, next, &cs->open) {
		struct live *v = list_entry(p, struct live, node);

		if (!v->ending && str_eq(v->c->st.instance, iid) && str_eq(v->c->st.scope, scope))
			(void)command_kill(v->c, why, NULL);
	}
}

int commands_signal(struct commands *cs, const char *cid, const char *iid, int signo, err_t **err)
{
	struct command *c = find_open_of(cs, cid, iid, err);

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
	if (eof && steps_stdin_eof(c->log_fd, &c->st, err) < 0)
		return -1;
	v->feed.eof = eof;
	if (v->c->st.started_ms && feed_push(&v->feed, cs->instances, v->c->st.instance, cid) < 0)
		loop_timer_set(cs->feed_again, 100);
	return 0;
}

uint64_t commands_stdin_received(struct commands *cs, const char *cid)
{
	struct command *c = commands_find(cs, cid);

	return c && c->live ? c->live->feed.size : 0;
}

void commands_ack(struct commands *cs, const char *cid, uint64_t version)
{
	struct command *c = commands_find(cs, cid);
	cleanup_err err_t *e = NULL;

	if (!c || c->report.version != version)
		return;
	report_drop(cs->reports, &c->report);
	if (c->live)
		return;   /* it was the start's; an end that is not settled has not been reported */
	if (journal_ack(cs->journal, &c->st, c->slot, command_log_take(c), &e) < 0) {
		log_kv(LOG_ERROR, "command_ack_not_written", "command", cid, "err", err_message(e), NULL);
		report_later(cs->reports, &c->report);
		return;
	}
	command_free(c);
}

/* --- looking --- */

struct output *commands_output(struct commands *cs, const char *cid, err_t **err)
{
	struct command *c = commands_find(cs, cid);
	struct steps s;

	if (c && c->live && c->live->o)
		return output_ref(c->live->o);
	if (c)
		return journal_output(cs->journal, &c->st, err);
	if (journal_read(cs->journal, cid, &s, NULL, err) < 0)
		return NULL;
	return journal_output(cs->journal, &s, err);
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

static char *record_of(struct commands *cs, const struct command *c, err_t **err)
{
	char *record;

	if (!c->record)
		return journal_record(cs->journal, c->slot, &c->st, err);
	record = str_dup(c->record);
	if (!record)
		err_set(err, ERR_NO_MEMORY, NULL, "command %s", c->node.id);
	return record;
}

int commands_facts(struct commands *cs, const char *cid, struct steps *ret, char **ret_record, err_t **err)
{
	struct command *c = commands_find(cs, cid);

	if (!c)
		return journal_read(cs->journal, cid, ret, ret_record, err);
	facts_now(c, ret);
	if (!ret_record)
		return 0;
	*ret_record = record_of(cs, c, err);
	return *ret_record ? 0 : -1;
}
