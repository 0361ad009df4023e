/* view_events.c - sse and ndjson: start, output, gaps, exit, from a cursor. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"
#include "executor/event.h"
#include "executor/executor.h"
#include "executor/reader.h"
#include "executor/view.h"

#define HEARTBEAT_MS 15000
#define FILL_BYTES (32u << 10)                  /* events are made until they are that much */
#define OUT_MAX (EVENT_MAX * 3 + (4u << 20))   /* an event, or an exit whose record has a long command text */

struct events {
	struct executor *x;
	struct request *r;
	char cid[ID_SIZE];
	const struct event_format *f;
	bool base64, started, over;
	struct reader reader;
	struct watch watch;
	struct buf out;            /* what of the last events is not sent yet */
	size_t sent;
	int64_t last_ms;           /* when something was sent */
};

static void on_change(struct watch *w)
{
	request_wake(list_entry(w, struct events, watch)->r);
}

static void events_free(void *state)
{
	struct events *s = state;

	list_del(&s->watch.node);
	reader_close(&s->reader);
	buf_free(&s->out);
	view_open_streams--;
	free(s);
}

/* False while the command has not begun. One that never began has no start event. */
static bool start(struct events *s)
{
	struct steps st;

	if (commands_phase(s->x->commands, s->cid) == COMMAND_PENDING)
		return false;
	if (s->reader.pos == 0 && commands_facts(s->x->commands, s->cid, &st, NULL, NULL) == 0 && st.started_ms)
		event_start(&s->out, s->f, s->cid, st.run_id, st.timeout_ms);
	s->started = true;
	return true;
}

static void output(struct events *s, const struct reader_piece *p)
{
	event_output(&s->out, s->f, p->stream == OUTPUT_OUT ? "stdout" : "stderr", p->to, p->data, p->len, s->base64);
}

/* A piece full of characters that JSON must escape is told in parts, so that no event is larger than EVENT_MAX. */
static void output_in_parts(struct events *s, struct reader_piece *p)
{
	size_t fit = event_fit(p->data, p->len);

	if (fit > 0 && fit < p->len) {
		p->len = fit;
		p->to = p->from + fit;
		s->reader.pos = p->to;
	}
	output(s, p);
}

static void finish(struct events *s)
{
	struct buf members = BUF_INIT(OUT_MAX);
	cleanup_err err_t *e = NULL;

	s->over = true;
	if (executor_command_members(s->x, s->cid, false, &members, &e) < 0)
		log_kv(LOG_WARN, "stream_without_exit", "command", s->cid, "err", err_message(e), NULL);
	else
		event_exit(&s->out, s->f, s->reader.pos, buf_str(&members), members.len);
	buf_free(&members);
}

/* Appends the next event to s->out. False when there is none now. */
static bool next(struct events *s)
{
	struct reader_piece p;

	if (!s->started)
		return start(s);
	switch (reader_next(&s->reader, READER_PIECE, &p)) {
	case READER_DATA:
		output_in_parts(s, &p);
		return true;
	case READER_GAP:
		event_gap(&s->out, s->f, p.from, p.to);
		return true;
	case READER_END:
		if (commands_phase(s->x->commands, s->cid) != COMMAND_ENDED)
			return false;   /* the end is not in the journal yet */
		finish(s);
		return true;
	case READER_NOTHING_YET:
		break;
	}
	return false;
}

static void fill(struct events *s)
{
	buf_reset(&s->out);
	s->sent = 0;
	while (!s->over && s->out.len < FILL_BYTES && next(s) && !buf_failed(&s->out))
		;
	if (s->out.len == 0 && !s->over && clock_boot_ms() - s->last_ms >= HEARTBEAT_MS)
		buf_adds(&s->out, s->f->heartbeat);
}

static ssize_t events_read(struct request *r, size_t max, const char **ret)
{
	struct events *s = request_state(r);
	int64_t quiet;
	size_t n;

	if (s->sent == s->out.len)
		fill(s);
	if (buf_failed(&s->out))
		return HTTP_STREAM_BROKEN;
	n = s->out.len - s->sent;
	if (n == 0) {
		buf_free(&s->out);   /* an idle stream holds no buffer */
		quiet = clock_boot_ms() - s->last_ms;
		http_stream_idle(r, quiet < HEARTBEAT_MS ? HEARTBEAT_MS - quiet : 0);   /* less than 0 would be for ever */
		return s->over ? HTTP_STREAM_END : 0;
	}
	if (n > max)
		n = max;
	*ret = s->out.data + s->sent;
	s->sent += n;
	s->last_ms = clock_boot_ms();
	return (ssize_t)n;
}

static void events_back(struct request *r, size_t n)
{
	struct events *s = request_state(r);

	s->sent -= n;
}

static const struct http_source events_source = { events_read, events_back };

/* The cursor: what a browser that reconnects sends, else the view's. */
static uint64_t cursor(struct request *r, const struct view_spec *v)
{
	const char *last = request_header(r, "Last-Event-ID");
	uint64_t from = v->from;

	if (last && *last)
		(void)num_u64(last, INT64_MAX, &from);
	return from;
}

void view_events_open(struct executor *x, struct request *r, const char *cid, const struct view_spec *v)
{
	struct output *o;
	struct events *s = view_begin(x, r, cid, sizeof *s, &o);
	uint64_t from = cursor(r, v);

	if (!s)
		return;
	if (from > output_bytes(o, OUTPUT_OUT) + output_bytes(o, OUTPUT_ERR)) {
		http_answer_problem(r, 400, "bad_cursor", "the cursor lies behind what has been written");
		output_unref(o);
		free(s);
		return;
	}
	*s = (struct events){ .x = x, .r = r, .base64 = v->base64, .last_ms = clock_boot_ms() };
	(void)str_copy(s->cid, sizeof s->cid, cid);
	s->f = str_eq(v->kind->name, event_sse.name) ? &event_sse : &event_ndjson;
	buf_init(&s->out, OUT_MAX);
	reader_init(&s->reader, o, from);
	output_unref(o);
	watch_init(&s->watch, on_change);
	list_add_tail(output_watches(s->reader.o), &s->watch.node);
	view_open_streams++;
	request_set_state(r, s, events_free);
	http_header(r, "X-Accel-Buffering", "no");
	http_stream(r, 200, s->f->content_type, HTTP_UNSIZED, &events_source);
}
