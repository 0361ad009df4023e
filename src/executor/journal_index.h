/* journal_index.h - the order of arrival of one command's output: records over its two files.
 *
 * A record says: the bytes [off, off+len) of a stream are the bytes [seq, seq+len) of the merged order. Neighbours of the same stream are
 * one record, so streams alternate; the last record grows in memory and is written when the stream changes or the command ends, never
 * per chunk: what the file lacks is found again from the sizes of the two files (docs/journal.md). A record is 32 bytes, never crosses a
 * page, and carries a check value, so that a torn one is recognised.
 * The kind INDEX_DROPPED ends an index: len bytes of both streams were counted but not kept, off of them on standard output. */
#ifndef PADDOCK_EXECUTOR_JOURNAL_INDEX_H
#define PADDOCK_EXECUTOR_JOURNAL_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#define INDEX_RECORD_SIZE 32

enum index_kind { INDEX_OUT, INDEX_ERR, INDEX_DROPPED };

struct index_record {
	uint64_t seq, off, len;
	uint32_t kind;
};

struct journal_index {
	int fd;                    /* -1: no file yet */
	uint64_t n;                /* records in the file before `last` */
	struct index_record last;
	bool have_last;
	bool dirty;                /* `last` differs from the file */
	bool frozen;               /* the file cannot be written: one more record than it has is kept in `before` */
	struct index_record before;
	bool have_before;
};

void index_init(struct journal_index *x);
/* Takes up what the open file holds; torn records at its end are ignored. covered[k]: bytes of stream k that records cover. */
void index_load(struct journal_index *x, int fd, uint64_t covered[2]);
uint64_t index_end(const struct journal_index *x);   /* the merged position after the last byte */
uint64_t index_count(const struct journal_index *x);
/* len bytes more of a stream, the first at off. A new record is begun only when the last one is in the file (index_flush) or
 * the index is frozen: else -1. */
int index_add(struct journal_index *x, enum index_kind kind, uint64_t off, uint64_t len);
/* Counts bytes that are not kept; begins the INDEX_DROPPED record when there is none yet (same rule as index_add). */
int index_drop(struct journal_index *x, uint64_t out_bytes, uint64_t err_bytes);
int index_flush(struct journal_index *x);            /* writes `last`; 0 or -1 with errno */
/* The record that holds merged position pos, or -1 when there is none. *hint (record number of the last answer) makes a reader that goes on cheap. */
int index_find(const struct journal_index *x, uint64_t pos, uint64_t *hint, struct index_record *ret);

/* The codec: pure functions. */
void index_encode(const struct index_record *r, uint8_t dst[INDEX_RECORD_SIZE]);
int index_decode(const uint8_t src[INDEX_RECORD_SIZE], struct index_record *ret);   /* -1: torn or not a record */

#endif
