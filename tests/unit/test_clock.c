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

static void parses(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = {
		{ "1970-01-01", 0 }, { "2026-01-31T12:00:00.123Z", 1769860800123 }, { "2026-01-31t12:00:00.1239999999999z", 1769860800123 },
		{ "2026-01-31T14:00:00.12+02:00", 1769860800120 }, { "2026-01-31T11:30:00-00:30", 1769860800000 }, { "2000-02-29", 951782400000 },
		{ "9999-12-31T23:59:59.999Z", 253402300799999 }, { "1970-01-01T00:00:00+00:01", -60000 },
	};
	static const char *const bad[] = { "", "1", "2026", "2026-01", "2026-1-31", "2026-02-29", "2026-00-01", "2026-13-01", "2026-01-32", "1969-12-31", "12026-01-01",
		"2026-01-31T", "2026-01-31T12", "2026-01-31T12:00", "2026-01-31T12:00:00", "2026-01-31 12:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T12:60:00Z",
		"2026-01-31T12:00:60Z", "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00Zx", "2026-01-31T12:00:00+1:00", "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:00+0100",
		"2026-01-31x", " 2026-01-31", "2026-01-31 ", "now", "+026-01-31", "2026-01--1", "\xff" };
	int64_t ms = 7;

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(good); i++) {
		assert_int_equal(clock_parse(good[i].text, &ms), 0);
		assert_int_equal(ms, good[i].ms);
	}
	ms = 7;
	for (size_t i = 0; i < UNIT_LEN(bad); i++) {
		if (clock_parse(bad[i], &ms) == 0)
			fail_msg("\"%s\" is taken for %lld", bad[i], (long long)ms);
	}
	assert_int_equal(ms, 7);
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
	const struct CMUnitTest tests[] = { cmocka_unit_test(rfc3339), cmocka_unit_test(parses), cmocka_unit_test(goes_forward) };

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
