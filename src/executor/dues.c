#include "executor/dues.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define RECENT 16   /* what was added lately is most likely to be added to again */

/* "0190abcd-ef" */
static uint64_t number_of(const char name[ARCHIVE_NAME])
{
	char digits[ARCHIVE_NAME];

	memcpy(digits, name, 8);
	memcpy(digits + 8, name + 9, 3);
	return strtoull(digits, NULL, 16);
}

void due_name(const struct due *d, char name[ARCHIVE_NAME])
{
	uint64_t n = d->file;

	if (str_fmt(name, ARCHIVE_NAME, "%08x-%02x", (unsigned)(n >> 8), (unsigned)(n & 255)) < 0)
		abort();   /* ten digits and a dash fit */
}

void dues_free(struct dues *d)
{
	free(d->items);
	*d = (struct dues){ NULL, 0, 0 };
}

static struct due *recent(struct dues *d, uint64_t file)
{
	for (size_t i = d->n; i > 0 && d->n - i < RECENT; i--)
		if (d->items[i - 1].file == file && !d->items[i - 1].dead)
			return &d->items[i - 1];
	return NULL;
}

static int grow(struct dues *d)
{
	size_t alloc = d->alloc ? d->alloc + d->alloc / 2 : 64;
	struct due *items = reallocarray(d->items, alloc, sizeof *items);

	if (!items)
		return -1;
	d->items = items;
	d->alloc = alloc;
	return 0;
}

int dues_note(struct dues *d, const char name[ARCHIVE_NAME], int64_t acked_ms, int64_t next_ms, bool outputs)
{
	uint64_t file = number_of(name);
	struct due *old = recent(d, file);
	bool bare = !outputs && (!old || old->bare);

	if (!old && d->n == d->alloc && grow(d) < 0)
		return -1;
	if (!old)
		old = &d->items[d->n++];
	*old = (struct due){ .file = file, .bare = bare, .acked_ms = acked_ms, .next_ms = next_ms };
	return 0;
}

bool dues_has(const struct dues *d, const char name[ARCHIVE_NAME])
{
	uint64_t file = number_of(name);

	for (size_t i = d->n; i > 0; i--)
		if (d->items[i - 1].file == file)
			return true;
	return false;
}

void dues_move_last(struct dues *d, size_t i, int64_t acked_ms, int64_t next_ms)
{
	struct due moved = d->items[i];

	moved.acked_ms = acked_ms;
	moved.next_ms = next_ms;
	memmove(&d->items[i], &d->items[i + 1], (d->n - i - 1) * sizeof moved);
	d->items[d->n - 1] = moved;
}

static int older(const void *a, const void *b)
{
	const struct due *x = a, *y = b;

	return x->acked_ms < y->acked_ms ? -1 : x->acked_ms > y->acked_ms;
}

void dues_sort(struct dues *d)
{
	if (d->n > 1)
		qsort(d->items, d->n, sizeof *d->items, older);
}

void dues_compact(struct dues *d)
{
	struct due *less;
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		if (!d->items[i].dead)
			d->items[n++] = d->items[i];
	d->n = n;
	if (n == 0) {
		dues_free(d);
	} else if (n < d->alloc / 4 && (less = reallocarray(d->items, n * 2, sizeof *less))) {
		d->items = less;
		d->alloc = n * 2;
	}
}

int64_t dues_next_ms(const struct dues *d)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < d->n; i++)
		if (!d->items[i].dead && d->items[i].next_ms < next)
			next = d->items[i].next_ms;
	return next;
}
