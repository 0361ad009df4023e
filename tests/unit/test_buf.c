#include "unit.h"

#include "base/buf.h"

static void grows_to_the_cap_exactly(void **state)
{
	for (size_t cap = 0; cap < 300; cap++) {
		struct buf b;

		(void)state;
		buf_init(&b, cap);
		for (size_t i = 0; i < cap; i++)
			assert_int_equal(buf_addc(&b, 'a'), 0);
		assert_int_equal(b.len, cap);
		assert_false(buf_failed(&b));
		assert_int_equal(buf_addc(&b, 'a'), -1);
		assert_true(buf_failed(&b));
		assert_int_equal(b.len, cap);
		assert_int_equal(strlen(buf_str(&b)), cap);
		assert_true(b.alloc <= cap + 1);
		buf_free(&b);
		assert_int_equal(b.cap, cap);
	}
}

static void a_failed_buffer_stays_as_it_was(void **state)
{
	struct buf b = BUF_INIT(4);

	(void)state;
	assert_int_equal(buf_adds(&b, "abc"), 0);
	assert_int_equal(buf_adds(&b, "de"), -1);
	assert_int_equal(buf_addc(&b, 'd'), -1);   /* would fit, but a chain must not have holes */
	assert_string_equal(buf_str(&b), "abc");
	buf_reset(&b);
	assert_int_equal(buf_adds(&b, "defg"), 0);
	buf_free(&b);
}

static void formats(void **state)
{
	struct buf b = BUF_INIT(10);

	(void)state;
	assert_int_equal(buf_addf(&b, "%d-%s", 12, "abcdefg"), 0);
	assert_string_equal(buf_str(&b), "12-abcdefg");
	assert_int_equal(buf_addf(&b, "%c", 'x'), -1);
	assert_string_equal(buf_str(&b), "12-abcdefg");
	buf_free(&b);
}

static void little_endian(void **state)
{
	struct buf b = BUF_INIT(14);

	(void)state;
	buf_add_u16(&b, 0x0102);
	buf_add_u32(&b, 0x03040506);
	assert_int_equal(buf_add_u64(&b, UINT64_C(0x0708090a0b0c0d0e)), 0);
	assert_memory_equal(b.data, "\x02\x01\x06\x05\x04\x03\x0e\x0d\x0c\x0b\x0a\x09\x08\x07", 14);
	assert_int_equal(buf_add_u16(&b, 0), -1);
	buf_free(&b);
}

static void consume_drops_the_front(void **state)
{
	struct buf b = BUF_INIT(16);

	(void)state;
	buf_consume(&b, 5);
	buf_adds(&b, "hello");
	buf_consume(&b, 0);
	buf_consume(&b, 2);
	assert_string_equal(buf_str(&b), "llo");
	buf_consume(&b, 99);
	assert_int_equal(b.len, 0);
	assert_string_equal(buf_str(&b), "");
	buf_free(&b);
}

static void steal_gives_bytes_once(void **state)
{
	struct buf b = BUF_INIT(16);
	char *p;

	(void)state;
	p = buf_steal(&b);
	assert_string_equal(p, "");
	free(p);
	buf_adds(&b, "x");
	p = buf_steal(&b);
	assert_string_equal(p, "x");
	free(p);
	assert_int_equal(b.len, 0);
	for (int i = 0; i < 17; i++)
		buf_addc(&b, 'x');
	assert_null(buf_steal(&b));
	assert_int_equal(buf_adds(&b, "again"), 0);
	buf_free(&b);
}

static void holds_nul_and_nothing(void **state)
{
	struct buf b = BUF_INIT(8);

	(void)state;
	assert_int_equal(buf_add(&b, NULL, 0), 0);
	assert_int_equal(buf_add(&b, "a\0b", 3), 0);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b", 4);
	assert_int_equal(buf_reserve(&b, SIZE_MAX), -1);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_to_the_cap_exactly), cmocka_unit_test(a_failed_buffer_stays_as_it_was), cmocka_unit_test(formats),
		cmocka_unit_test(little_endian), cmocka_unit_test(consume_drops_the_front), cmocka_unit_test(steal_gives_bytes_once),
		cmocka_unit_test(holds_nul_and_nothing),
	};

	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
