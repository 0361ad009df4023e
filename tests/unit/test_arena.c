#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "fcgi/arena.h"

static void gives_zeroed_aligned_memory(void **state)
{
	struct arena *a = arena_new(1 << 20);

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (size_t n = 1; n < 300; n++) {
			char *p = arena_alloc(a, n);

			assert_non_null(p);
			assert_int_equal((uintptr_t)p % 16, 0);
			for (size_t i = 0; i < n; i++)
				assert_int_equal(p[i], 0);
			memset(p, 0xff, n);
		}
		arena_reset(a);
		assert_int_equal(arena_used(a), 0);
	}
	arena_free(a);
}

static void holds_its_cap(void **state)
{
	struct arena *a = arena_new(4096);

	(void)state;
	assert_non_null(arena_alloc(a, 4096));
	assert_null(arena_alloc(a, 1));
	arena_reset(a);
	assert_null(arena_alloc(a, 4097));
	assert_null(arena_alloc(a, SIZE_MAX));
	assert_null(arena_alloc(a, SIZE_MAX - 3));
	assert_null(arena_dupn(a, "x", SIZE_MAX));
	assert_non_null(arena_alloc(a, 4096));
	arena_free(a);
}

static void serves_blocks_of_any_size(void **state)
{
	struct arena *a = arena_new(8 << 20);
	char *big = arena_alloc(a, 1 << 20), *small = arena_alloc(a, 10);

	(void)state;
	assert_non_null(big);
	assert_non_null(small);
	memset(big, 1, 1 << 20);
	memset(small, 2, 10);
	assert_int_equal(big[(1 << 20) - 1], 1);
	arena_free(a);
}

static char order[8];

static void note(void *p)
{
	strncat(order, p, 1);
}

static void runs_what_it_adopted_last_first(void **state)
{
	struct arena *a = arena_new(64);

	(void)state;
	order[0] = '\0';
	assert_non_null(arena_adopt(a, note, "1"));
	assert_non_null(arena_adopt(a, note, "2"));
	assert_null(arena_adopt(a, note, "3"));   /* no room: given back at once */
	assert_string_equal(order, "3");
	arena_reset(a);
	assert_string_equal(order, "321");
	arena_free(a);
	assert_string_equal(order, "321");
}

static void formats_and_copies(void **state)
{
	struct arena *a = arena_new(4096);

	(void)state;
	assert_string_equal(arena_fmt(a, "%s-%d", "x", 7), "x-7");
	assert_string_equal(arena_dup(a, "text"), "text");
	assert_string_equal(arena_dupn(a, "text", 2), "te");
	arena_free(a);
	arena_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_zeroed_aligned_memory),
		cmocka_unit_test(holds_its_cap),
		cmocka_unit_test(serves_blocks_of_any_size),
		cmocka_unit_test(runs_what_it_adopted_last_first),
		cmocka_unit_test(formats_and_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
