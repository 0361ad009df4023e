/* event.h - the events of a command's stream in their two dresses, SSE and NDJSON. Pure functions over bytes.
 *
 * Each appends to b and leaves success to buf_failed(). A piece takes at most EVENT_MAX bytes: event_fit() says how much of it fits. */
#ifndef PADDOCK_EXECUTOR_EVENT_H
#define PADDOCK_EXECUTOR_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define EVENT_MAX (64u << 10)

struct event_format {
	const char *name;           /* as in a view: "sse", "ndjson" */
	const char *content_type;
	const char *heartbeat;
	/* Opens an event; `seq` is the cursor behind it, shown where the format has a place for it; has_seq false: none. What follows are the
	 * members of a JSON object without braces. */
	void (*begin)(struct buf *b, const char *type, bool has_seq, uint64_t seq);
	void (*end)(struct buf *b);
};

extern const struct event_format event_sse, event_ndjson;

/* How many of the n bytes of valid UTF-8 at p can be quoted within EVENT_MAX; at a character's boundary, at least one character. */
size_t event_fit(const void *p, size_t n);

/* run_id "" is shown as null. */
void event_start(struct buf *b, const struct event_format *f, const char *command_id, const char *run_id, int64_t timeout_ms);
/* Text when the piece is UTF-8 and base64 is not asked for, else base64. type: "stdout" or "stderr". */
void event_output(struct buf *b, const struct event_format *f, const char *type, uint64_t seq, const void *p, size_t n, bool base64);
void event_gap(struct buf *b, const struct event_format *f, uint64_t from, uint64_t to);
/* members: the Command's members without braces. seq: the end of the stream. */
void event_exit(struct buf *b, const struct event_format *f, uint64_t seq, const char *members, size_t n);

#endif
