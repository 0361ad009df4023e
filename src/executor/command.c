#include "executor/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/commands_priv.h"

#define END_RETRY_MS 500
#define SAY_AGAIN_MS 250
#define LOGS_KEPT 256   /* open logs of ended commands */

/* --- the log of an ended command --- */

/* It is read again when the end is acknowledged, milliseconds later as a rule. To close it would also cost a write to the disk, which emptying the slot
 * then waits for: ext4 sends what was written to a truncated file out when it is closed. */
static void log_keep(struct command *c)
{
	if (c->cs->n_logs < LOGS_KEPT) {
		c->cs->n_logs++;
		return;
	}
	close(c->log_fd);
	c->log_fd = -1;
}

int command_log_take(struct command *c)
{
	if (!c->live && c->log_fd >= 0)
		c->cs->n_logs--;
	return steal_fd(&c->log_fd);
}

static void log_close(struct command *c)
{
	int fd = command_log_take(c);

	if (fd >= 0)
		close(fd);
}

/* --- the command --- */

static void on_again(void *arg);

static void live_free(struct live *v)
{
	if (!v)
		return;
	list_del(&v->node);
	pump_free(v->pump);
	output_unref(v->o);
	spec_free(v->spec);
	feed_close(&v->feed);
	loop_timer_free(v->again);
	free(v);
}

struct command *command_new_ended(struct commands *cs, unsigned slot, const struct steps *st, err_t **err)
{
	struct command *c = calloc(1, sizeof *c);

	if (!c || str_copy(c->node.id, sizeof c->node.id, st->cid) < 0) {
		free(c);
		err_set(err, ERR_NO_MEMORY, NULL, "command %s", st->cid);
		return NULL;
	}
	c->cs = cs;
	c->slot = slot;
	c->log_fd = -1;
	c->st = *st;
	c->ended = true;
	report_init(&c->report, REPORT_COMMAND, c->node.id);
	c->report.version = COMMAND_VERSION_ENDED;
	idmap_add(&cs->map, &c->node);
	return c;
}

struct command *command_new(struct commands *cs, unsigned slot, const struct steps *st, struct spec *spec, int log_fd, err_t **err)
{
	struct live *v = calloc(1, sizeof *v);
	struct command *c = v ? command_new_ended(cs, slot, st, err) : NULL;

	if (!c) {
		free(v);
		spec_free(spec);
		close(log_fd);
		return NULL;
	}
	*v = (struct live){ .c = c, .spec = spec };
	c->log_fd = log_fd;
	list_init(&v->node);
	feed_init(&v->feed);
	v->feed.eof = st->stdin_eof;
	c->live = v;
	c->ended = false;
	c->report.version = 1;
	v->again = loop_timer_new(cs->loop, on_again, c);
	if (!v->again)
		err_set(err, ERR_NO_MEMORY, NULL, "command %s", st->cid);
	else
		v->o = spec ? journal_output_fresh(cs->journal, st, err) : journal_output(cs->journal, st, err);
	if (!v->o) {
		command_free(c);
		return NULL;
	}
	list_add_tail(&cs->open, &v->node);
	cs->n_open++;
	return c;
}

void command_free(struct command *c)
{
	if (c->live && !list_empty(&c->live->node))
		c->cs->n_open--;
	log_close(c);
	live_free(c->live);
	report_drop(c->cs->reports, &c->report);
	idmap_del(&c->cs->map, &c->node);
	free(c->record);
	free(c);
}

/* --- the end --- */

static void log_end(const struct command *c)
{
	const struct steps *st = &c->st;
	char code[16], bytes[48], ms[24];

	(void)str_fmt(code, sizeof code, "%d", st->end.signal ? -st->end.signal : st->end.exit_code);
	(void)str_fmt(bytes, sizeof bytes, "%" PRIu64 "+%" PRIu64, st->end.bytes[0], st->end.bytes[1]);
	(void)str_fmt(ms, sizeof ms, "%" PRId64, st->started_ms ? st->end.ended_ms - st->started_ms : 0);
	log_kv(LOG_INFO, "command_ended", "command", c->node.id, "instance", st->instance, "reason", reason_name(st->end.reason),
		"error", start_error_code(st->end.error), "code", code, "bytes", bytes, "dur_ms", ms, NULL);
}

/* What is needed no more of a command whose end is settled. */
static void release(struct command *c)
{
	struct live *v = c->live;

	if (c->st.stdin_open)
		journal_spool_remove(c->cs->journal, c->node.id);
	log_keep(c);
	list_del(&v->node);
	c->cs->n_open--;
	live_free(v);
	c->live = NULL;
}

/* Those who wait for the end have it. */
static void settle(struct command *c)
{
	log_end(c);
	if (c->st.handed_ms)
		(void)instances_exec_ack(c->cs->instances, c->st.instance, c->node.id, NULL);   /* lost with the connection: asked for again */
	release(c);
	c->report.version = COMMAND_VERSION_ENDED;
	report_now(c->cs->reports, &c->report);
}

/* With the reserve, if need be, and at once: others want that room, too. */
static int journal_end(struct command *c, err_t **err)
{
	cleanup_err err_t *e = NULL;

	if (steps_end(c->log_fd, &c->st, &c->live->end, &e) == 0 ||
	    (err_code(e) == ERR_NO_SPACE && journal_open_reserve(c->cs->journal) && steps_end(c->log_fd, &c->st, &c->live->end, NULL) == 0))
		return 0;
	return err_move(err, steal_ptr(&e));
}

static void write_end(struct command *c)
{
	struct live *v = c->live;
	cleanup_err err_t *e = NULL;

	FAULT_POINT(command_end_before_row);
	if (journal_end(c, &e) < 0) {
		log_kv(LOG_ERROR, "command_end_not_written", "command", c->node.id, "err", err_message(e), NULL);
		c->st.ended = false;
		loop_timer_set(v->again, END_RETRY_MS);
		return;
	}
	FAULT_POINT(command_end_after_row);
	c->ended = true;
	pump_free(v->pump);   /* what background children write from now on is the agent's to drop */
	v->pump = NULL;
	output_tell(v->o);
	loop_timer_now(v->again);   /* behind the answers that are due now */
}

static void on_again(void *arg)
{
	struct command *c = arg;

	if (c->ended)
		settle(c);
	else
		write_end(c);
}

static void finish(struct command *c, const struct outcome *end)
{
	struct live *v = c->live;

	if (v->ending)
		return;
	if (v->pump)
		pump_take_rest(v->pump);
	output_finish(v->o);
	v->ending = true;
	v->end = *end;
	for (int s = 0; s < 2; s++) {
		v->end.bytes[s] = output_bytes(v->o, (enum output_stream)s);
		v->end.truncated[s] = output_truncated(v->o, (enum output_stream)s);
	}
	write_end(c);
}

static void finish_not_started(struct command *c, enum start_error why)
{
	struct outcome o;

	outcome_not_started(why, &o);
	finish(c, &o);
}

static void finish_lost(struct command *c)
{
	struct outcome o;

	outcome_lost(&o);
	finish(c, &o);
}

static void finish_killed(struct command *c, bool ran)
{
	struct outcome o;

	outcome_killed(c->st.kill, &o);
	if (!ran)
		o.signal = 0;
	finish(c, &o);
}

/* --- output --- */

static void on_grown(void *arg)
{
	struct command *c = arg;
	struct live *v = c->live;
	uint64_t limit = c->cs->limits.output_limit;

	if (limit && !v->over_limit && output_bytes(v->o, OUTPUT_OUT) + output_bytes(v->o, OUTPUT_ERR) > limit) {
		v->over_limit = true;
		(void)command_kill(c, REASON_OUTPUT_LIMIT, NULL);
	}
	output_tell(v->o);
}

static void on_closed(void *arg)
{
	struct command *c = arg;

	pump_free(c->live->pump);
	c->live->pump = NULL;
}

static const struct pump_events pump_events = { on_grown, on_closed };

/* --- the agent's word --- */

static struct exec_ref ref_of(const struct command *c)
{
	return (struct exec_ref){ .exec_id = c->node.id, .pgid = c->st.process_group };
}

/* A control plane may be away without a word: no connection that comes back will tell. One that is not started yet needs no kill. */
static void later(struct command *c, int what)
{
	if (c->live->unsaid != UNSAID_START)
		c->live->unsaid = what;
	if (!c->cs->saying_again)
		loop_timer_set(c->cs->say_again, SAY_AGAIN_MS);
	c->cs->saying_again = true;
}

static int kill_now(struct command *c)
{
	const struct exec_ref x = ref_of(c);
	cleanup_err err_t *e = NULL;

	if (instances_exec_kill(c->cs->instances, c->st.instance, &x, &e) == 0)
		return 0;
	if (err_code(e) == ERR_UNAVAILABLE || err_code(e) == ERR_UNKNOWN)
		later(c, UNSAID_KILL);
	return -1;
}

void command_start(struct command *c)
{
	struct live *v = c->live;
	struct instance *i = c->cs->instances ? instances_find(c->cs->instances, c->st.instance) : NULL;
	cleanup_err err_t *e = NULL;

	if (!i || instance_state(i) != INSTANCE_IS_READY || v->ending)
		return;
	if (c->st.kill != REASON_NONE) {
		finish_killed(c, false);
		return;
	}
	FAULT_POINT(command_hand_before_row);
	if (c->st.handed_ms == 0 && steps_handed(c->log_fd, &c->st, &e) < 0) {
		log_kv(LOG_ERROR, "command_not_journalled", "command", c->node.id, "err", err_message(e), NULL);
		finish_not_started(c, START_EXEC_FAILED);
		return;
	}
	FAULT_POINT(command_hand_after_row);
	FAULT_POINT(command_hand_before_call);
	if (spec_exec(v->spec, c->node.id, c->cs->instances, c->st.stdin_open, &e) == 0) {
		FAULT_POINT(command_hand_after_call);
		return;
	}
	/* It vanished or fell asleep without a word. */
	if (err_code(e) == ERR_NOT_FOUND || err_code(e) == ERR_CONFLICT)
		instances_lookup(c->cs->instances, i);
	if (err_code(e) == ERR_CONFLICT)
		return;   /* sent when the agent's connection is ready */
	if (err_code(e) == ERR_UNAVAILABLE) {
		later(c, UNSAID_START);
		return;
	}
	log_kv(LOG_WARN, "command_refused", "command", c->node.id, "err", err_message(e), NULL);
	finish_not_started(c, err_code(e) == ERR_NOT_FOUND && instances_persistent(c->cs->instances) ? START_SANDBOX_NOT_FOUND : START_EXEC_FAILED);
}

static void push_stdin(struct command *c)
{
	struct live *v = c->live;

	if (feed_push(&v->feed, c->cs->instances, c->st.instance, c->node.id) < 0)
		loop_timer_set(c->cs->feed_again, 100);
}

static void note_start(struct command *c, const struct exec_started *s)
{
	cleanup_err err_t *e = NULL;
	char pg[16];

	if (c->st.started_ms)
		return;
	int64_t now = clock_wall_ms(), at = s->started_wall_ms > 0 && s->started_wall_ms < now ? s->started_wall_ms : now;
	if (steps_started(c->log_fd, &c->st, at, s->pgid, &e) < 0)
		log_kv(LOG_WARN, "command_start_not_journalled", "command", c->node.id, "err", err_message(e), NULL);
	(void)str_fmt(pg, sizeof pg, "%d", s->pgid);
	log_kv(LOG_DEBUG, "command_started", "command", c->node.id, "instance", c->st.instance, "pg", pg, NULL);
	c->report.version = COMMAND_VERSION_STARTED;
	report_later(c->cs->reports, &c->report);
}

void command_started(struct command *c, const struct exec_started *s, int out_fd, int err_fd)
{
	struct live *v = c->live;
	cleanup_err err_t *e = NULL;

	v->told = v->told || s->adopted;
	if (v->pump) {   /* the same pipes again */
		close(out_fd);
		close(err_fd);
	} else {
		v->pump = pump_new(c->cs->loop, v->o, out_fd, err_fd, &pump_events, c, &e);
		if (!v->pump)
			log_kv(LOG_ERROR, "command_output_not_taken", "command", c->node.id, "err", err_message(e), NULL);
	}
	note_start(c, s);
	spec_free(v->spec);
	v->spec = NULL;
	if (s->adopted)
		feed_reconnected(&v->feed, s->stdin_taken);   /* stdin_taken() follows and says how much fits */
	else if (c->st.stdin_open)
		push_stdin(c);
	if (c->st.kill != REASON_NONE)
		(void)kill_now(c);
	output_tell(v->o);
}

static bool is_doomed(const struct command *c)
{
	struct instance *i = instances_find(c->cs->instances, c->st.instance);

	return i && (instance_state(i) == INSTANCE_DESTROYING || instance_state(i) == INSTANCE_IS_GONE);
}

void command_exited(struct command *c, const struct exec_exited *e)
{
	struct outcome o;

	outcome_of_exit(e, c->st.kill, is_doomed(c), c->st.timer, &o);
	finish(c, &o);
}

/* What could not be said while the agent was away, or still telling what it holds. */
static void say_again(struct command *c)
{
	if (c->st.stdin_open)
		push_stdin(c);
	if (c->st.kill != REASON_NONE)
		(void)kill_now(c);
}

void command_say_again(struct command *c)
{
	struct live *v = c->live;
	int unsaid = v->unsaid;

	v->unsaid = UNSAID_NOTHING;
	if (v->ending)
		return;
	if (unsaid == UNSAID_START && v->spec)
		command_start(c);
	else if (unsaid == UNSAID_KILL)
		(void)kill_now(c);
}

void command_connected(struct command *c)
{
	struct live *v = c->live;
	bool told = v->told;

	v->told = false;
	v->unsaid = UNSAID_NOTHING;
	if (v->ending)
		return;
	if (told)
		say_again(c);
	else if (c->st.started_ms)
		finish_lost(c);   /* it knew it once and does not any more */
	else if (v->spec)
		command_start(c);
	else
		finish_not_started(c, START_EXECUTOR_RESTARTED);
}

void command_instance_over(struct command *c, enum instance_state s)
{
	struct live *v = c->live;
	bool ran = c->st.started_ms != 0;

	if (v->ending)
		return;
	if (s == INSTANCE_IS_GONE || c->st.kill != REASON_NONE)
		finish_killed(c, ran);
	else if (c->st.handed_ms)
		finish_lost(c);
	else if (s == INSTANCE_IS_LOST && instances_persistent(c->cs->instances))
		finish_not_started(c, START_SANDBOX_NOT_FOUND);
	else
		finish_not_started(c, START_INSTANCE_FAILED);
}

void command_instance_paused(struct command *c)
{
	if (c->live->ending)
		return;
	if (c->st.handed_ms)
		command_instance_over(c, INSTANCE_IS_PAUSED);
	else if (!c->live->spec)
		finish_not_started(c, START_EXECUTOR_RESTARTED);
}

void command_wake_failed(struct command *c)
{
	if (!c->live->ending && c->st.handed_ms == 0)
		finish_not_started(c, START_WAKE_FAILED);
}

int command_kill(struct command *c, enum reason why, err_t **err)
{
	if (c->st.kill == REASON_NONE && steps_kill(c->log_fd, &c->st, why, err) < 0)
		c->st.kill = why;   /* not on disk: only a restart before the end would forget it */
	if (c->st.handed_ms == 0) {
		finish_killed(c, false);
		return 0;
	}
	if (kill_now(c) < 0)
		log_kv(LOG_INFO, "command_kill_waits", "command", c->node.id, NULL);
	return 0;
}

int command_signal(struct command *c, int signo, err_t **err)
{
	struct live *v = c->live;

	if (!c->st.started_ms || v->ending)
		return err_set(err, ERR_CONFLICT, "not_running", "the command is not running");
	const struct exec_ref x = ref_of(c);

	return instances_exec_signal(c->cs->instances, c->st.instance, &x, signo, err);
}
