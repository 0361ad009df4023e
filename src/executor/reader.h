/* reader.h - a cursor over a command's merged output: whole characters, at most READER_PIECE bytes a piece, gaps where bytes are not kept.
 *
 * Holds a reference to the output and no bytes: a piece lies in one static buffer of the process until the next call. */
#ifndef PADDOCK_EXECUTOR_READER_H
#define PADDOCK_EXECUTOR_READER_H

#include <stdint.h>

#include "executor/output.h"

#define READER_PIECE (32u << 10)

struct reader {
	struct output *o;
	uint64_t pos, hint;
};

enum reader_got { READER_NOTHING_YET, READER_DATA, READER_GAP, READER_END };

struct reader_piece {
	enum output_stream stream;
	uint64_t from, to;          /* merged positions */
	const uint8_t *data;        /* DATA: to - from bytes */
	size_t len;
};

void reader_init(struct reader *r, struct output *o, uint64_t from);   /* takes a reference of its own */
void reader_close(struct reader *r);
/* The next piece, of at most max (<= READER_PIECE, >= 8) bytes; moves on. */
enum reader_got reader_next(struct reader *r, size_t max, struct reader_piece *ret);

#endif
