/* view.h - the ways to look at a command: result, sse, ndjson, stdout, stderr. One table; routes and tickets name its rows. */
#ifndef PADDOCK_EXECUTOR_VIEW_H
#define PADDOCK_EXECUTOR_VIEW_H

#include "executor/spec.h"

struct executor;
struct output;
struct request;

struct view_kind {
	const char *name;
	void (*open)(struct executor *x, struct request *r, const char *cid, const struct view_spec *v);
};

const struct view_kind *view_find(const char *name);   /* NULL when there is none */
unsigned view_readers(void);                           /* open streams, for /metrics */

/* The rows' functions. */
void view_result_open(struct executor *x, struct request *r, const char *cid, const struct view_spec *v);
void view_events_open(struct executor *x, struct request *r, const char *cid, const struct view_spec *v);
void view_raw_open(struct executor *x, struct request *r, const char *cid, const struct view_spec *v);

/* For them: a zeroed state of so many bytes (free() it) and, in *ret, a reference to the command's output; the headers of every view are set.
 * NULL: the request has been answered with the reason. */
void *view_begin(struct executor *x, struct request *r, const char *cid, size_t size, struct output **ret);
/* Counts a stream in and out. */
extern unsigned view_open_streams;

#endif
