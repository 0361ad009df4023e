/* db_array.h - parameters that are arrays: bytea[] in PostgreSQL's binary form. */
#ifndef PADDOCK_DB_DB_ARRAY_H
#define PADDOCK_DB_DB_ARRAY_H

#include <stddef.h>

#include "base/buf.h"

/* A bytea[] of at most cap bytes in all. Begin, then one add for each element (p NULL: SQL NULL), then hand b->data, b->len to db_add_bytes.
 * Failures stay in b (buf_failed). */
void db_array_begin(struct buf *b, size_t cap, size_t elements);
void db_array_add(struct buf *b, const void *p, size_t n);

#endif
