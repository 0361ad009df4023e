#include "arena_kit.h"

#include "base/cleanup.h"
#include "fcgi/response.h"

static const char *text_of(const struct response *r)
{
	static struct buf b = BUF_INIT(1 << 20);

	buf_reset(&b);
	assert_int_equal(response_serialize(r, "rid", &b), 0);
	return buf_str(&b);
}

static void serializes_json(void **state)
{
	struct response *r = response_new(arena);
	json_t *o = json_object_new_object();

	(void)state;
	json_add_str(o, "a", "b/c");
	assert_int_equal(response_header(r, "Allow", "GET", NULL), 0);
	assert_int_equal(response_json(r, 201, o, NULL), 0);
	assert_string_equal(text_of(r), "Status: 201 Created\r\nX-Request-Id: rid\r\nCache-Control: no-store\r\nContent-Type: application/json\r\n"
					"Allow: GET\r\nContent-Length: 11\r\n\r\n{\"a\":\"b/c\"}");
}

static void empty_answers_have_no_length(void **state)
{
	struct response *r = response_new(arena);

	(void)state;
	assert_string_equal(text_of(r), "Status: 204 No Content\r\nX-Request-Id: rid\r\nCache-Control: no-store\r\n\r\n");
	response_empty(r, 202);
	assert_string_equal(text_of(r), "Status: 202 Accepted\r\nX-Request-Id: rid\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n");
}

static void hands_streams_to_nginx(void **state)
{
	struct response *r = response_new(arena);

	(void)state;
	assert_int_equal(response_accel(r, "/_x/", "abc-_9", "text/event-stream", NULL), 0);
	assert_string_equal(text_of(r), "Status: 200 OK\r\nX-Request-Id: rid\r\nContent-Type: text/event-stream\r\n"
					"X-Accel-Redirect: /_x/abc-_9\r\n\r\n");
}

static void refuses_tickets_and_headers_that_could_lead_elsewhere(void **state)
{
	static const char *const tickets[] = { "", "../x", "a/b", "a?b", "a%2e", "a\r\nb", "a b" };
	struct response *r = response_new(arena);

	(void)state;
	for (size_t i = 0; i < sizeof(tickets) / sizeof(tickets[0]); i++)
		assert_int_equal(response_accel(r, "/_x/", tickets[i], "x/y", NULL), -1);
	assert_int_equal(response_header(r, "A", "a\r\nSet-Cookie: b", NULL), -1);
	assert_int_equal(response_header(r, "A", "a\x7f", NULL), -1);
	assert_string_equal(text_of(r), "Status: 204 No Content\r\nX-Request-Id: rid\r\nCache-Control: no-store\r\n\r\n");
}

static void holds_so_many_headers(void **state)
{
	struct response *r = response_new(arena);

	(void)state;
	for (int i = 0; i < 12; i++)
		assert_int_equal(response_header(r, "A", "b", NULL), 0);
	assert_int_equal(response_header(r, "A", "b", NULL), -1);
	response_drop_headers(r);
	assert_int_equal(response_header(r, "A", "b", NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(serializes_json),
		cmocka_unit_test(empty_answers_have_no_length),
		cmocka_unit_test(hands_streams_to_nginx),
		cmocka_unit_test(refuses_tickets_and_headers_that_could_lead_elsewhere),
		cmocka_unit_test(holds_so_many_headers),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
