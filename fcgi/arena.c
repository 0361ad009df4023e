#include "fcgi/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 16384
#define ALIGN 16

struct block {
	struct block *next;
	size_t size, used;
	_Alignas(ALIGN) unsigned char bytes[];
};

struct adopted {
	struct adopted *next;
	void (*fn)(void *p);
	void *p;
};

struct arena {
	struct block *blocks;   /* newest first; the first block ever made is the last of the list */
	struct adopted *adopted;
	size_t cap, used;
};

static struct block *block_new(size_t size)
{
	struct block *b = calloc(1, sizeof(*b) + size);

	if (b)
		b->size = size;
	return b;
}

struct arena *arena_new(size_t cap)
{
	struct arena *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->cap = cap;
	a->blocks = block_new(BLOCK_BYTES);
	if (!a->blocks) {
		free(a);
		return NULL;
	}
	return a;
}

static void run_adopted(struct arena *a)
{
	while (a->adopted) {
		struct adopted *d = a->adopted;

		a->adopted = d->next;
		d->fn(d->p);
	}
}

void arena_reset(struct arena *a)
{
	struct block *b;

	run_adopted(a);
	while ((b = a->blocks)->next) {
		a->blocks = b->next;
		free(b);
	}
	memset(b->bytes, 0, b->used);
	b->used = 0;
	a->used = 0;
}

void arena_free(struct arena *a)
{
	if (!a)
		return;
	arena_reset(a);
	free(a->blocks);
	free(a);
}

size_t arena_used(const struct arena *a)
{
	return a->used;
}

void *arena_alloc(struct arena *a, size_t n)
{
	struct block *b = a->blocks;
	void *p;

	if (n > a->cap || n > SIZE_MAX - ALIGN)
		return NULL;
	n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (n == 0)
		n = ALIGN;
	if (n > a->cap - a->used)
		return NULL;
	if (n > b->size - b->used) {
		b = block_new(n > BLOCK_BYTES ? n : BLOCK_BYTES);
		if (!b)
			return NULL;
		b->next = a->blocks;
		a->blocks = b;
	}
	p = b->bytes + b->used;
	b->used += n;
	a->used += n;
	return p;
}

char *arena_dupn(struct arena *a, const char *s, size_t n)
{
	char *p = n < SIZE_MAX ? arena_alloc(a, n + 1) : NULL;

	if (p)
		memcpy(p, s, n);
	return p;
}

char *arena_dup(struct arena *a, const char *s)
{
	return arena_dupn(a, s, strlen(s));
}

char *arena_fmt(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	char *p = NULL;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n >= 0)
		p = arena_alloc(a, (size_t)n + 1);
	if (p)
		vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return p;
}

void *arena_adopt(struct arena *a, void (*fn)(void *p), void *p)
{
	struct adopted *d = arena_alloc(a, sizeof(*d));

	if (!d) {
		fn(p);
		return NULL;
	}
	*d = (struct adopted){ .next = a->adopted, .fn = fn, .p = p };
	a->adopted = d;
	return p;
}
