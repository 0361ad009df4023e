#include "arena_kit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "fcgi/problem.h"

static const char *answer_with(const err_t *e, const json_t *extras)
{
	static struct buf b = BUF_INIT(1 << 20);
	struct response *r = response_new(arena);

	response_header(r, "Allow", "GET", NULL);
	problem_answer(r, e, extras, "rid", 2);
	buf_reset(&b);
	assert_int_equal(response_serialize(r, "rid", &b), 0);
	return buf_str(&b);
}

static const char *answer(const err_t *e)
{
	return answer_with(e, NULL);
}

static void has(const char *text, const char *piece)
{
	if (!strstr(text, piece))
		fail_msg("\"%s\" is not in: %s", piece, text);
}

static void says_what_the_caller_did_wrong(void **state)
{
	cleanup_err err_t *e = NULL;
	const char *t;

	(void)state;
	err_set(&e, ERR_INVALID, "unknown_field", "unknown field \"x\"");
	t = answer(e);
	has(t, "Status: 400 Bad Request\r\n");
	has(t, "Content-Type: application/problem+json\r\n");
	has(t, "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\"detail\":\"unknown field \\\"x\\\"\",\"code\":\"unknown_field\",\"request_id\":\"rid\"}");
	assert_null(strstr(t, "Allow"));
}

static void says_more_where_there_is_more(void **state)
{
	cleanup_err err_t *e = NULL;
	json_t *extras = json_parse("{\"blockers\":[\"a\"]}", 18, 100, 4, NULL);

	(void)state;
	assert_non_null(extras);
	err_set(&e, ERR_CONFLICT, "sandbox_busy", "in use");
	has(answer_with(e, extras), "\"request_id\":\"rid\",\"blockers\":[\"a\"]}");
	has(answer_with(e, extras), "Status: 409 ");
	json_object_put(extras);
}

static void keeps_our_own_faults_in_the_log(void **state)
{
	cleanup_err err_t *a = NULL, *b = NULL;

	(void)state;
	err_sys(&a, ENOENT, "open /etc/paddock/keys/pepper");
	assert_null(strstr(answer(a), "pepper"));
	has(answer(a), "Status: 500 ");
	err_set(&b, ERR_UNAVAILABLE, "database_unavailable", "connection to /run/paddock/pg failed");
	assert_null(strstr(answer(b), "/run"));
	has(answer(b), "Status: 503 ");
	has(answer(b), "Retry-After: 2\r\n");
	has(answer(b), "\"code\":\"database_unavailable\"");
	has(answer(NULL), "Status: 500 ");
}

static void knows_the_special_ones(void **state)
{
	cleanup_err err_t *unauthorized = NULL, *method = NULL, *type = NULL, *denied = NULL, *limit = NULL, *fence = NULL;

	(void)state;
	err_set(&unauthorized, ERR_DENIED, "unauthorized", "no");
	has(answer(unauthorized), "Status: 401 ");
	has(answer(unauthorized), "WWW-Authenticate: Bearer\r\n");
	err_set(&denied, ERR_DENIED, "forbidden", "no");
	has(answer(denied), "Status: 403 ");
	err_set(&method, ERR_NOT_FOUND, "method_not_allowed", "no");
	has(answer(method), "Status: 405 ");
	has(answer(method), "Allow: GET\r\n");
	err_set(&type, ERR_INVALID, "unsupported_media_type", "no");
	has(answer(type), "Status: 415 ");
	err_set(&limit, ERR_LIMIT, "too_many_commands", "no");
	has(answer(limit), "Status: 429 ");
	has(answer(limit), "Retry-After: 2\r\n");
	err_set(&fence, ERR_CONFLICT, "cleanup_pending", "no");
	has(answer(fence), "Status: 409 ");
	has(answer(fence), "Retry-After: 2\r\n");
}

static void every_class_has_a_status(void **state)
{
	(void)state;
	for (int c = ERR_INTERNAL; c <= ERR_NO_MEMORY; c++) {
		assert_true(problem_status((enum err_code)c) >= 400);
		assert_true(c == ERR_INTERNAL || problem_status((enum err_code)c) != 500);
		assert_string_not_equal(response_reason(problem_status((enum err_code)c)), "Status");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_what_the_caller_did_wrong),
		cmocka_unit_test(says_more_where_there_is_more), cmocka_unit_test(keeps_our_own_faults_in_the_log),
		cmocka_unit_test(knows_the_special_ones),
		cmocka_unit_test(every_class_has_a_status),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
