#include "unit.h"

#include "base/str.h"

static void copy_fits_or_is_empty(void **state)
{
	char dst[4] = "zzz";

	(void)state;
	assert_int_equal(str_copy(dst, sizeof dst, "abc"), 0);
	assert_string_equal(dst, "abc");
	assert_int_equal(str_copy(dst, sizeof dst, "abcd"), -1);
	assert_string_equal(dst, "");
	assert_int_equal(str_copy(dst, 1, ""), 0);
	assert_int_equal(str_copy(dst, 0, ""), -1);
}

static void fmt_fits_or_is_empty(void **state)
{
	char dst[4];

	(void)state;
	assert_int_equal(str_fmt(dst, sizeof dst, "%d", 123), 0);
	assert_string_equal(dst, "123");
	assert_int_equal(str_fmt(dst, sizeof dst, "%d", 1234), -1);
	assert_string_equal(dst, "");
}

static void compares(void **state)
{
	(void)state;
	assert_true(str_eq("a", "a"));
	assert_false(str_eq("a", "ab"));
	assert_true(str_prefix("abc", "ab"));
	assert_true(str_prefix("abc", ""));
	assert_false(str_prefix("a", "ab"));
	assert_true(str_suffix("abc", "bc"));
	assert_true(str_suffix("abc", ""));
	assert_false(str_suffix("c", "bc"));
}

static void duplicates(void **state)
{
	char *a = str_dup("x"), *b = str_dupn("abc", 2), *c = str_dupf("%s-%d", "n", 3);

	(void)state;
	assert_string_equal(a, "x");
	assert_string_equal(b, "ab");
	assert_string_equal(c, "n-3");
	free(a);
	free(b);
	free(c);
}

static void vectors(void **state)
{
	char one[] = "one", two[] = "two", *v[] = { one, two, NULL }, *none[] = { NULL }, **copy;

	(void)state;
	assert_int_equal(strv_len(v), 2);
	assert_int_equal(strv_len(NULL), 0);
	copy = strv_dup(v);
	assert_string_equal(copy[1], "two");
	assert_ptr_not_equal(copy[1], two);
	assert_null(copy[2]);
	strv_free(copy);
	copy = strv_dup(none);
	assert_null(copy[0]);
	strv_free(copy);
	strv_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy_fits_or_is_empty), cmocka_unit_test(fmt_fits_or_is_empty), cmocka_unit_test(compares),
		cmocka_unit_test(duplicates), cmocka_unit_test(vectors),
	};

	return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
