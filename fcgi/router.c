#include "fcgi/router.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "core/id.h"

static bool token_id_valid(const char *s)
{
	return strspn(s, "0123456789abcdef") == 12 && s[12] == '\0';
}

static const struct {
	const char *name;
	bool (*valid)(const char *s);
} kinds[] = {
	{ "{run_id}", id_valid },
	{ "{command_id}", id_valid },
	{ "{instance_id}", id_valid },
	{ "{token_id}", token_id_valid },
};

/* A pattern's segment p[0..n) in braces against s. */
static bool param_matches(const char *p, size_t n, const char *s)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strlen(kinds[i].name) == n && memcmp(kinds[i].name, p, n) == 0)
			return kinds[i].valid(s);
	return false;
}

static bool path_matches(const char *pattern, const struct uri *u, const char *params[ROUTER_PARAMS])
{
	size_t nparams = 0, i = 0;

	for (; *pattern; i++) {
		size_t n = strcspn(++pattern, "/");

		if (i == u->nsegments)
			return false;
		if (*pattern == '{') {
			if (nparams == ROUTER_PARAMS || !param_matches(pattern, n, u->segments[i]))
				return false;
			params[nparams++] = u->segments[i];
		} else if (strlen(u->segments[i]) != n || memcmp(u->segments[i], pattern, n) != 0) {
			return false;
		}
		pattern += n;
	}
	return i == u->nsegments;
}

void router_match(const struct route *table, size_t n, enum request_method m, const struct uri *u, struct router_match *ret)
{
	enum request_method as = m == METHOD_HEAD ? METHOD_GET : m;

	*ret = (struct router_match){ 0 };
	for (size_t i = 0; i < n; i++) {
		const char *params[ROUTER_PARAMS] = { NULL };

		if (!path_matches(table[i].pattern, u, params))
			continue;
		ret->allowed |= 1u << table[i].method;
		if (table[i].method != as || ret->route)
			continue;
		ret->route = &table[i];
		memcpy(ret->params, params, sizeof(params));
	}
	if (ret->allowed & (1u << METHOD_GET))
		ret->allowed |= 1u << METHOD_HEAD;
}

void router_allow(unsigned allowed, char dst[64])
{
	static const char *const names[] = { "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH" };
	struct buf b = BUF_INIT(63);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (allowed & (1u << i))
			buf_addf(&b, "%s%s", b.len ? ", " : "", names[i]);
	str_copy(dst, 64, buf_str(&b));
	buf_free(&b);
}
