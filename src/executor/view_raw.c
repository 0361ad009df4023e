/* view_raw.c - stdout and stderr as bytes: a file with ranges when the command has ended, else what comes until its end. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "executor/executor.h"
#include "executor/range.h"
#include "executor/view.h"

#define RAW_TYPE "application/octet-stream"
#define PIECE_BYTES (128u << 10)

struct raw {
	struct executor *x;
	struct request *r;
	char cid[ID_SIZE];
	struct output *o;
	enum output_stream stream;
	uint64_t pos;          /* in the stream as it was written */
	uint64_t left;         /* bytes of the answer that are still to come; UINT64_MAX: until the end */
	bool cut_told;         /* the headers said that bytes are missing */
	bool skipped;
	struct watch watch;
};

static void on_change(struct watch *w)
{
	request_wake(list_entry(w, struct raw, watch)->r);
}

static void raw_free(void *state)
{
	struct raw *s = state;

	list_del(&s->watch.node);
	output_unref(s->o);
	view_open_streams--;
	free(s);
}

/* Bytes that may be read in one go at pos; steps over the hole. */
static uint64_t stretch(struct raw *s)
{
	uint64_t from, to, size = output_size(s->o, s->stream);
	bool hole = output_hole(s->o, s->stream, &from, &to);

	if (hole && s->pos >= from && s->pos < to) {
		s->pos = to;
		s->skipped = true;
	}
	if (s->pos >= size)
		return 0;
	return (hole && s->pos < from ? from : size) - s->pos;
}

static ssize_t at_end(struct raw *s)
{
	if (!output_finished(s->o) || commands_phase(s->x->commands, s->cid) != COMMAND_ENDED)
		return 0;
	/* What could not be kept after the headers had gone must not look like a whole answer. */
	return (s->skipped || output_truncated(s->o, s->stream)) && !s->cut_told ? HTTP_STREAM_BROKEN : HTTP_STREAM_END;
}

static ssize_t raw_read(struct request *r, size_t max, const char **ret)
{
	static char piece[PIECE_BYTES];
	struct raw *s = request_state(r);
	uint64_t n = stretch(s);
	ssize_t got;

	if (n == 0 || s->left == 0)
		return s->left == 0 ? HTTP_STREAM_END : at_end(s);
	if (max > sizeof piece)
		max = sizeof piece;
	if (n > max)
		n = max;
	if (n > s->left)
		n = s->left;
	got = output_read(s->o, s->stream, s->pos, piece, (size_t)n);
	if (got <= 0)
		return HTTP_STREAM_BROKEN;
	*ret = piece;
	s->pos += (uint64_t)got;
	if (s->left != UINT64_MAX)
		s->left -= (uint64_t)got;
	return got;
}

/* They are read again from the journal: if they are no longer kept then, from behind the hole. */
static void raw_back(struct request *r, size_t n)
{
	struct raw *s = request_state(r);

	s->pos -= n;
	if (s->left != UINT64_MAX)
		s->left += n;
}

static const struct http_source raw_source = { raw_read, raw_back };

/* Kept bytes from position `from` of the stream on. */
static uint64_t kept_from(const struct output *o, enum output_stream stream, uint64_t pos)
{
	uint64_t from, to, size = output_size(o, stream);

	if (pos >= size)
		return 0;
	if (!output_hole(o, stream, &from, &to) || pos >= to)
		return size - pos;
	return (size - to) + (pos < from ? from - pos : 0);
}

/* The position in the stream of the n-th kept byte behind pos. */
static uint64_t kept_at(const struct output *o, enum output_stream stream, uint64_t pos, uint64_t n)
{
	uint64_t from, to;

	if (!output_hole(o, stream, &from, &to) || pos >= to)
		return pos + n;
	if (pos < from && n < from - pos)
		return pos + n;
	return to + n - (pos < from ? from - pos : 0);
}

static void stream_it(struct raw *s, int status, uint64_t length)
{
	struct request *r = s->r;

	s->left = length;
	watch_init(&s->watch, on_change);
	list_add_tail(output_watches(s->o), &s->watch.node);
	request_set_state(r, s, raw_free);
	view_open_streams++;
	http_stream(r, status, RAW_TYPE, length, &raw_source);
}

/* A command that has ended: a known length, ranges over what is kept. */
static void answer_ended(struct raw *s)
{
	struct request *r = s->r;
	uint64_t kept = kept_from(s->o, s->stream, s->pos), at = 0, length = kept;
	enum range_kind kind = range_parse(request_header(r, "Range"), kept, &at, &length);
	struct buf empty = BUF_INIT(1);
	char text[72];

	http_header(r, "Accept-Ranges", "bytes");
	if (kind == RANGE_UNSATISFIABLE) {
		(void)str_fmt(text, sizeof text, "bytes */%" PRIu64, kept);
		http_header(r, "Content-Range", text);
		http_answer_problem(r, 416, "range_not_satisfiable", "the range lies behind the end");
	} else if (kind == RANGE_PART) {
		(void)str_fmt(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, at, at + length - 1, kept);
		http_header(r, "Content-Range", text);
	}
	if (kind != RANGE_UNSATISFIABLE && length > 0) {
		s->pos = kept_at(s->o, s->stream, s->pos, at);
		stream_it(s, kind == RANGE_PART ? 206 : 200, length);
		return;
	}
	if (kind != RANGE_UNSATISFIABLE)
		http_answer_buf(r, 200, RAW_TYPE, &empty);
	output_unref(s->o);
	free(s);
}

void view_raw_open(struct executor *x, struct request *r, const char *cid, const struct view_spec *v)
{
	struct output *o;
	struct raw *s = view_begin(x, r, cid, sizeof *s, &o);

	if (!s)
		return;
	*s = (struct raw){ .x = x, .r = r, .o = o, .pos = v->from };
	(void)str_copy(s->cid, sizeof s->cid, cid);
	s->stream = str_eq(v->kind->name, "stdout") ? OUTPUT_OUT : OUTPUT_ERR;
	s->cut_told = output_truncated(o, s->stream);
	if (s->cut_told)
		http_header(r, "X-Paddock-Truncated", "1");
	if (commands_phase(x->commands, cid) == COMMAND_ENDED)
		answer_ended(s);
	else
		stream_it(s, 200, HTTP_UNSIZED);
}
