/* http_wire.h - HTTP/1.1 as the blocking client speaks it: the head of a request, an answer taken apart as it comes. */
#ifndef PADDOCK_CORE_HTTP_WIRE_H
#define PADDOCK_CORE_HTTP_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/http_client.h"

#define HTTP_WIRE_HEAD_MAX 16384

/* Nothing that could end the request line or a header may come from outside. */
bool http_wire_safe(const char *s);
/* -1: malformed path, or no memory. */
int http_wire_head(struct buf *b, const struct http_req *r);

enum http_wire_step { HTTP_WIRE_HEAD, HTTP_WIRE_LENGTH, HTTP_WIRE_CHUNK_SIZE, HTTP_WIRE_CHUNK, HTTP_WIRE_CHUNK_END, HTTP_WIRE_TRAILER, HTTP_WIRE_TO_END, HTTP_WIRE_DONE };

struct http_wire {
	struct buf in;       /* what has come and is not taken: the reader appends */
	struct buf body;
	int status;
	bool keep;           /* the connection may be used again */
	enum http_wire_step step;
	uint64_t left;       /* of the body or its chunk */
};

void http_wire_init(struct http_wire *w, size_t max_answer);
void http_wire_free(struct http_wire *w);
/* Takes what has come. 1: the answer is complete; 0: more has to come; -1: malformed or, with *ret_large, larger than asked for. */
int http_wire_take(struct http_wire *w, bool *ret_large);
/* The connection has ended. Whether the answer is complete thereby. */
bool http_wire_ended(struct http_wire *w);

#endif
