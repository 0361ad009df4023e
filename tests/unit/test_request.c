#include "arena_kit.h"

#include "base/cleanup.h"
#include "fcgi/header.h"
#include "fcgi/request.h"

static const char *body;

static int read_body(void *arg, void *p, int n)
{
	size_t left = strlen(body);
	int give = left < (size_t)n ? (int)left : n;

	(void)arg;
	give = give > 3 ? 3 : give;
	memcpy(p, body, (size_t)give);
	body += give;
	return give;
}

static void refused(char *const *envp, const char *code)
{
	cleanup_err err_t *e = NULL;
	struct request *q = request_new(arena, envp, read_body, NULL);

	assert_non_null(q);
	assert_int_equal(request_check(q, &e), -1);
	assert_string_equal(err_detail(e), code);
}

#define RID "PADDOCK_REQUEST_ID=abc123"

static void takes_what_nginx_passes(void **state)
{
	char *envp[] = { "REQUEST_METHOD=POST", "REQUEST_URI=/api/runs?thread_id=a%20b&x=", "CONTENT_LENGTH=5", "HTTP_ACCEPT=", "HTTP_HOST=h", "OTHER=1",
			 "OTHER=2", "NOVALUE", RID, NULL };
	struct request *q = request_new(arena, envp, read_body, NULL);

	(void)state;
	assert_int_equal(request_check(q, NULL), 0);
	assert_int_equal(request_method(q), METHOD_POST);
	assert_string_equal(request_id(q), "abc123");
	assert_string_equal(request_log_path(q), "/api/runs");
	assert_string_equal(request_query(q, "thread_id"), "a b");
	assert_string_equal(request_query(q, "x"), "");
	assert_null(request_query(q, "y"));
	assert_null(request_field(q, FIELD_ACCEPT));
	assert_string_equal(request_field(q, FIELD_HOST), "h");
	assert_int_equal(request_body_length(q), 5);
}

static void refuses_what_is_doubled_or_missing(void **state)
{
	char *twice[] = { "REQUEST_METHOD=GET", "REQUEST_URI=/", "HTTP_AUTHORIZATION=a", "HTTP_AUTHORIZATION=b", RID, NULL };
	char *twice_empty[] = { "REQUEST_METHOD=GET", "REQUEST_URI=/", "HTTP_X_PADDOCK_USER=", "HTTP_X_PADDOCK_USER=bob", RID, NULL };
	char *no_id[] = { "REQUEST_METHOD=GET", "REQUEST_URI=/", NULL };
	char *bad_id[] = { "REQUEST_METHOD=GET", "REQUEST_URI=/", "PADDOCK_REQUEST_ID=a b", NULL };
	char *no_uri[] = { "REQUEST_METHOD=GET", RID, NULL };
	char *bad_length[] = { "REQUEST_METHOD=GET", "REQUEST_URI=/", "CONTENT_LENGTH=-1", RID, NULL };
	char *huge_length[] = { "REQUEST_METHOD=GET", "REQUEST_URI=/", "CONTENT_LENGTH=9223372036854775808", RID, NULL };

	(void)state;
	refused(twice, "duplicate_header");
	refused(twice_empty, "duplicate_header");
	refused(no_id, "internal");
	refused(bad_id, "internal");
	refused(no_uri, "internal");
	refused(bad_length, "bad_content_length");
	refused(huge_length, "bad_content_length");
}

static void a_header_may_be_so_long_and_no_longer(void **state)
{
	static char at[LIMIT_HEADER_BYTES + 32], past[LIMIT_HEADER_BYTES + 32];
	char *ok[] = { "REQUEST_METHOD=GET", "REQUEST_URI=/", at, RID, NULL }, *bad[] = { "REQUEST_METHOD=GET", "REQUEST_URI=/", past, RID, NULL };
	size_t n = strlen("HTTP_ACCEPT=");

	(void)state;
	memset(at, 'a', sizeof(at));
	memset(past, 'a', sizeof(past));
	memcpy(at, "HTTP_ACCEPT=", n);
	memcpy(past, "HTTP_ACCEPT=", n);
	at[n + LIMIT_HEADER_BYTES] = '\0';
	past[n + LIMIT_HEADER_BYTES + 1] = '\0';
	assert_int_equal(request_check(request_new(arena, ok, read_body, NULL), NULL), 0);
	refused(bad, "header_too_long");
}

static void reads_the_body_it_was_told_of(void **state)
{
	char *envp[] = { "REQUEST_METHOD=POST", "REQUEST_URI=/", "CONTENT_LENGTH=8", RID, NULL };
	struct request *q = request_new(arena, envp, read_body, NULL);
	cleanup_err err_t *e = NULL;
	const char *p;
	size_t n;

	(void)state;
	body = "01234567 and what does not belong to it";
	assert_int_equal(request_check(q, NULL), 0);
	assert_int_equal(request_body_all(q, arena, 7, &p, &n, &e), -1);
	assert_string_equal(err_detail(e), "body_too_large");
	assert_int_equal(request_body_all(q, arena, 8, &p, &n, NULL), 0);
	assert_int_equal(n, 8);
	assert_string_equal(p, "01234567");
}

static void notices_a_body_cut_short(void **state)
{
	char *envp[] = { "REQUEST_METHOD=POST", "REQUEST_URI=/", "CONTENT_LENGTH=8", RID, NULL };
	struct request *q = request_new(arena, envp, read_body, NULL);
	cleanup_err err_t *e = NULL;
	const char *p;
	size_t n;

	(void)state;
	body = "0123";
	assert_int_equal(request_check(q, NULL), 0);
	assert_int_equal(request_body_all(q, arena, 100, &p, &n, &e), -1);
	assert_string_equal(err_detail(e), "incomplete_body");
}

static void decodes_paths_once(void **state)
{
	static const struct {
		const char *target, *code;   /* NULL: fine */
	} cases[] = {
		{ "/", NULL }, { "/api/runs", NULL }, { "/a%2e", NULL }, { "/%e2%82%ac", NULL }, { "/%2541", NULL }, { "", "bad_path" },
		{ "api", "bad_path" }, { "//", "bad_path" }, { "/a/", "bad_path" }, { "/a//b", "bad_path" }, { "/.", "bad_path" }, { "/a/..", "bad_path" },
		{ "/%2e%2e/x", "bad_path" }, { "/a%2fb", "bad_path" }, { "/a%5cb", "bad_path" }, { "/a\\b", "bad_path" }, { "/%", "bad_path" },
		{ "/%4", "bad_path" }, { "/%zz", "bad_path" }, { "/%00", "bad_path" }, { "/%0a", "bad_path" }, { "/\x7f", "bad_path" }, { "/%ff", "bad_path" },
		{ "/%c0%af", "bad_path" }, { "/%ed%a0%80", "bad_path" }, { "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p", NULL },
		{ "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q", "bad_path" }, { "/a?", NULL }, { "/a?x=1&y=2", NULL }, { "/a?x", NULL }, { "/a?=1", "bad_query" },
		{ "/a?&", "bad_query" }, { "/a?x=1&", "bad_query" }, { "/a?x=1&x=2", "duplicate_parameter" }, { "/a?x=1&%78=2", "duplicate_parameter" },
		{ "/a?x=%00", "bad_query" }, { "/a?x=%ff", "bad_query" }, { "/a?x=%4", "bad_query" },
		{ "/a?a=&b=&c=&d=&e=&f=&g=&h=&i=&j=&k=&l=&m=&n=&o=&p=", NULL }, { "/a?a=&b=&c=&d=&e=&f=&g=&h=&i=&j=&k=&l=&m=&n=&o=&p=&q=", "bad_query" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cleanup_err err_t *e = NULL;
		struct uri u;
		int rc = uri_parse(arena, cases[i].target, &u, &e);

		if (rc != (cases[i].code ? -1 : 0) || (e && strcmp(err_detail(e), cases[i].code) != 0))
			fail_msg("\"%s\": %d %s", cases[i].target, rc, e ? err_detail(e) : "");
	}
}

static void keeps_what_was_decoded(void **state)
{
	cleanup_err err_t *e = NULL;
	struct uri u;

	(void)state;
	assert_int_equal(uri_parse(arena, "/a%20b/%2541?q=a+b%2B&e=", &u, NULL), 0);
	assert_int_equal(u.nsegments, 2);
	assert_string_equal(u.segments[0], "a b");
	assert_string_equal(u.segments[1], "%41");
	assert_string_equal(uri_query(&u, "q"), "a b+");
	assert_int_equal(uri_query_only(&u, "e q", NULL), 0);
	assert_int_equal(uri_query_only(&u, "q", &e), -1);
	assert_string_equal(err_detail(e), "unknown_parameter");
}

static void accept_decides_the_form(void **state)
{
	const unsigned all = 7;
	static const struct {
		const char *accept;
		enum header_form want;
	} cases[] = {
		{ NULL, HEADER_JSON }, { "", HEADER_JSON }, { "*/*", HEADER_JSON }, { "text/html", HEADER_JSON }, { "application/json", HEADER_JSON },
		{ "text/event-stream", HEADER_SSE }, { "TEXT/Event-Stream", HEADER_SSE }, { "application/x-ndjson", HEADER_NDJSON },
		{ "text/event-stream, */*", HEADER_SSE }, { "*/*, text/event-stream", HEADER_SSE }, { "text/event-stream;q=0.5, */*", HEADER_JSON },
		{ "application/json;q=0.4, text/event-stream;q=0.5", HEADER_SSE }, { "text/event-stream;q=0", HEADER_JSON },
		{ "application/json;q=0, */*", HEADER_SSE }, { "application/*", HEADER_JSON }, { "text/*", HEADER_SSE },
		{ "application/x-ndjson, text/event-stream", HEADER_NDJSON }, { "text/event-stream, application/json", HEADER_SSE },
		{ "text/event-stream ; q=1 , application/json", HEADER_SSE }, { "text/event-stream;q=2", HEADER_JSON }, { "text/event-stream;q=", HEADER_JSON },
		{ "text/event-stream;charset=utf-8;q=0.9, application/json;q=0.1", HEADER_SSE }, { ",,;;,", HEADER_JSON }, { "application/x-ndjson;q=0.001", HEADER_NDJSON },
		{ "application/x-ndjson;q=0.0001", HEADER_JSON },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (header_accept(cases[i].accept, all, HEADER_JSON) != cases[i].want)
			fail_msg("Accept: %s", cases[i].accept ? cases[i].accept : "(none)");
	assert_int_equal(header_accept("application/json", 1u << HEADER_SSE | 1u << HEADER_NDJSON, HEADER_SSE), HEADER_SSE);
}

static void bearer_is_read_strictly(void **state)
{
	(void)state;
	assert_string_equal(header_bearer("Bearer abc"), "abc");
	assert_string_equal(header_bearer("bearer   abc"), "abc");
	assert_null(header_bearer(NULL));
	assert_null(header_bearer("Bearer"));
	assert_null(header_bearer("Bearer "));
	assert_null(header_bearer("Bearer a b"));
	assert_null(header_bearer("Bearer a\x80"));
	assert_null(header_bearer("Basic abc"));
}

static void content_types_that_are_json(void **state)
{
	static const char *const yes[] = { NULL, "", "application/json", "Application/JSON; charset=utf-8", "application/json;charset=\"UTF-8\"",
					   "application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=utf-8" };
	static const char *const no[] = { "text/plain", "application/jsonp", "application/json; charset=latin1", "multipart/form-data; boundary=x", "*/*" };

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(header_is_json(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(header_is_json(no[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_what_nginx_passes), cmocka_unit_test(refuses_what_is_doubled_or_missing),
		cmocka_unit_test(a_header_may_be_so_long_and_no_longer), cmocka_unit_test(reads_the_body_it_was_told_of),
		cmocka_unit_test(notices_a_body_cut_short), cmocka_unit_test(decodes_paths_once), cmocka_unit_test(keeps_what_was_decoded),
		cmocka_unit_test(accept_decides_the_form), cmocka_unit_test(bearer_is_read_strictly), cmocka_unit_test(content_types_that_are_json),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
