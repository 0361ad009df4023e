#include "db/db_array.h"

#include <arpa/inet.h>

#define BYTEA_OID 17

static void add_be32(struct buf *b, uint32_t v)
{
	uint32_t be = htonl(v);
	buf_add(b, &be, sizeof be);
}

void db_array_begin(struct buf *b, size_t cap, size_t elements)
{
	buf_init(b, cap);
	add_be32(b, 1);          /* dimensions */
	add_be32(b, 1);          /* there may be NULLs */
	add_be32(b, BYTEA_OID);
	add_be32(b, (uint32_t)elements);
	add_be32(b, 1);          /* lower bound */
}

void db_array_add(struct buf *b, const void *p, size_t n)
{
	add_be32(b, p ? (uint32_t)n : UINT32_MAX);
	if (p)
		buf_add(b, p, n);
}
