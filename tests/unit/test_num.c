#include "unit.h"

#include "base/num.h"

static void i64_ranges(void **state)
{
	static const struct {
		const char *text;
		int rc;
		int64_t min, max, value;
	} t[] = {
		{ "0", 0, INT64_MIN, INT64_MAX, 0 },
		{ "9223372036854775807", 0, INT64_MIN, INT64_MAX, INT64_MAX },
		{ "9223372036854775808", -1, INT64_MIN, INT64_MAX, 0 },
		{ "-9223372036854775808", 0, INT64_MIN, INT64_MAX, INT64_MIN },
		{ "-9223372036854775809", -1, INT64_MIN, INT64_MAX, 0 },
		{ "18446744073709551617", -1, INT64_MIN, INT64_MAX, 0 },
		{ "5", 0, 5, 5, 5 }, { "4", -1, 5, 5, 0 }, { "6", -1, 5, 5, 0 }, { "-1", -1, 0, 9, 0 }, { "-3", 0, -3, 0, -3 },
		{ "", -1, INT64_MIN, INT64_MAX, 0 }, { "-", -1, INT64_MIN, INT64_MAX, 0 }, { "+1", -1, INT64_MIN, INT64_MAX, 0 },
		{ " 1", -1, INT64_MIN, INT64_MAX, 0 }, { "1 ", -1, INT64_MIN, INT64_MAX, 0 }, { "1x", -1, INT64_MIN, INT64_MAX, 0 },
		{ "0x1", -1, INT64_MIN, INT64_MAX, 0 }, { "01", -1, INT64_MIN, INT64_MAX, 0 }, { "-0", -1, INT64_MIN, INT64_MAX, 0 },
		{ "1.0", -1, INT64_MIN, INT64_MAX, 0 }, { "1e3", -1, INT64_MIN, INT64_MAX, 0 },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		int64_t v = 4711;

		assert_int_equal(num_i64(t[i].text, t[i].min, t[i].max, &v), t[i].rc);
		assert_true(v == (t[i].rc ? 4711 : t[i].value));
	}
}

static void u64_ranges(void **state)
{
	uint64_t v = 1;

	(void)state;
	assert_int_equal(num_u64("18446744073709551615", UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(num_u64("18446744073709551616", UINT64_MAX, &v), -1);
	assert_int_equal(num_u64("7", 7, &v), 0);
	assert_int_equal(num_u64("8", 7, &v), -1);
	assert_int_equal(num_u64("0", 0, &v), 0);
	assert_int_equal(num_u64("1", 0, &v), -1);
	assert_int_equal(num_u64("-1", UINT64_MAX, &v), -1);
	assert_true(v == 0);
}

static void sizes(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t max, value;
	} t[] = {
		{ "0", 0, 0, 0 }, { "1K", 0, 1024, 1024 }, { "1K", -1, 1023, 0 }, { "64M", 0, UINT64_MAX, 64u << 20 },
		{ "16G", 0, UINT64_MAX, UINT64_C(16) << 30 }, { "17179869183G", 0, UINT64_MAX, UINT64_C(17179869183) << 30 },
		{ "17179869184G", -1, UINT64_MAX, 0 }, { "1k", -1, UINT64_MAX, 0 }, { "1KB", -1, UINT64_MAX, 0 }, { "K", -1, UINT64_MAX, 0 },
		{ "", -1, UINT64_MAX, 0 }, { "1 K", -1, UINT64_MAX, 0 }, { "1T", -1, UINT64_MAX, 0 }, { "-1K", -1, UINT64_MAX, 0 },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		uint64_t v = 4711;

		assert_int_equal(num_size(t[i].text, t[i].max, &v), t[i].rc);
		assert_true(v == (t[i].rc ? 4711 : t[i].value));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(i64_ranges), cmocka_unit_test(u64_ranges), cmocka_unit_test(sizes) };

	return cmocka_run_group_tests_name("num", tests, NULL, NULL);
}
