#include "core/json.h"

#include <endian.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "core/json_scan.h"

/* Also bounds the recursion of the scanner and of the walk below. */
#define JSON_DEPTH_MAX 128

struct census {
	size_t members;
	bool infinite;
};

static void count(const json_t *v, struct census *c)
{
	if (json_object_is_type(v, json_type_object)) {
		json_object_object_foreach((json_t *)(uintptr_t)v, key, member)
		{
			(void)key;
			c->members++;
			count(member, c);
		}
	} else if (json_object_is_type(v, json_type_array)) {
		for (size_t i = 0, n = json_object_array_length(v); i < n; i++)
			count(json_object_array_get_idx(v, i), c);
	} else if (json_object_is_type(v, json_type_double)) {
		c->infinite |= !isfinite(json_object_get_double(v));
	}
}

static json_t *build(const char *p, size_t n, int max_depth, err_t **err)
{
	struct json_tokener *tok = json_tokener_new_ex(max_depth + 2);
	enum json_tokener_error why;
	json_t *v;

	if (!tok) {
		err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
		return NULL;
	}
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	v = json_tokener_parse_ex(tok, p, (int)n);
	why = json_tokener_get_error(tok);
	if (why == json_tokener_continue) {   /* a bare number has no end of its own */
		v = json_tokener_parse_ex(tok, "", 1);
		why = json_tokener_get_error(tok);
	}
	if (why != json_tokener_success)
		err_set(err, ERR_INVALID, "bad_json", "not valid JSON: %s", json_tokener_error_desc(why));
	json_tokener_free(tok);
	return v;
}

/* Every check that json-c lacks is made by json_scan() before; a duplicate key shows as a member that is missing in what json-c
 * built, for it keeps the last. JSON null as the whole document is refused: json-c has no object for it. */
json_t *json_parse(const char *p, size_t n, size_t max_bytes, int max_depth, err_t **err)
{
	cleanup_json json_t *v = NULL;
	struct census c = { 0 };
	size_t members;

	if (n > max_bytes || n > INT_MAX) {
		err_set(err, ERR_TOO_LARGE, NULL, "JSON text is larger than %zu bytes", max_bytes);
		return NULL;
	}
	if (!utf8_valid(p, n)) {
		err_set(err, ERR_INVALID, "bad_json", "not valid JSON: the text is not UTF-8");
		return NULL;
	}
	if (max_depth > JSON_DEPTH_MAX)
		max_depth = JSON_DEPTH_MAX;
	if (json_scan(p, n, max_depth, &members, err) < 0)
		return NULL;
	v = build(p, n, max_depth, err);
	if (!v) {
		if (err && !*err)
			err_set(err, ERR_INVALID, "bad_json", "a bare null is not accepted");
		return NULL;
	}
	count(v, &c);
	if (c.members != members) {
		err_set(err, ERR_INVALID, "bad_json", "not valid JSON: an object names the same key twice");
		return NULL;
	}
	if (c.infinite) {
		err_set(err, ERR_INVALID, "bad_json", "not valid JSON: a number is out of range");
		return NULL;
	}
	return json_object_get(v);
}

const char *json_text(json_t *o, size_t *ret_len)
{
	size_t len;
	const char *s = json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);

	if (s && ret_len)
		*ret_len = len;
	return s;
}

/* The escape of the character at s, or NULL where it stands for itself; *used is its length in bytes. */
static const char *quote_escape(const uint8_t *s, size_t left, char space[8], size_t *used)
{
	*used = 1;
	switch (*s) {
	case '"': return "\\\"";
	case '\\': return "\\\\";
	case '\n': return "\\n";
	case '\r': return "\\r";
	case '\t': return "\\t";
	case '\b': return "\\b";
	case '\f': return "\\f";
	default: break;
	}
	if (*s < 0x20 || *s == 0x7f) {
		static const char hex[] = "0123456789abcdef";

		memcpy(space, "\\u00", 4);
		space[4] = hex[*s >> 4];
		space[5] = hex[*s & 15];
		space[6] = '\0';
		return space;
	}
	if (*s == 0xe2 && left >= 3 && s[1] == 0x80 && (s[2] == 0xa8 || s[2] == 0xa9)) {
		*used = 3;
		return s[2] == 0xa8 ? "\\u2028" : "\\u2029";
	}
	return NULL;
}

static bool is_plain(uint8_t c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* The same for eight bytes, the first one lowest: the top bit of the first byte that is not plain is set, of the bytes before it none is. (A subtraction
 * sets it where the byte is less than what is subtracted, and borrows only from bytes behind.) */
static uint64_t not_plain(uint64_t v)
{
	const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
	uint64_t quote = v ^ ones * '"', backslash = v ^ ones * '\\', del = v ^ ones * 0x7f;

	return (v | (v - ones * 0x20) | (quote - ones) | (backslash - ones) | (del - ones)) & tops;
}

size_t json_plain(const void *p, size_t n)
{
	const uint8_t *s = p;
	size_t i = 0;
	uint64_t eight, found;

	for (; n - i >= sizeof(eight); i += sizeof(eight)) {
		memcpy(&eight, s + i, sizeof(eight));
		found = not_plain(le64toh(eight));
		if (found)
			return i + (size_t)__builtin_ctzll(found) / 8;
	}
	while (i < n && is_plain(s[i]))
		i++;
	return i;
}

/* A run and the escape behind it. */
static void add_both(struct buf *b, const void *run, size_t n, const char *esc)
{
	size_t len = strlen(esc);

	if (buf_reserve(b, n + len) < 0)
		return;
	memcpy(b->data + b->len, run, n);
	memcpy(b->data + b->len + n, esc, len + 1);
	b->len += n + len;
}

int json_quote(struct buf *b, const void *p, size_t n)
{
	const uint8_t *s = p;
	size_t from = 0;

	buf_addc(b, '"');
	for (size_t i = 0; i < n;) {
		char space[8];
		size_t used;

		if (is_plain(s[i])) {   /* nearly all */
			i += json_plain(s + i, n - i);
			continue;
		}
		const char *esc = quote_escape(s + i, n - i, space, &used);

		if (esc) {
			add_both(b, s + from, i - from, esc);
			from = i + used;
		}
		i += used;
	}
	if (n > from)
		buf_add(b, s + from, n - from);
	return buf_addc(b, '"');
}
