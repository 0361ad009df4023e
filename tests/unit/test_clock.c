#include "unit.h"

#include "base/clock.h"

static void rfc3339(void **state)
{
	static const struct {
		int64_t ms;
		const char *text;
	} t[] = {
		{ 0, "1970-01-01T00:00:00.000Z" }, { 1, "1970-01-01T00:00:00.001Z" }, { -1, "1969-12-31T23:59:59.999Z" },
		{ 1769860800123, "2026-01-31T12:00:00.123Z" }, { 951782400000, "2000-02-29T00:00:00.000Z" },
		{ 253402300799999, "9999-12-31T23:59:59.999Z" }, { 253402300800000, "1970-01-01T00:00:00.000Z" },
		{ INT64_MAX, "1970-01-01T00:00:00.000Z" }, { INT64_MIN, "1970-01-01T00:00:00.000Z" },
	};
	char dst[CLOCK_RFC3339_SIZE];

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		clock_rfc3339(t[i].ms, dst);
		assert_string_equal(dst, t[i].text);
	}
}

static void goes_forward(void **state)
{
	int64_t boot = clock_boot_us(), wall = clock_wall_ms();

	(void)state;
	assert_true(clock_boot_us() >= boot);
	assert_true(clock_boot_ms() >= boot / 1000);
	assert_true(wall > INT64_C(1700000000000));
	assert_true(clock_wall_us() / 1000 - wall < 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rfc3339), cmocka_unit_test(goes_forward) };

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
