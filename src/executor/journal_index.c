#include "executor/journal_index.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"

#define INDEX_MAGIC 0x58444e49u   /* "INDX" */

void index_init(struct journal_index *x)
{
	*x = (struct journal_index){ .fd = -1 };
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof v);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return le64toh(v);
}

static uint32_t check_of(const struct index_record *r)
{
	uint64_t h = (r->seq ^ (r->off << 21 | r->off >> 43) ^ (r->len << 42 | r->len >> 22) ^ r->kind) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(h >> 32) ^ INDEX_MAGIC;
}

void index_encode(const struct index_record *r, uint8_t dst[INDEX_RECORD_SIZE])
{
	put64(dst, r->seq);
	put64(dst + 8, r->off);
	put64(dst + 16, r->len);
	put64(dst + 24, (uint64_t)check_of(r) << 32 | r->kind);
}

int index_decode(const uint8_t src[INDEX_RECORD_SIZE], struct index_record *ret)
{
	uint64_t tail = get64(src + 24);
	struct index_record r = { get64(src), get64(src + 8), get64(src + 16), (uint32_t)tail };

	if (r.kind > INDEX_DROPPED || r.len == 0 || r.seq + r.len < r.seq || check_of(&r) != tail >> 32)
		return -1;
	*ret = r;
	return 0;
}

static int record_read(const struct journal_index *x, uint64_t i, struct index_record *ret)
{
	uint8_t b[INDEX_RECORD_SIZE];

	if (io_pread(x->fd, b, sizeof b, (off_t)(i * INDEX_RECORD_SIZE)) != sizeof b)
		return -1;
	return index_decode(b, ret);
}

/* Streams alternate, so the last three records tell how far both are covered. */
static void coverage(const struct journal_index *x, uint64_t covered[2])
{
	struct index_record r = x->last;

	for (uint64_t i = x->n, steps = 0; steps < 3; steps++) {
		if (r.kind != INDEX_DROPPED && covered[r.kind] < r.off + r.len)
			covered[r.kind] = r.off + r.len;
		if (i == 0 || record_read(x, --i, &r) < 0)
			return;
	}
}

void index_load(struct journal_index *x, int fd, uint64_t covered[2])
{
	struct stat st;

	index_init(x);
	x->fd = fd;
	covered[0] = covered[1] = 0;
	if (fstat(fd, &st) < 0)
		return;
	for (uint64_t n = (uint64_t)st.st_size / INDEX_RECORD_SIZE; n > 0; n--)
		if (record_read(x, n - 1, &x->last) == 0) {
			x->n = n - 1;
			x->have_last = true;
			coverage(x, covered);
			return;
		}
}

uint64_t index_end(const struct journal_index *x)
{
	return x->have_last ? x->last.seq + x->last.len : 0;
}

uint64_t index_count(const struct journal_index *x)
{
	return x->n + x->have_last;
}

int index_add(struct journal_index *x, enum index_kind kind, uint64_t off, uint64_t len)
{
	if (x->have_last && x->last.kind == kind && kind != INDEX_DROPPED) {
		x->last.len += len;
		x->dirty = true;
		return 0;
	}
	if (x->have_last && x->dirty) {
		if (!x->frozen || x->have_before)
			return -1;
		x->before = x->last;
		x->have_before = true;
	}
	x->last = (struct index_record){ index_end(x), off, len, kind };
	x->n += x->have_last;
	x->have_last = true;
	x->dirty = true;
	return 0;
}

int index_drop(struct journal_index *x, uint64_t out_bytes, uint64_t err_bytes)
{
	if (!x->have_last || x->last.kind != INDEX_DROPPED)
		return index_add(x, INDEX_DROPPED, out_bytes, out_bytes + err_bytes);
	x->last.off += out_bytes;
	x->last.len += out_bytes + err_bytes;
	x->dirty = true;
	return 0;
}

int index_flush(struct journal_index *x)
{
	uint8_t b[INDEX_RECORD_SIZE];

	if (!x->have_last || !x->dirty || x->frozen)
		return 0;
	index_encode(&x->last, b);
	if (x->fd < 0) {
		errno = EBADF;
		return -1;
	}
	if (io_pwrite_full(x->fd, b, sizeof b, (off_t)(x->n * INDEX_RECORD_SIZE)) < 0)
		return -1;
	x->dirty = false;
	return 0;
}

static bool holds(const struct index_record *r, uint64_t pos)
{
	return pos >= r->seq && pos - r->seq < r->len;
}

static int find_by_halves(const struct journal_index *x, uint64_t pos, uint64_t *hint, struct index_record *ret)
{
	uint64_t lo = 0, hi = x->n;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (record_read(x, mid, ret) < 0)
			return -1;
		if (holds(ret, pos)) {
			*hint = mid;
			return 0;
		}
		if (pos < ret->seq)
			hi = mid;
		else
			lo = mid + 1;
	}
	return -1;
}

int index_find(const struct journal_index *x, uint64_t pos, uint64_t *hint, struct index_record *ret)
{
	if (!x->have_last || pos >= index_end(x))
		return -1;
	if (pos >= x->last.seq) {
		*ret = x->last;
		*hint = x->n;
		return 0;
	}
	if (x->have_before && holds(&x->before, pos)) {
		*ret = x->before;
		return 0;
	}
	for (uint64_t i = *hint; i < x->n && i <= *hint + 1; i++)
		if (record_read(x, i, ret) == 0 && holds(ret, pos)) {
			*hint = i;
			return 0;
		}
	return find_by_halves(x, pos, hint, ret);
}
