#include "fcgi/uri.h"

#include <stdbool.h>
#include <string.h>

#include "base/str.h"
#include "base/utf8.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* One byte of p[*i..n), percent-decoded; -1 when the sequence is bad. Advances *i. */
static int decode_byte(const char *p, size_t n, size_t *i)
{
	int hi, lo;

	if (p[*i] != '%')
		return (unsigned char)p[(*i)++];
	if (n - *i < 3)
		return -1;
	hi = hex_digit(p[*i + 1]);
	lo = hex_digit(p[*i + 2]);
	if (hi < 0 || lo < 0)
		return -1;
	*i += 3;
	return hi * 16 + lo;
}

/* Decodes p[0..n) into the arena. NULL: bad sequence, control byte, invalid UTF-8, or out of memory. */
static const char *decode(struct arena *a, const char *p, size_t n, bool plus_is_space)
{
	char *dst = arena_alloc(a, n + 1);
	size_t len = 0;

	if (!dst)
		return NULL;
	for (size_t i = 0; i < n;) {
		bool plus = plus_is_space && p[i] == '+';
		int c = decode_byte(p, n, &i);

		if (c < 0x20 || c == 0x7f)
			return NULL;
		dst[len++] = plus ? ' ' : (char)c;
	}
	return utf8_valid(dst, len) ? dst : NULL;
}

static bool segment_ok(const char *s)
{
	return *s && !str_eq(s, ".") && !str_eq(s, "..") && !strpbrk(s, "/\\");
}

int uri_parse_path(struct arena *a, const char *p, size_t n, struct uri *ret, err_t **err)
{
	const char *end = p + n;

	ret->nsegments = 0;
	if (n == 0 || *p != '/')
		return err_set(err, ERR_INVALID, "bad_path", "the path does not start with a slash");
	if (n == 1)
		return 0;
	while (p < end) {
		const char *from = p + 1, *slash = memchr(from, '/', (size_t)(end - from)), *to = slash ? slash : end;
		const char *s = decode(a, from, (size_t)(to - from), false);

		if (!s || !segment_ok(s))
			return err_set(err, ERR_INVALID, "bad_path", "the path has an empty, relative or badly encoded segment");
		if (ret->nsegments == LIMIT_PATH_SEGMENTS)
			return err_set(err, ERR_INVALID, "bad_path", "the path has too many segments");
		ret->segments[ret->nsegments++] = s;
		p = to;
	}
	return 0;
}

static int add_param(struct arena *a, const char *p, size_t n, struct uri *ret, err_t **err)
{
	const char *eq = memchr(p, '=', n);
	size_t name_len = eq ? (size_t)(eq - p) : n;
	const char *name = decode(a, p, name_len, true);
	const char *value = eq ? decode(a, eq + 1, n - name_len - 1, true) : "";

	if (!name || !*name || !value)
		return err_set(err, ERR_INVALID, "bad_query", "the query has a nameless or badly encoded parameter");
	if (uri_query(ret, name))
		return err_set(err, ERR_INVALID, "duplicate_parameter", "query parameter \"%.64s\" is given twice", name);
	if (ret->nparams == LIMIT_QUERY_PARAMS)
		return err_set(err, ERR_INVALID, "bad_query", "the query has too many parameters");
	ret->params[ret->nparams++] = (struct uri_param){ .name = name, .value = value };
	return 0;
}

int uri_parse_query(struct arena *a, const char *p, size_t n, struct uri *ret, err_t **err)
{
	const char *end = p + n;

	ret->nparams = 0;
	while (n > 0 && p <= end) {
		const char *amp = memchr(p, '&', (size_t)(end - p)), *to = amp ? amp : end;

		if (add_param(a, p, (size_t)(to - p), ret, err) < 0)
			return -1;
		p = to + 1;
	}
	return 0;
}

int uri_parse(struct arena *a, const char *target, struct uri *ret, err_t **err)
{
	size_t n = strlen(target), path_len = strcspn(target, "?");

	*ret = (struct uri){ 0 };
	if (n > LIMIT_PATH_BYTES)
		return err_set(err, ERR_INVALID, "bad_path", "the request target is longer than %d bytes", LIMIT_PATH_BYTES);
	if (uri_parse_path(a, target, path_len, ret, err) < 0)
		return -1;
	return path_len < n ? uri_parse_query(a, target + path_len + 1, n - path_len - 1, ret, err) : 0;
}

const char *uri_query(const struct uri *u, const char *name)
{
	for (size_t i = 0; i < u->nparams; i++)
		if (str_eq(u->params[i].name, name))
			return u->params[i].value;
	return NULL;
}

static bool in_list(const char *list, const char *word)
{
	size_t n = strlen(word);

	while (*list) {
		size_t len = strcspn(list, " ");

		if (len == n && memcmp(list, word, n) == 0)
			return true;
		list += len + strspn(list + len, " ");
	}
	return false;
}

int uri_query_only(const struct uri *u, const char *allowed, err_t **err)
{
	for (size_t i = 0; i < u->nparams; i++)
		if (!in_list(allowed, u->params[i].name))
			return err_set(err, ERR_INVALID, "unknown_parameter", "unknown query parameter \"%.64s\"", u->params[i].name);
	return 0;
}
