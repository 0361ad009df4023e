#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "executor/journal_index.h"

static int scratch(void)
{
	char path[] = "/tmp/paddock-unit-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static void codec(void **state)
{
	struct index_record r = { UINT64_MAX / 2, 77, 3, INDEX_ERR }, back;
	uint8_t b[INDEX_RECORD_SIZE];

	(void)state;
	index_encode(&r, b);
	assert_int_equal(index_decode(b, &back), 0);
	assert_memory_equal(&r.seq, &back.seq, 3 * sizeof(uint64_t));
	assert_int_equal(back.kind, INDEX_ERR);
	/* no single changed bit is taken for a record */
	for (size_t i = 0; i < 8 * sizeof b; i++) {
		b[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(index_decode(b, &back), -1);
		b[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	memset(b, 0, sizeof b);
	assert_int_equal(index_decode(b, &back), -1);
}

/* n records of lengths 1, 2, 3, … that alternate between the streams. */
static void fill(struct journal_index *x, unsigned n)
{
	uint64_t off[2] = { 0, 0 };

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(index_flush(x), 0);
		assert_int_equal(index_add(x, (enum index_kind)(i % 2), off[i % 2], i + 1), 0);
		off[i % 2] += i + 1;
	}
}

static void every_position_is_found(void **state)
{
	struct journal_index x;
	struct index_record r;
	uint64_t hint = 0, stale = 0, end;

	(void)state;
	index_init(&x);
	assert_int_equal(index_find(&x, 0, &hint, &r), -1);
	x.fd = scratch();
	fill(&x, 60);
	end = index_end(&x);
	assert_int_equal(end, 60 * 61 / 2);
	for (uint64_t pos = 0; pos < end; pos++) {
		assert_int_equal(index_find(&x, pos, &hint, &r), 0);
		assert_true(pos >= r.seq && pos < r.seq + r.len);
		stale = (pos * 7919) % 70;
		assert_int_equal(index_find(&x, pos, &stale, &r), 0);
		assert_true(pos >= r.seq && pos < r.seq + r.len);
	}
	assert_int_equal(index_find(&x, end, &hint, &r), -1);
	close(x.fd);
}

static void neighbours_are_joined(void **state)
{
	struct journal_index x;

	(void)state;
	index_init(&x);
	assert_int_equal(index_add(&x, INDEX_OUT, 0, 5), 0);
	assert_int_equal(index_add(&x, INDEX_OUT, 5, 5), 0);
	assert_int_equal(index_count(&x), 1);
	assert_int_equal(index_end(&x), 10);
	assert_int_equal(index_add(&x, INDEX_ERR, 0, 1), -1);   /* the last one is not in a file */
	x.fd = scratch();
	assert_int_equal(index_flush(&x), 0);
	assert_int_equal(index_add(&x, INDEX_ERR, 0, 1), 0);
	assert_int_equal(index_count(&x), 2);
	close(x.fd);
}

/* Cut anywhere, the file gives the whole records before the cut. */
static void cut_at_every_byte(void **state)
{
	struct journal_index x;
	uint64_t covered[2];
	int fd = scratch();

	(void)state;
	index_init(&x);
	x.fd = fd;
	fill(&x, 9);
	assert_int_equal(index_flush(&x), 0);
	for (off_t size = 9 * INDEX_RECORD_SIZE; size >= 0; size--) {
		uint64_t n = (uint64_t)size / INDEX_RECORD_SIZE;

		assert_int_equal(ftruncate(fd, size), 0);
		index_load(&x, fd, covered);
		assert_int_equal(index_count(&x), n);
		assert_int_equal(index_end(&x), n * (n + 1) / 2);
		assert_int_equal(covered[0] + covered[1], n * (n + 1) / 2);
	}
	close(fd);
}

static void dropped_bytes_are_one_record(void **state)
{
	struct journal_index x;
	uint64_t covered[2];
	int fd = scratch();

	(void)state;
	index_init(&x);
	x.fd = fd;
	fill(&x, 2);
	index_flush(&x);
	assert_int_equal(index_drop(&x, 10, 0), 0);
	assert_int_equal(index_drop(&x, 0, 5), 0);
	assert_int_equal(index_flush(&x), 0);
	index_load(&x, fd, covered);
	assert_int_equal(x.last.kind, INDEX_DROPPED);
	assert_int_equal(x.last.off, 10);
	assert_int_equal(x.last.len, 15);
	assert_int_equal(covered[0], 1);
	assert_int_equal(covered[1], 2);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codec), cmocka_unit_test(every_position_is_found), cmocka_unit_test(neighbours_are_joined),
		cmocka_unit_test(cut_at_every_byte), cmocka_unit_test(dropped_bytes_are_one_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
