#include "executor/event.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "core/crypto.h"
#include "core/json.h"

/* --- SSE --- */

static void sse_begin(struct buf *b, const char *type, bool has_seq, uint64_t seq)
{
	buf_addf(b, "event: %s\n", type);
	if (has_seq)
		buf_addf(b, "id: %" PRIu64 "\n", seq);
	buf_adds(b, "data: {");
}

static void sse_end(struct buf *b)
{
	buf_adds(b, "}\n\n");
}

const struct event_format event_sse = { "sse", "text/event-stream", ":\n\n", sse_begin, sse_end };

/* --- NDJSON --- */

static void ndjson_begin(struct buf *b, const char *type, bool has_seq, uint64_t seq)
{
	(void)has_seq;
	(void)seq;
	buf_addf(b, "{\"type\":\"%s\",", type);
}

static void ndjson_end(struct buf *b)
{
	buf_adds(b, "}\n");
}

const struct event_format event_ndjson = { "ndjson", "application/x-ndjson", "\n", ndjson_begin, ndjson_end };

/* --- pieces --- */

/* What json_quote makes of one byte at most; U+2028 and U+2029 (three bytes from E2) become six, which is less than 4 + 1 + 1. */
static size_t quoted_size(unsigned char c)
{
	if (c < 0x20 || c == 0x7f)
		return 6;
	if (c == '"' || c == '\\')
		return 2;
	return c == 0xe2 ? 4 : 1;
}

size_t event_fit(const void *p, size_t n)
{
	const unsigned char *c = p;
	size_t used = 0, i;

	if (n <= EVENT_MAX / 6)
		return n;
	for (i = 0; i < n;) {
		size_t plain = c[i] < 0x80 ? json_plain(c + i, n - i) : 0;

		if (plain > EVENT_MAX - used)
			return i + (EVENT_MAX - used);
		i += plain;
		used += plain;
		if (i == n)
			break;
		used += quoted_size(c[i]);
		if (used > EVENT_MAX)
			return i - utf8_partial_tail(p, i);
		i++;
	}
	return n;
}

void event_start(struct buf *b, const struct event_format *f, const char *command_id, const char *run_id, int64_t timeout_ms)
{
	f->begin(b, "start", false, 0);
	buf_addf(b, "\"command_id\":\"%s\",\"run_id\":", command_id);
	if (*run_id)
		json_quote(b, run_id, strlen(run_id));
	else
		buf_adds(b, "null");
	buf_addf(b, ",\"timeout_ms\":%" PRId64, timeout_ms);
	f->end(b);
}

static void add_base64(struct buf *b, const void *p, size_t n)
{
	size_t len = 0;
	char *text = crypto_base64(p, n, &len);

	if (!text) {
		b->failed = true;
		return;
	}
	buf_adds(b, "\"base64\":\"");
	buf_add(b, text, len);
	buf_addc(b, '"');
	free(text);
}

void event_output(struct buf *b, const struct event_format *f, const char *type, uint64_t seq, const void *p, size_t n, bool base64)
{
	f->begin(b, type, true, seq);
	buf_addf(b, "\"seq\":%" PRIu64 ",", seq);
	if (base64 || !utf8_valid(p, n)) {
		add_base64(b, p, n);
	} else {
		buf_adds(b, "\"text\":");
		json_quote(b, p, n);
	}
	f->end(b);
}

void event_gap(struct buf *b, const struct event_format *f, uint64_t from, uint64_t to)
{
	f->begin(b, "gap", true, to);
	buf_addf(b, "\"from\":%" PRIu64 ",\"to\":%" PRIu64 ",\"seq\":%" PRIu64, from, to, to);
	f->end(b);
}

void event_exit(struct buf *b, const struct event_format *f, uint64_t seq, const char *members, size_t n)
{
	f->begin(b, "exit", true, seq);
	buf_add(b, members, n);
	f->end(b);
}
