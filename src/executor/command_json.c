#include "executor/command_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "core/crypto.h"
#include "core/json.h"

static void add_time(struct buf *b, const char *key, int64_t wall_ms)
{
	char t[CLOCK_RFC3339_SIZE];

	if (wall_ms == 0) {
		buf_addf(b, ",\"%s\":null", key);
		return;
	}
	clock_rfc3339(wall_ms, t);
	buf_addf(b, ",\"%s\":\"%s\"", key, t);
}

static void add_number(struct buf *b, const char *key, bool has, int64_t v)
{
	if (has)
		buf_addf(b, ",\"%s\":%" PRId64, key, v);
	else
		buf_addf(b, ",\"%s\":null", key);
}

static const char *status_of(const struct steps *s)
{
	if (!s->ended)
		return s->started_ms ? "running" : "pending";
	return s->end.reason == REASON_LOST ? "lost" : "exited";
}

static void add_end(struct buf *b, const struct steps *s)
{
	const struct outcome *o = &s->end;

	buf_addf(b, "\"status\":\"%s\",\"reason\":", status_of(s));
	if (s->ended)
		buf_addf(b, "\"%s\"", reason_name(o->reason));
	else
		buf_adds(b, "null");
	buf_adds(b, ",\"timeout\":");
	if (s->ended && o->timer != TIMER_NONE)
		buf_addf(b, "\"%s\"", timer_name(o->timer));
	else
		buf_adds(b, "null");
	add_number(b, "exit_code", s->ended && o->exit_code >= 0, o->exit_code);
	add_number(b, "signal", s->ended && o->signal > 0, o->signal);
	add_number(b, "process_group", s->process_group > 0, s->process_group);
	add_time(b, "started_at", s->started_ms);
	add_time(b, "ended_at", s->ended ? o->ended_ms : 0);
	add_number(b, "duration_ms", s->ended && s->started_ms, o->ended_ms > s->started_ms ? o->ended_ms - s->started_ms : 0);
}

static void add_counts(struct buf *b, const struct outcome *o)
{
	static const char *const names[] = { "stdout", "stderr" };

	for (int i = 0; i < 2; i++)
		buf_addf(b, ",\"%s_bytes\":%" PRIu64, names[i], o->bytes[i]);
	for (int i = 0; i < 2; i++)
		buf_addf(b, ",\"%s_truncated\":%s", names[i], o->truncated[i] ? "true" : "false");
}

static void add_error(struct buf *b, const struct steps *s)
{
	if (!s->ended || s->end.error == START_OK)
		buf_adds(b, ",\"error\":null");
	else
		buf_addf(b, ",\"error\":{\"code\":\"%s\",\"message\":\"%s\"}", start_error_code(s->end.error),
			start_error_message(s->end.error));
}

/* --- texts --- */

/* Where the text of a stream comes from: [0, head) and [tail, size). */
struct cut {
	uint64_t head, tail, size;
};

static struct cut cut_of(const struct output *o, enum output_stream s, size_t text_bytes)
{
	uint64_t size = output_size(o, s), from, to, head, tail;

	if (!output_hole(o, s, &from, &to))
		from = to = size;
	if (from + (size - to) <= text_bytes)
		return (struct cut){ from, to, size };
	head = from < text_bytes - text_bytes / 2 ? from : text_bytes - text_bytes / 2;
	tail = text_bytes - head;
	if (to < size && tail > size - to)
		tail = size - to;
	return (struct cut){ head, size - tail, size };
}

static size_t read_part(const struct output *o, enum output_stream s, uint64_t from, uint64_t to, char *dst)
{
	size_t n = 0;

	while (from + n < to) {
		ssize_t got = output_read(o, s, from + n, dst + n, (size_t)(to - from) - n);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return n;
}

/* The kept text: a cut loses the halves of a character on both of its sides. */
static char *text_of(const struct output *o, enum output_stream s, size_t text_bytes, size_t *ret_len, bool *ret_cut)
{
	struct cut c = cut_of(o, s, text_bytes);
	char *text = malloc((size_t)(c.head + (c.size - c.tail)) + 1);
	size_t head, tail, skip = 0;

	if (!text)
		return NULL;
	*ret_cut = c.tail > c.head;
	head = read_part(o, s, 0, c.head, text);
	if (*ret_cut)
		head -= utf8_partial_tail(text, head);
	tail = read_part(o, s, c.tail, c.size, text + head);
	if (*ret_cut)
		skip = utf8_partial_head(text + head, tail);
	memmove(text + head, text + head + skip, tail - skip);
	*ret_len = head + tail - skip;
	return text;
}

static int add_text(struct buf *b, const char *name, const char *text, size_t n)
{
	cleanup_free char *b64 = NULL;
	size_t len = 0;
	bool utf8 = utf8_valid(text, n);

	buf_addf(b, ",\"%s\":", name);
	if (utf8) {
		json_quote(b, text, n);
	} else {
		b64 = crypto_base64(text, n, &len);
		if (!b64)
			return -1;
		buf_addc(b, '"');
		buf_add(b, b64, len);
		buf_addc(b, '"');
	}
	buf_addf(b, ",\"%s_encoding\":\"%s\"", name, utf8 ? "utf-8" : "base64");
	return 0;
}

static int add_texts(struct buf *b, const struct output *o, size_t text_bytes, struct outcome *counts)
{
	static const char *const names[] = { "stdout", "stderr" };

	for (int i = 0; i < 2; i++) {
		size_t n = 0;
		bool cut = false;
		cleanup_free char *text = text_of(o, (enum output_stream)i, text_bytes, &n, &cut);

		if (!text || add_text(b, names[i], text, n) < 0)
			return -1;
		counts->truncated[i] = counts->truncated[i] || cut;
	}
	return 0;
}

int command_members(struct buf *b, const struct steps *s, const char *record, const struct output *o, size_t text_bytes, err_t **err)
{
	struct outcome counts = s->end;
	size_t n = strlen(record);

	if (n > 2) {
		buf_add(b, record + 1, n - 2);
		buf_addc(b, ',');
	}
	add_end(b, s);
	if (o && add_texts(b, o, text_bytes, &counts) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "command's output");
	add_counts(b, &counts);
	add_error(b, s);
	return buf_failed(b) ? err_set(err, ERR_NO_MEMORY, NULL, "command's answer") : 0;
}
