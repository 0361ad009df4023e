/* output.h - what one command wrote: two files, the index over both, and what of it is kept.
 *
 * The only way in is output_take(): splice from the pipe to the file, so that a byte is in the pipe or in the journal whenever we die. Every
 * reader reads the same files. Of each stream the first `head` and the last `tail` bytes are kept (rounded up by one OUTPUT_HOLE_STEP); the hole between
 * them is a function of the size alone, so recovery needs no record of it. When the journal cannot take more (no space, index full)
 * the rest is drained and counted. Reference-counted: the command's pump and each reader hold one. Never blocks but for the disk. */
#ifndef PADDOCK_EXECUTOR_OUTPUT_H
#define PADDOCK_EXECUTOR_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "executor/watch.h"

#define OUTPUT_HOLE_STEP (1u << 20)

enum output_stream { OUTPUT_OUT, OUTPUT_ERR };

struct output_caps {
	uint64_t head, tail;      /* bytes kept of each stream */
	uint64_t index_records;
};

struct output;

/* Opens the files dirfd/name.{out,err,idx}, as far as there are any, and takes up unindexed tails. `totals` (bytes written, by stream): the command has ended,
 * nothing will be added, and the held-back beginning of a character counts too. NULL: files are made when the first byte comes; dirfd
 * must then stay open. The first reference is the caller's. */
struct output *output_open(int dirfd, const char *name, const struct output_caps *caps, const uint64_t totals[2], err_t **err);
/* The same where there are no files: a new command, or one that wrote nothing. */
struct output *output_new(int dirfd, const char *name, const struct output_caps *caps, err_t **err);
struct output *output_ref(struct output *o);
void output_unref(struct output *o);   /* NULL is fine */

/* One splice of at most max bytes. Bytes taken (kept or dropped); 0 at the end of the pipe; -1 when there is nothing now. */
ssize_t output_take(struct output *o, enum output_stream s, int pipe_fd, size_t max);
/* Nothing more will be added: indexes what was held back. Idempotent. */
void output_finish(struct output *o);
void output_tell(struct output *o);   /* calls the watches */
struct list *output_watches(struct output *o);

bool output_finished(const struct output *o);
uint64_t output_end(const struct output *o);                          /* merged position after the last readable byte */
uint64_t output_bytes(const struct output *o, enum output_stream s);  /* all that was written */
uint64_t output_size(const struct output *o, enum output_stream s);   /* bytes that went to the file, hole included */
bool output_truncated(const struct output *o, enum output_stream s);
/* The hole [*from, *to) of the stream; false when there is none. */
bool output_hole(const struct output *o, enum output_stream s, uint64_t *from, uint64_t *to);
ssize_t output_read(const struct output *o, enum output_stream s, uint64_t off, void *p, size_t n);

/* What comes at merged position pos. NONE: nothing yet, or (finished) nothing more. DATA: [pos, to) is at `off` of `stream` and kept; a
 * record's end when `whole`, so that a cut elsewhere must look for a character's boundary. GAP: [pos, to) is not kept. */
enum output_what { OUTPUT_NONE, OUTPUT_DATA, OUTPUT_GAP };
struct output_piece {
	enum output_what what;
	enum output_stream stream;
	uint64_t to, off;
};
void output_piece_at(const struct output *o, uint64_t pos, uint64_t *hint, struct output_piece *ret);

#endif
