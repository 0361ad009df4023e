#include "unit.h"

#include "base/utf8.h"

#define S(text) text, sizeof(text) - 1

static void valid_and_not(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		bool valid;
	} t[] = {
		{ S(""), true }, { S("a\0b"), true }, { S("\x7f"), true }, { S("\xc2\x80"), true }, { S("\xdf\xbf"), true },
		{ S("\xe0\xa0\x80"), true }, { S("\xed\x9f\xbf"), true }, { S("\xee\x80\x80"), true }, { S("\xef\xbf\xbf"), true },
		{ S("\xf0\x90\x80\x80"), true }, { S("\xf4\x8f\xbf\xbf"), true }, { S("\xf0\x9f\x98\x80!"), true },
		{ S("\x80"), false }, { S("\xc0\x80"), false }, { S("\xc1\xbf"), false }, { S("\xe0\x9f\xbf"), false },
		{ S("\xed\xa0\x80"), false }, { S("\xed\xbf\xbf"), false }, { S("\xf0\x8f\xbf\xbf"), false }, { S("\xf4\x90\x80\x80"), false },
		{ S("\xf5\x80\x80\x80"), false }, { S("\xff"), false }, { S("\xc2"), false }, { S("\xe2\x82"), false }, { S("\xc2" "a"), false },
		{ S("\xf0\x9f\x98"), false }, { S("\xe2\x82" "a"), false }, { S("a\x80"), false },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++)
		assert_int_equal(utf8_valid(t[i].p, t[i].n), t[i].valid);
}

/* Whatever is cut off as a partial tail leaves a valid front, and the whole is valid again with it. */
static void tails_of_every_cut(void **state)
{
	static const char text[] = "a\xc2\xa2\xe2\x82\xac\xf0\x9f\x98\x80z";
	static const size_t want[] = { 0, 0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 0 };

	(void)state;
	for (size_t n = 0; n < sizeof text; n++) {
		size_t tail = utf8_partial_tail(text, n);

		assert_int_equal(tail, want[n]);
		assert_true(utf8_valid(text, n - tail));
	}
}

static void hopeless_tails_are_not_held_back(void **state)
{
	(void)state;
	assert_int_equal(utf8_partial_tail(S("\x80")), 0);
	assert_int_equal(utf8_partial_tail(S("\xff")), 0);
	assert_int_equal(utf8_partial_tail(S("\xc0")), 0);
	assert_int_equal(utf8_partial_tail(S("\xed\xa0")), 0);   /* would become a surrogate */
	assert_int_equal(utf8_partial_tail(S("\xf4\x90")), 0);
	assert_int_equal(utf8_partial_tail(S("\x80\x80\x80\x80")), 0);
	assert_int_equal(utf8_partial_tail(S("\xf0\x9f\x98\x80\x80")), 0);
}

static void heads(void **state)
{
	(void)state;
	assert_int_equal(utf8_partial_head(S("")), 0);
	assert_int_equal(utf8_partial_head(S("a")), 0);
	assert_int_equal(utf8_partial_head(S("\x9f\x98\x80z")), 3);
	assert_int_equal(utf8_partial_head(S("\x80")), 1);
	assert_int_equal(utf8_partial_head(S("\x80\x80\x80\x80")), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(valid_and_not), cmocka_unit_test(tails_of_every_cut), cmocka_unit_test(hopeless_tails_are_not_held_back),
		cmocka_unit_test(heads),
	};

	return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
