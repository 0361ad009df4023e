#include "unit.h"

#include "base/err.h"
#include "core/json.h"

#define S(text) text, sizeof(text) - 1

static json_t *parse(const char *p, size_t n)
{
	return json_parse(p, n, 1 << 20, 8, NULL);
}

static void accepts(void **state)
{
	static const struct {
		const char *p;
		size_t n;
	} t[] = {
		{ S("{}") }, { S("[]") }, { S(" { \"a\" : [ 1 , 2.5e-3 , \"x\" , true , false , null ] } \r\n\t") }, { S("42") }, { S("-0") },
		{ S("\"\"") }, { S("\"\\u0000\"") }, { S("\"\\ud83d\\ude00\"") }, { S("\"\xf0\x9f\x98\x80\"") }, { S("true") },
		{ S("{\"a\":1,\"b\":{\"a\":1}}") }, { S("[{\"a\":1},{\"a\":1}]") }, { S("{\"\":1}") }, { S("9223372036854775807") },
		{ S("\"\x7f\"") }, { S("[[[[[[[[]]]]]]]]") }, { S("1.0E+2") }, { S("\"\\/\\b\\f\\n\\r\\t\\\"\\\\\"") },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		json_t *v = parse(t[i].p, t[i].n);

		if (!v)
			fail_msg("refused: %s", t[i].p);
		json_object_put(v);
	}
}

static void refuses(void **state)
{
	static const struct {
		const char *p;
		size_t n;
	} t[] = {
		{ S("") }, { S(" ") }, { S("null") }, { S("{") }, { S("{}x") }, { S("{} {}") }, { S("{}\0") }, { S("\0") }, { S("{\"a\":1,}") },
		{ S("[1,]") }, { S("[,1]") }, { S("[1 2]") }, { S("{\"a\" 1}") }, { S("{a:1}") }, { S("{'a':1}") }, { S("'a'") }, { S("NaN") },
		{ S("Infinity") }, { S("-Infinity") }, { S("[nan]") }, { S("True") }, { S("01") }, { S("-") }, { S("+1") }, { S("1.") }, { S(".5") },
		{ S("1e") }, { S("1e999") }, { S("0x10") }, { S("/* c */1") }, { S("1 // c") }, { S("\"a") }, { S("\"a\nb\"") }, { S("\"a\tb\"") },
		{ S("\"\\x\"") }, { S("\"\\u12\"") }, { S("\"\\u12g4\"") }, { S("\"\\ud800\"") }, { S("\"\\udc00\"") }, { S("\"\\ud800\\u0041\"") },
		{ S("\"\xff\"") }, { S("\"\xed\xa0\x80\"") }, { S("\xef\xbb\xbf{}") }, { S("{\"a\":1,\"a\":2}") },
		{ S("{\"a\":1,\"\\u0061\":2}") }, { S("{\"a\":{\"b\":1},\"a\":{\"b\":1,\"c\":2}}") }, { S("[{\"x\":{\"k\":1,\"k\":1}}]") },
		{ S("{\"a\\u0000b\":1}") }, { S("{\"a\":\"\\u0000\",\"a\":1}") }, { S("[[[[[[[[[]]]]]]]]]") }, { S("\v1") }, { S("1\xc2\xa0") },
		{ S("{\"a\":}") }, { S("{:1}") }, { S("{\"a\"}") }, { S("]") }, { S("[}") }, { S("nul") }, { S("nullx") }, { S("\"\\") },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		err_t *e = NULL;
		json_t *v = json_parse(t[i].p, t[i].n, 1 << 20, 8, &e);

		if (v)
			fail_msg("accepted: %s", t[i].p);
		assert_int_equal(err_code(e), ERR_INVALID);
		assert_string_equal(err_detail(e), "bad_json");
		err_free(e);
	}
}

static void size_limit(void **state)
{
	err_t *e = NULL;
	json_t *v = json_parse(S("[12]"), 4, 8, NULL);

	(void)state;
	assert_non_null(v);
	json_object_put(v);
	assert_null(json_parse(S("[123]"), 4, 8, &e));
	assert_int_equal(err_code(e), ERR_TOO_LARGE);
	err_free(e);
}

static void depth_limit(void **state)
{
	(void)state;
	for (int depth = 1; depth <= 200; depth++) {
		char text[401];
		json_t *v;

		memset(text, '[', (size_t)depth);
		memset(text + depth, ']', (size_t)depth);
		v = json_parse(text, 2 * (size_t)depth, sizeof text, depth, NULL);
		assert_int_equal(v != NULL, depth <= 128);
		json_object_put(v);
		assert_null(json_parse(text, 2 * (size_t)depth, sizeof text, depth - 1, NULL));
	}
}

static void many_members(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	json_t *v;

	(void)state;
	buf_addc(&b, '{');
	for (int i = 0; i < 50000; i++)
		buf_addf(&b, "\"k%d\":%d,", i, i);
	buf_adds(&b, "\"last\":0}");
	assert_false(buf_failed(&b));
	v = parse(b.data, b.len);
	assert_non_null(v);
	assert_int_equal(json_object_object_length(v), 50001);
	json_object_put(v);
	buf_free(&b);
}

static void typed_access(void **state)
{
	json_t *o = parse(S("{\"s\":\"x\",\"z\":\"a\\u0000b\",\"n\":7,\"b\":true,\"o\":{\"k\":1},\"a\":[1],\"nil\":null,\"f\":1.0}"));
	const char *s = "kept";
	const json_t *sub = NULL;
	size_t len = 99;
	int64_t n = 99;
	bool b = false;

	(void)state;
	assert_int_equal(json_get_str(o, "s", true, &s, NULL), 0);
	assert_string_equal(s, "x");
	assert_int_equal(json_get_str(o, "z", true, &s, NULL), -1);
	assert_string_equal(s, "x");
	assert_int_equal(json_get_mem(o, "z", true, &s, &len, NULL), 0);
	assert_int_equal(len, 3);
	assert_memory_equal(s, "a\0b", 3);
	assert_int_equal(json_get_i64(o, "n", true, 7, 7, &n, NULL), 0);
	assert_int_equal(n, 7);
	assert_int_equal(json_get_i64(o, "n", true, 8, 9, &n, NULL), -1);
	assert_int_equal(json_get_i64(o, "n", true, 0, 6, &n, NULL), -1);
	assert_int_equal(json_get_i64(o, "f", true, 0, 9, &n, NULL), -1);
	assert_int_equal(json_get_bool(o, "b", true, &b, NULL), 0);
	assert_true(b);
	assert_int_equal(json_get_bool(o, "n", true, &b, NULL), -1);
	assert_int_equal(json_get_obj(o, "o", true, &sub, NULL), 0);
	assert_true(json_has(sub, "k"));
	assert_int_equal(json_get_obj(o, "a", true, &sub, NULL), -1);
	assert_int_equal(json_get_arr(o, "a", true, &sub, NULL), 0);
	assert_int_equal(json_get_arr(o, "o", true, &sub, NULL), -1);
	assert_false(json_has(o, "nil"));
	json_object_put(o);
}

static void absent_and_null(void **state)
{
	json_t *o = parse(S("{\"nil\":null}")), *a = parse(S("[]"));
	const char *s = "kept";
	err_t *e = NULL;

	(void)state;
	assert_int_equal(json_get_str(o, "nil", false, &s, NULL), 0);
	assert_int_equal(json_get_str(o, "none", false, &s, NULL), 0);
	assert_string_equal(s, "kept");
	assert_int_equal(json_get_str(o, "none", true, &s, &e), -1);
	assert_string_equal(err_detail(e), "bad_field");
	assert_non_null(strstr(err_message(e), "\"none\""));
	err_free(e);
	assert_int_equal(json_get_str(o, "nil", true, &s, NULL), -1);
	assert_int_equal(json_get_str(a, "x", false, &s, NULL), -1);   /* not an object */
	json_object_put(o);
	json_object_put(a);
}

static void integers_beyond_64_bits(void **state)
{
	static const struct {
		const char *text;
		int rc;
		int64_t value;
	} t[] = {
		{ "{\"n\":9223372036854775807}", 0, INT64_MAX }, { "{\"n\":9223372036854775808}", -1, 0 },
		{ "{\"n\":18446744073709551615}", -1, 0 }, { "{\"n\":-9223372036854775808}", 0, INT64_MIN },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		json_t *o = parse(t[i].text, strlen(t[i].text));
		int64_t n = 5;

		assert_non_null(o);
		assert_int_equal(json_get_i64(o, "n", true, INT64_MIN, INT64_MAX, &n, NULL), t[i].rc);
		assert_true(n == (t[i].rc ? 5 : t[i].value));
		json_object_put(o);
	}
	/* What json-c cannot keep is no valid text at all. */
	assert_null(parse(S("{\"n\":18446744073709551616}")));
	assert_null(parse(S("{\"n\":-9223372036854775809}")));
}

static void only_keys(void **state)
{
	static const char *const keys[] = { "a", "b", NULL };
	json_t *o = parse(S("{\"a\":1,\"b\":2}")), *p = parse(S("{\"a\":1,\"c\":2}")), *q = parse(S("[]"));
	err_t *e = NULL;

	(void)state;
	assert_int_equal(json_only_keys(o, keys, NULL), 0);
	assert_int_equal(json_only_keys(p, keys, &e), -1);
	assert_string_equal(err_detail(e), "unknown_field");
	assert_non_null(strstr(err_message(e), "\"c\""));
	err_free(e);
	assert_int_equal(json_only_keys(q, keys, NULL), -1);
	json_object_put(o);
	json_object_put(p);
	json_object_put(q);
}

static void builds_and_prints(void **state)
{
	json_t *o = json_object_new_object();
	size_t n;

	(void)state;
	assert_int_equal(json_add_str(o, "s", "a/b\"\n"), 0);
	assert_int_equal(json_add_str(o, "none", NULL), 0);
	assert_int_equal(json_add_mem(o, "m", "a\0b", 3), 0);
	assert_int_equal(json_add_mem(o, "e", NULL, 0), 0);
	assert_int_equal(json_add_i64(o, "n", INT64_MIN), 0);
	assert_int_equal(json_add_bool(o, "b", false), 0);
	assert_int_equal(json_add(o, "o", json_object_new_object()), 0);
	assert_string_equal(json_text(o, &n),
		"{\"s\":\"a/b\\\"\\n\",\"none\":null,\"m\":\"a\\u0000b\",\"e\":\"\",\"n\":-9223372036854775808,\"b\":false,\"o\":{}}");
	assert_int_equal(n, strlen(json_text(o, NULL)));
	json_object_put(o);
}

/* Every code point but the surrogates comes back through the parser as it was. */
static void quote_round_trip(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 0x11000; c++) {
		char raw[4];
		size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
		struct buf b = BUF_INIT(64);
		json_t *v;

		if (c >= 0xd800 && c <= 0xdfff)
			continue;
		for (size_t i = n; i > 1; i--)
			raw[i - 1] = (char)(0x80 | (c >> (6 * (n - i)) & 0x3f));
		raw[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xff) | c >> (6 * (n - 1)));
		assert_int_equal(json_quote(&b, raw, n), 0);
		v = parse(b.data, b.len);
		assert_non_null(v);
		assert_int_equal(json_object_get_string_len(v), n);
		assert_memory_equal(json_object_get_string(v), raw, n);
		json_object_put(v);
		buf_free(&b);
	}
}

/* Every byte at every place of a word, with every kind of neighbour. */
static void plain_runs(void **state)
{
	static const uint8_t fill[] = { 'x', ' ', '~', '!', '#', '[', ']' };
	uint8_t p[24];

	(void)state;
	for (size_t f = 0; f < sizeof fill; f++)
		for (size_t at = 0; at < sizeof p; at++)
			for (int c = 0; c < 256; c++) {
				bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';

				memset(p, fill[f], sizeof p);
				p[at] = (uint8_t)c;
				assert_int_equal(json_plain(p, sizeof p), plain ? sizeof p : at);
				assert_int_equal(json_plain(p, at), at);
			}
}

static void quote_escapes(void **state)
{
	struct buf b = BUF_INIT(200);

	(void)state;
	assert_int_equal(json_quote(&b, S("a\"\\\n\r\t\b\f\0\x1f\x7f\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa/")), 0);
	assert_string_equal(buf_str(&b), "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0000\\u001f\\u007f\\u2028\\u2029\xe2\x80\xaa/\"");
	buf_free(&b);
	buf_init(&b, 4);
	assert_int_equal(json_quote(&b, "ab", 2), 0);
	buf_reset(&b);
	assert_int_equal(json_quote(&b, "abc", 3), -1);
	buf_reset(&b);
	assert_int_equal(json_quote(&b, NULL, 0), 0);
	assert_string_equal(buf_str(&b), "\"\"");
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts), cmocka_unit_test(refuses), cmocka_unit_test(size_limit), cmocka_unit_test(depth_limit),
		cmocka_unit_test(many_members), cmocka_unit_test(typed_access), cmocka_unit_test(absent_and_null),
		cmocka_unit_test(integers_beyond_64_bits), cmocka_unit_test(only_keys), cmocka_unit_test(builds_and_prints),
		cmocka_unit_test(quote_round_trip), cmocka_unit_test(quote_escapes), cmocka_unit_test(plain_runs),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
