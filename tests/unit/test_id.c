#include "unit.h"

#include <ctype.h>

#include "base/clock.h"
#include "core/id.h"

static void v7_is_in_order(void **state)
{
	char last[ID_SIZE] = "", id[ID_SIZE];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		id_v7(id);
		assert_true(id_valid(id));
		assert_int_equal(id[14], '7');
		assert_non_null(strchr("89ab", id[19]));
		assert_true(strcmp(last, id) < 0);
		memcpy(last, id, sizeof last);
	}
}

static void v7_has_the_time(void **state)
{
	char id[ID_SIZE], hex[13];
	int64_t before = clock_wall_ms(), ms;

	(void)state;
	id_v7(id);
	snprintf(hex, sizeof hex, "%.8s%.4s", id, id + 9);
	ms = strtoll(hex, NULL, 16);
	assert_true(ms >= before && ms < before + 10000);
}

static void v4_is_random(void **state)
{
	char a[ID_SIZE], b[ID_SIZE];

	(void)state;
	id_v4(a);
	id_v4(b);
	assert_true(id_valid(a));
	assert_int_equal(a[14], '4');
	assert_string_not_equal(a, b);
}

static void valid_is_canonical(void **state)
{
	static const char good[] = "01890a5d-ac96-774b-bcce-b302099a8057";
	char bad[ID_SIZE + 1];

	(void)state;
	assert_true(id_valid(good));
	assert_false(id_valid(""));
	for (size_t i = 0; i < ID_SIZE - 1; i++) {
		snprintf(bad, sizeof bad, "%.*s", (int)i, good);
		assert_false(id_valid(bad));
		snprintf(bad, sizeof bad, "%s", good);
		bad[i] = 'g';
		assert_false(id_valid(bad));
		bad[i] = (char)toupper(good[i]);
		assert_int_equal(id_valid(bad), bad[i] == good[i]);
	}
	snprintf(bad, sizeof bad, "%s0", good);
	assert_false(id_valid(bad));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(v7_is_in_order), cmocka_unit_test(v7_has_the_time), cmocka_unit_test(v4_is_random),
		cmocka_unit_test(valid_is_canonical),
	};

	return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}
