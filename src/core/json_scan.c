#include "core/json_scan.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct scan {
	const char *p, *end, *begin;
	int max_depth;
	size_t members;
	const char *why;
};

static int value(struct scan *s, int depth);

static int bad(struct scan *s, const char *why)
{
	if (!s->why)
		s->why = why;
	return -1;
}

static void space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
}

static bool take(struct scan *s, char c)
{
	if (s->p == s->end || *s->p != c)
		return false;
	s->p++;
	return true;
}

static bool digit(const struct scan *s)
{
	return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

static int word(struct scan *s, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n) != 0)
		return bad(s, "unexpected word");
	s->p += n;
	return 0;
}

static int some_digits(struct scan *s)
{
	if (!digit(s))
		return bad(s, "malformed number");
	while (digit(s))
		s->p++;
	return 0;
}

/* json-c clamps integers that it cannot hold; text that would not come back as it was is refused. [p..end) are digits. */
static int fits(struct scan *s, const char *p, bool negative)
{
	uint64_t max = negative ? (uint64_t)INT64_MAX + 1 : UINT64_MAX, v = 0;

	for (; p < s->p; p++) {
		uint64_t d = (uint64_t)(*p - '0');

		if (v > (max - d) / 10)
			return bad(s, "integer out of range");
		v = v * 10 + d;
	}
	return 0;
}

static int number(struct scan *s)
{
	bool negative = take(s, '-');
	const char *first = s->p;

	if (take(s, '0')) {
		if (digit(s))
			return bad(s, "number with a leading zero");
	} else if (some_digits(s) < 0) {
		return -1;
	}
	if (s->p == s->end || !strchr(".eE", *s->p))
		return fits(s, first, negative);
	if (take(s, '.') && some_digits(s) < 0)
		return -1;
	if (take(s, 'e') || take(s, 'E')) {
		if (!take(s, '+'))
			(void)take(s, '-');
		return some_digits(s);
	}
	return 0;
}

static int hex4(struct scan *s, unsigned *ret)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++, s->p++) {
		char c = s->p < s->end ? *s->p : '\0';

		if (c >= '0' && c <= '9')
			v = v << 4 | (unsigned)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			v = v << 4 | (unsigned)((c | 32) - 'a' + 10);
		else
			return bad(s, "malformed \\u escape");
	}
	*ret = v;
	return 0;
}

static int unicode_escape(struct scan *s, bool is_name)
{
	unsigned hi, lo;

	if (hex4(s, &hi) < 0)
		return -1;
	if (hi == 0 && is_name)
		return bad(s, "NUL in a member name");
	if (hi < 0xd800 || hi > 0xdfff)
		return 0;
	if (hi > 0xdbff || !take(s, '\\') || !take(s, 'u'))
		return bad(s, "lone surrogate");
	if (hex4(s, &lo) < 0)
		return -1;
	return lo < 0xdc00 || lo > 0xdfff ? bad(s, "lone surrogate") : 0;
}

static int escape(struct scan *s, bool is_name)
{
	char c = s->p < s->end ? *s->p++ : '\0';

	if (c == 'u')
		return unicode_escape(s, is_name);
	return c && strchr("\"\\/bfnrt", c) ? 0 : bad(s, "unknown escape");
}

static int string(struct scan *s, bool is_name)
{
	if (!take(s, '"'))
		return bad(s, is_name ? "member name expected" : "value expected");
	while (s->p < s->end) {
		uint8_t c = (uint8_t)*s->p++;

		if (c == '"')
			return 0;
		if (c < 0x20)
			return bad(s, "raw control byte in a string");
		if (c == '\\' && escape(s, is_name) < 0)
			return -1;
	}
	return bad(s, "unfinished string");
}

static int member(struct scan *s, int depth)
{
	space(s);
	if (string(s, true) < 0)
		return -1;
	space(s);
	if (!take(s, ':'))
		return bad(s, "colon expected");
	s->members++;
	return value(s, depth);
}

/* The inside of an object or array, after its opening bracket. */
static int inside(struct scan *s, int depth, bool is_object)
{
	char close = is_object ? '}' : ']';

	if (depth > s->max_depth)
		return bad(s, "nested too deep");
	space(s);
	if (take(s, close))
		return 0;
	for (;;) {
		if ((is_object ? member(s, depth) : value(s, depth)) < 0)
			return -1;
		space(s);
		if (take(s, close))
			return 0;
		if (!take(s, ','))
			return bad(s, "comma or closing bracket expected");
	}
}

static int value(struct scan *s, int depth)
{
	space(s);
	if (s->p == s->end)
		return bad(s, "unexpected end");
	switch (*s->p) {
	case '{':
		s->p++;
		return inside(s, depth + 1, true);
	case '[':
		s->p++;
		return inside(s, depth + 1, false);
	case 't': return word(s, "true");
	case 'f': return word(s, "false");
	case 'n': return word(s, "null");
	case '"': return string(s, false);
	default:
		return *s->p == '-' || digit(s) ? number(s) : bad(s, "value expected");
	}
}

int json_scan(const char *p, size_t n, int max_depth, size_t *ret_members, err_t **err)
{
	struct scan s = { .p = p, .begin = p, .end = p + n, .max_depth = max_depth };
	int rc = value(&s, 0);

	if (rc == 0) {
		space(&s);
		if (s.p != s.end)
			rc = bad(&s, "bytes after the value");
	}
	if (rc < 0)
		return err_set(err, ERR_INVALID, "bad_json", "not valid JSON: %s at byte %zu", s.why, (size_t)(s.p - s.begin));
	*ret_members = s.members;
	return 0;
}
