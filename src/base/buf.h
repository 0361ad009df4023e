/* buf.h - a growable byte buffer with a hard cap given at birth.
 *
 * Appends return 0, or -1 when the cap would be passed or memory is out; the buffer is then marked failed and stays
 * as it was, later appends fail too, so that a chain of appends needs one check at its end (buf_failed). Never blocks. */
#ifndef PADDOCK_BASE_BUF_H
#define PADDOCK_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data;  /* always NUL-terminated when not NULL; the NUL is not counted */
	size_t len;
	size_t alloc;
	size_t cap;
	bool failed;
};

#define BUF_INIT(cap_bytes) { .cap = (cap_bytes) }

void buf_init(struct buf *b, size_t cap);
void buf_free(struct buf *b);           /* frees the bytes; the struct may be used again with the same cap */
void buf_reset(struct buf *b);          /* length 0, failed cleared, memory kept */
int buf_reserve(struct buf *b, size_t extra);
int buf_add(struct buf *b, const void *p, size_t n);
int buf_adds(struct buf *b, const char *s);
int buf_addc(struct buf *b, char c);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_add_u16(struct buf *b, uint16_t v);   /* little endian, as all wire formats here */
int buf_add_u32(struct buf *b, uint32_t v);
int buf_add_u64(struct buf *b, uint64_t v);
void buf_consume(struct buf *b, size_t n);    /* drops n bytes (at most len) at the front */
static inline bool buf_failed(const struct buf *b) { return b->failed; }
const char *buf_str(const struct buf *b);     /* "" when empty */
char *buf_steal(struct buf *b);               /* the malloc'ed, NUL-terminated bytes; buffer is empty after; NULL when failed or out of memory */

static inline void cleanup_buf_(struct buf *b) { buf_free(b); }
#define cleanup_buf __attribute__((__cleanup__(cleanup_buf_)))

#endif
