#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST 64

void buf_init(struct buf *b, size_t cap)
{
	*b = (struct buf)BUF_INIT(cap);
}

void buf_free(struct buf *b)
{
	free(b->data);
	buf_init(b, b->cap);
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = '\0';
}

static int fail(struct buf *b)
{
	b->failed = true;
	return -1;
}

/* The next allocation: doubled, but never past the cap and its NUL. `need` includes the NUL and is at most cap + 1. */
static size_t grown(const struct buf *b, size_t need)
{
	size_t n = b->alloc ? b->alloc : BUF_FIRST;

	while (n < need)
		n = n > SIZE_MAX / 2 ? need : n * 2;
	return n - 1 > b->cap ? b->cap + 1 : n;
}

int buf_reserve(struct buf *b, size_t extra)
{
	size_t n;
	char *p;

	if (b->failed)
		return -1;
	if (b->cap == SIZE_MAX || extra > b->cap - b->len)
		return fail(b);
	if (b->len + extra < b->alloc)
		return 0;
	n = grown(b, b->len + extra + 1);
	p = realloc(b->data, n);
	if (!p)
		return fail(b);
	b->data = p;
	b->alloc = n;
	b->data[b->len] = '\0';
	return 0;
}

int buf_add(struct buf *b, const void *p, size_t n)
{
	if (buf_reserve(b, n) < 0)
		return -1;
	if (n)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = '\0';
	return 0;
}

int buf_adds(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s));
}

int buf_addc(struct buf *b, char c)
{
	return buf_add(b, &c, 1);
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || buf_reserve(b, (size_t)n) < 0) {
		va_end(again);
		return fail(b);
	}
	vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
	va_end(again);
	b->len += (size_t)n;
	return 0;
}

static int add_le(struct buf *b, uint64_t v, size_t n)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(v >> (8 * i));
	return buf_add(b, bytes, n);
}

int buf_add_u16(struct buf *b, uint16_t v)
{
	return add_le(b, v, 2);
}

int buf_add_u32(struct buf *b, uint32_t v)
{
	return add_le(b, v, 4);
}

int buf_add_u64(struct buf *b, uint64_t v)
{
	return add_le(b, v, 8);
}

void buf_consume(struct buf *b, size_t n)
{
	if (n > b->len)
		n = b->len;
	if (!n)
		return;
	b->len -= n;
	memmove(b->data, b->data + n, b->len);
	b->data[b->len] = '\0';
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}

char *buf_steal(struct buf *b)
{
	char *p;

	if (buf_reserve(b, 0) < 0) {
		buf_free(b);
		return NULL;
	}
	p = b->data;
	b->data = NULL;
	buf_free(b);
	return p;
}
