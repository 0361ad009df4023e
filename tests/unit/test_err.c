#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/err.h"

static void set_fills_all(void **state)
{
	err_t *e = NULL;

	(void)state;
	assert_int_equal(err_set(&e, ERR_CONFLICT, "lease_lost", "run %d", 7), -1);
	assert_int_equal(err_code(e), ERR_CONFLICT);
	assert_string_equal(err_detail(e), "lease_lost");
	assert_string_equal(err_message(e), "run 7");
	assert_int_equal(err_errno(e), 0);
	err_free(e);
}

static void detail_falls_back_to_the_code(void **state)
{
	err_t *e = NULL;

	(void)state;
	err_set(&e, ERR_NOT_FOUND, NULL, "x");
	assert_string_equal(err_detail(e), "not_found");
	err_free(e);
}

static void sys_maps_errno(void **state)
{
	static const struct {
		int errnum;
		enum err_code code;
	} t[] = {
		{ ENOENT, ERR_NOT_FOUND }, { EEXIST, ERR_EXISTS }, { EACCES, ERR_DENIED }, { EAGAIN, ERR_BUSY }, { EMFILE, ERR_LIMIT },
		{ EFBIG, ERR_TOO_LARGE }, { ECONNREFUSED, ERR_UNAVAILABLE }, { ECONNRESET, ERR_UNKNOWN }, { ETIMEDOUT, ERR_TIMEOUT },
		{ ENOSPC, ERR_NO_SPACE }, { ENOMEM, ERR_NO_MEMORY }, { EIO, ERR_INTERNAL },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		err_t *e = NULL;

		assert_int_equal(err_sys(&e, t[i].errnum, "open %s", "f"), -1);
		assert_int_equal(err_code(e), t[i].code);
		assert_int_equal(err_errno(e), t[i].errnum);
		assert_memory_equal(err_message(e), "open f: ", 8);
		err_free(e);
	}
}

static void wrap_prepends(void **state)
{
	err_t *e = NULL, *none = NULL;

	(void)state;
	err_set(&e, ERR_BUSY, "d", "inner");
	assert_int_equal(err_wrap(&e, "outer %d", 1), -1);
	assert_string_equal(err_message(e), "outer 1: inner");
	assert_string_equal(err_detail(e), "d");
	err_free(e);
	assert_int_equal(err_wrap(&none, "outer"), -1);
	assert_null(none);
	assert_int_equal(err_wrap(NULL, "outer"), -1);
}

static void long_texts_are_cut(void **state)
{
	static char big[5000];
	err_t *e = NULL;

	(void)state;
	memset(big, 'x', sizeof big - 1);
	err_set(&e, ERR_INVALID, big, "%s", big);
	assert_int_equal(strlen(err_message(e)), 2047);
	assert_int_equal(strlen(err_detail(e)), 47);
	err_wrap(&e, "%s", big);
	assert_int_equal(strlen(err_message(e)), 2047);
	err_free(e);
}

static void nobody_asks(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, ERR_BUSY, NULL, "x"), -1);
	assert_int_equal(err_sys(NULL, EIO, "x"), -1);
	assert_int_equal(err_code(NULL), ERR_INTERNAL);
	assert_string_equal(err_detail(NULL), "internal");
	assert_non_null(err_message(NULL));
	err_free(NULL);
}

static void move_hands_over_once(void **state)
{
	err_t *a = NULL, *b = NULL, *c = NULL;

	(void)state;
	err_set(&a, ERR_BUSY, NULL, "first");
	assert_int_equal(err_move(&c, a), -1);
	assert_ptr_equal(c, a);
	err_set(&b, ERR_BUSY, NULL, "second");
	err_move(&c, b);   /* freed */
	assert_string_equal(err_message(c), "first");
	err_free(c);
	err_move(NULL, NULL);
}

/* Texts go into JSON, which must be UTF-8. */
static void texts_are_utf8(void **state)
{
	cleanup_err err_t *cut = NULL, *foreign = NULL, *fine = NULL;

	(void)state;
	err_set(&cut, ERR_INVALID, NULL, "\"%.5s\"", "ab\xf0\x9f\x98\x80");
	assert_string_equal(err_message(cut), "\"ab???\"");
	err_sys(&foreign, ENOENT, "open \xff\xc3\xa9\xed\xa0\x80");
	assert_string_equal(err_message(foreign), "open ?\xc3\xa9???: No such file or directory");
	err_set(&fine, ERR_INVALID, NULL, "\xf0\x9f\x98\x80");
	assert_string_equal(err_message(fine), "\xf0\x9f\x98\x80");
}

static void every_code_has_a_name(void **state)
{
	(void)state;
	for (int a = ERR_INTERNAL; a <= ERR_NO_MEMORY; a++) {
		for (int b = ERR_INTERNAL; b < a; b++)
			assert_string_not_equal(err_code_name((enum err_code)a), err_code_name((enum err_code)b));
	}
	assert_string_equal(err_code_name((enum err_code)0), "internal");
	assert_string_equal(err_code_name((enum err_code)(ERR_NO_MEMORY + 1)), "internal");
}

static void a_copy_is_of_its_own(void **state)
{
	err_t *e = NULL, *copy;

	(void)state;
	assert_null(err_copy(NULL));
	err_set(&e, ERR_BUSY, "some_word", "it is %d", 7);
	copy = err_copy(e);
	err_free(e);
	assert_int_equal(err_code(copy), ERR_BUSY);
	assert_string_equal(err_detail(copy), "some_word");
	assert_string_equal(err_message(copy), "it is 7");
	err_free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_of_its_own), cmocka_unit_test(set_fills_all), cmocka_unit_test(detail_falls_back_to_the_code), cmocka_unit_test(sys_maps_errno),
		cmocka_unit_test(wrap_prepends), cmocka_unit_test(long_texts_are_cut), cmocka_unit_test(nobody_asks),
		cmocka_unit_test(move_hands_over_once), cmocka_unit_test(texts_are_utf8), cmocka_unit_test(every_code_has_a_name),
	};

	return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
