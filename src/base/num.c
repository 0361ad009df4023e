#include "base/num.h"

#include <stdbool.h>
#include <stddef.h>

/* Digits only, no leading zero but "0" itself; stops at the first other byte, which *end receives. */
static int digits(const char *s, uint64_t max, uint64_t *ret, const char **end)
{
	uint64_t v = 0;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++) {
		uint64_t d = (uint64_t)(*p - '0');

		if (d > max || v > (max - d) / 10)
			return -1;
		v = v * 10 + d;
	}
	if (p == s || (*s == '0' && p != s + 1))
		return -1;
	*ret = v;
	*end = p;
	return 0;
}

int num_u64(const char *s, uint64_t max, uint64_t *ret)
{
	const char *end;
	uint64_t v;

	if (digits(s, max, &v, &end) < 0 || *end)
		return -1;
	*ret = v;
	return 0;
}

int num_i64(const char *s, int64_t min, int64_t max, int64_t *ret)
{
	bool negative = *s == '-';
	uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX, u;
	int64_t v;

	if (num_u64(s + negative, limit, &u) < 0 || (negative && u == 0))
		return -1;
	v = negative ? (int64_t)(0 - u) : (int64_t)u;
	if (v < min || v > max)
		return -1;
	*ret = v;
	return 0;
}

int num_size(const char *s, uint64_t max, uint64_t *ret)
{
	const char *end;
	unsigned shift = 0;
	uint64_t v;

	if (digits(s, max, &v, &end) < 0)
		return -1;
	if (*end) {
		switch (*end) {
		case 'K': shift = 10; break;
		case 'M': shift = 20; break;
		case 'G': shift = 30; break;
		default: return -1;
		}
		if (end[1])
			return -1;
	}
	if (v > max >> shift)
		return -1;
	*ret = v << shift;
	return 0;
}
