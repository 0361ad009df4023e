#include "arena_kit.h"

#include "fcgi/router.h"

static const struct route table[] = {
	{ METHOD_GET, "/a", ROUTE_PUBLIC, ROUTE_NO_BODY, "", NULL, "getA" },
	{ METHOD_POST, "/a", ROUTE_PUBLIC, ROUTE_JSON, "", NULL, "postA" },
	{ METHOD_POST, "/a/claim", ROUTE_PUBLIC, ROUTE_JSON, "", NULL, "claim" },
	{ METHOD_GET, "/a/{run_id}", ROUTE_PUBLIC, ROUTE_NO_BODY, "", NULL, "getOne" },
	{ METHOD_DELETE, "/a/{run_id}/t/{token_id}", ROUTE_PUBLIC, ROUTE_NO_BODY, "", NULL, "deleteTwo" },
};

#define ID "01890a5d-ac96-774b-bcce-b302099a8057"

static struct router_match m;

static const char *match(enum request_method method, const char *target)
{
	struct uri u;

	assert_int_equal(uri_parse(arena, target, &u, NULL), 0);
	router_match(table, sizeof(table) / sizeof(table[0]), method, &u, &m);
	return m.route ? m.route->operation : "";
}

static void finds_routes(void **state)
{
	(void)state;
	assert_string_equal(match(METHOD_GET, "/a"), "getA");
	assert_string_equal(match(METHOD_HEAD, "/a"), "getA");
	assert_string_equal(match(METHOD_POST, "/a"), "postA");
	assert_string_equal(match(METHOD_POST, "/a/claim"), "claim");
	assert_string_equal(match(METHOD_GET, "/a/" ID), "getOne");
	assert_string_equal(m.params[0], ID);
	assert_string_equal(match(METHOD_DELETE, "/a/" ID "/t/0123456789ab"), "deleteTwo");
	assert_string_equal(m.params[0], ID);
	assert_string_equal(m.params[1], "0123456789ab");
}

static void malformed_ids_match_nothing(void **state)
{
	static const char *const targets[] = { "/", "/b", "/a/x", "/a/01890A5D-AC96-774B-BCCE-B302099A8057", "/a/" ID "x", "/a/" ID "/t", "/a/" ID "/t/0123456789aB",
					       "/a/" ID "/t/0123456789a", "/a/" ID "/t/0123456789ab/u", "/A" };

	(void)state;
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		assert_string_equal(match(METHOD_GET, targets[i]), "");
		assert_int_equal(m.allowed, 0);
	}
}

static void names_the_allowed_methods(void **state)
{
	char allow[64];

	(void)state;
	assert_string_equal(match(METHOD_DELETE, "/a"), "");
	router_allow(m.allowed, allow);
	assert_string_equal(allow, "GET, HEAD, POST");
	assert_string_equal(match(METHOD_OTHER, "/a/claim"), "");
	router_allow(m.allowed, allow);
	assert_string_equal(allow, "POST");
	router_allow(~0u, allow);
	assert_string_equal(allow, "GET, HEAD, POST, PUT, DELETE, PATCH");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_routes),
		cmocka_unit_test(malformed_ids_match_nothing),
		cmocka_unit_test(names_the_allowed_methods),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
