#include "unit.h"

#include "base/utf8.h"
#include "core/loop.h"
#include "executor/event.h"
#include "executor/range.h"
#include "executor/report.h"

static void same(struct buf *b, const char *want)
{
	assert_false(buf_failed(b));
	assert_string_equal(buf_str(b), want);
	buf_reset(b);
}

static void sse(void **state)
{
	struct buf b = BUF_INIT(1 << 20);

	(void)state;
	event_start(&b, &event_sse, "c1", "r1", 60000);
	same(&b, "event: start\ndata: {\"command_id\":\"c1\",\"run_id\":\"r1\",\"timeout_ms\":60000}\n\n");
	event_output(&b, &event_sse, "stdout", 12, "a\r\n\"b\"\xe2\x80\xa8", 9, false);
	same(&b, "event: stdout\nid: 12\ndata: {\"seq\":12,\"text\":\"a\\r\\n\\\"b\\\"\\u2028\"}\n\n");
	event_output(&b, &event_sse, "stderr", 3, "\xff\0a", 3, false);
	same(&b, "event: stderr\nid: 3\ndata: {\"seq\":3,\"base64\":\"/wBh\"}\n\n");
	event_gap(&b, &event_sse, 5, 9);
	same(&b, "event: gap\nid: 9\ndata: {\"from\":5,\"to\":9,\"seq\":9}\n\n");
	event_exit(&b, &event_sse, 9, "\"id\":1", 6);
	same(&b, "event: exit\nid: 9\ndata: {\"id\":1}\n\n");
	buf_free(&b);
}

static void ndjson(void **state)
{
	struct buf b = BUF_INIT(1 << 20);

	(void)state;
	event_start(&b, &event_ndjson, "c1", "", 1);
	same(&b, "{\"type\":\"start\",\"command_id\":\"c1\",\"run_id\":null,\"timeout_ms\":1}\n");
	event_output(&b, &event_ndjson, "stdout", 2, "a\n", 2, true);
	same(&b, "{\"type\":\"stdout\",\"seq\":2,\"base64\":\"YQo=\"}\n");
	event_gap(&b, &event_ndjson, 0, 4);
	same(&b, "{\"type\":\"gap\",\"from\":0,\"to\":4,\"seq\":4}\n");
	event_exit(&b, &event_ndjson, 9, "\"id\":1", 6);
	same(&b, "{\"type\":\"exit\",\"id\":1}\n");
	buf_free(&b);
}

/* No piece makes an event that is larger than promised, and no character is cut. */
static void fits(void **state)
{
	static const char *const units[] = { "a", "\"", "\x01", "\xe2\x80\xa8", "\xf0\x9f\x98\x80", "\xc3\xa9\x7f" };
	static char p[32 << 10];
	struct buf b = BUF_INIT(1 << 20);

	(void)state;
	for (size_t u = 0; u < UNIT_LEN(units); u++) {
		size_t len = strlen(units[u]), n = sizeof p / len * len, fit;

		for (size_t i = 0; i < n; i++)
			p[i] = units[u][i % len];
		fit = event_fit(p, n);
		assert_true(fit > 0 && fit <= n);
		assert_true(utf8_valid(p, fit));
		event_output(&b, &event_ndjson, "stdout", n, p, fit, false);
		assert_true(b.len <= EVENT_MAX + 100);
		buf_reset(&b);
	}
	buf_free(&b);
}

/* With plain and escaped characters in every mixture: the largest piece that fits, judged character by character. */
static void fits_exactly(void **state)
{
	static const char *const kinds[] = { "x", "x", "\n", "\x01", "\x7f", "\"", "\xc3\xa9" };
	static const size_t sizes[] = { 1, 1, 6, 6, 6, 2, 2 };
	static char p[32 << 10];
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 50; round++) {
		size_t n = 0, used = 0, want = 0;

		for (unsigned run = 0; n < sizeof p - 4; run++) {
			unsigned k = (seed = seed * 1103515245u + 12345u) >> 16;
			size_t kind = (k / 7) % UNIT_LEN(kinds), times = round % 2 ? 1 : k % 40;

			for (size_t i = 0; i < times && n < sizeof p - 4; i++) {
				memcpy(p + n, kinds[kind], strlen(kinds[kind]));
				n += strlen(kinds[kind]);
				used += sizes[kind];
				if (used <= EVENT_MAX)
					want = n;
			}
		}
		assert_int_equal(event_fit(p, n), want);
	}
}

static void ranges(void **state)
{
	static const struct {
		const char *header;
		enum range_kind kind;
		uint64_t from, length;
	} t[] = {
		{ NULL, RANGE_WHOLE, 0, 0 }, { "bytes=0-0", RANGE_PART, 0, 1 }, { "bytes=2-", RANGE_PART, 2, 8 }, { "bytes=-3", RANGE_PART, 7, 3 },
		{ "bytes=-30", RANGE_PART, 0, 10 }, { "bytes=9-100", RANGE_PART, 9, 1 }, { "bytes=10-", RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=-0", RANGE_UNSATISFIABLE, 0, 0 }, { "bytes=5-4", RANGE_WHOLE, 0, 0 }, { "bytes=", RANGE_WHOLE, 0, 0 },
		{ "bytes=1", RANGE_WHOLE, 0, 0 }, { "bytes=1-2,3-4", RANGE_WHOLE, 0, 0 }, { "lines=1-2", RANGE_WHOLE, 0, 0 }, { "bytes=-", RANGE_WHOLE, 0, 0 },
		{ "bytes=99999999999999999999-", RANGE_WHOLE, 0, 0 }, { "bytes=0-18446744073709551615", RANGE_WHOLE, 0, 0 }, { "bytes= 1-2", RANGE_WHOLE, 0, 0 },
		{ "bytes=1-9223372036854775807", RANGE_PART, 1, 9 },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		uint64_t from = 0, length = 0;

		assert_int_equal(range_parse(t[i].header, 10, &from, &length), t[i].kind);
		if (t[i].kind == RANGE_PART) {
			assert_int_equal(from, t[i].from);
			assert_int_equal(length, t[i].length);
		}
	}
}

static void report_keys(void **state)
{
	static const char *const bad[] = { "", "c", "c:", "x:01900000-0000-7000-8000-000000000001:3", "c:01900000-0000-7000-8000-000000000001",
		"c:01900000-0000-7000-8000-000000000001:", "c:01900000-0000-7000-8000-00000000000x:3", "c:01900000-0000-7000-8000-000000000001:-1" };
	struct report p;
	enum report_kind kind;
	char key[REPORT_KEY_SIZE], id[ID_SIZE];
	uint64_t version;

	(void)state;
	report_init(&p, REPORT_INSTANCE, "01900000-0000-7000-8000-000000000001");
	p.version = UINT64_MAX;
	report_key(&p, key);
	assert_int_equal(report_key_parse(key, &kind, id, &version), 0);
	assert_true(kind == REPORT_INSTANCE && version == UINT64_MAX);
	assert_string_equal(id, p.id);
	for (size_t i = 0; i < UNIT_LEN(bad); i++)
		assert_int_equal(report_key_parse(bad[i], &kind, id, &version), -1);
}

static enum report_said said_of_a, said_of_b;
static unsigned asked;

static enum report_said on_report(void *arg, const struct report *p)
{
	(void)arg;
	asked++;
	return p->id[0] == 'a' ? said_of_a : said_of_b;
}

static unsigned ask(struct reports *r)
{
	asked = 0;
	reports_each(r, on_report, NULL);
	return asked;
}

/* What cannot be made is not due again at once, or whoever waits for reports would never wait; what is void goes. */
static void reports_put_off(void **state)
{
	static const char a[] = "aaaaaaaa-0000-7000-8000-000000000001", b[] = "bbbbbbbb-0000-7000-8000-000000000001", c[] = "cccccccc-0000-7000-8000-000000000001";
	struct loop *l = loop_new(NULL);
	struct reports *r = reports_new(l, NULL);
	struct report later;

	(void)state;
	reports_instance(r, a, 1);
	reports_instance(r, b, 1);
	said_of_a = REPORT_PUT_OFF;
	said_of_b = REPORT_NEXT;
	assert_int_equal(ask(r), 2);
	assert_int_equal(ask(r), 1);
	said_of_b = REPORT_VOID;
	assert_int_equal(ask(r), 1);
	assert_int_equal(ask(r), 0);
	assert_false(reports_any(r));
	report_init(&later, REPORT_COMMAND, c);
	report_later(r, &later);               /* due long before a */
	assert_true(list_entry(later.node.next, struct report, node)->id[0] == 'a');
	reports_instance(r, a, 2);             /* changed: told now */
	assert_int_equal(reports_count(r), 1);
	report_drop(r, &later);
	assert_int_equal(reports_count(r), 1);
	reports_instance_acked(r, a, 2);
	reports_free(r);
	loop_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sse), cmocka_unit_test(ndjson), cmocka_unit_test(fits), cmocka_unit_test(fits_exactly), cmocka_unit_test(ranges), cmocka_unit_test(report_keys),
		cmocka_unit_test(reports_put_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
