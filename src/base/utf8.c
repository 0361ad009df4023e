#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

static bool is_cont(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

/* The length that a first byte announces; 0 for a byte that cannot be first. */
static size_t announced(uint8_t c)
{
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef)
		return 3;
	if (c >= 0xf0 && c <= 0xf4)
		return 4;
	return 0;
}

/* Second bytes have a narrower range after E0, ED, F0, F4: that is where overlong forms, surrogates and the end lie. */
static bool second_ok(uint8_t first, uint8_t second)
{
	switch (first) {
	case 0xe0: return second >= 0xa0 && second <= 0xbf;
	case 0xed: return second >= 0x80 && second <= 0x9f;
	case 0xf0: return second >= 0x90 && second <= 0xbf;
	case 0xf4: return second >= 0x80 && second <= 0x8f;
	default: return is_cont(second);
	}
}

/* Whether the have (<= announced) bytes at p are right as far as they go. */
static bool begins(const uint8_t *p, size_t have)
{
	if (have > 1 && !second_ok(p[0], p[1]))
		return false;
	for (size_t i = 2; i < have; i++) {
		if (!is_cont(p[i]))
			return false;
	}
	return true;
}

bool utf8_valid(const void *p, size_t n)
{
	const uint8_t *s = p;

	for (size_t i = 0; i < n;) {
		uint64_t eight = 0;

		if (n - i >= sizeof(eight))
			memcpy(&eight, s + i, sizeof(eight));
		if (n - i >= sizeof(eight) && !(eight & 0x8080808080808080u)) {   /* all ASCII */
			i += sizeof(eight);
			continue;
		}
		size_t len = announced(s[i]);

		if (!len || len > n - i || !begins(s + i, len))
			return false;
		i += len;
	}
	return true;
}

size_t utf8_partial_tail(const void *p, size_t n)
{
	const uint8_t *s = p;

	for (size_t k = 1; k <= 3 && k <= n; k++) {
		const uint8_t *q = s + n - k;
		size_t len;

		if (is_cont(*q))
			continue;
		len = announced(*q);
		return len > k && begins(q, k) ? k : 0;
	}
	return 0;
}

size_t utf8_partial_head(const void *p, size_t n)
{
	const uint8_t *s = p;
	size_t k = 0;

	while (k < 3 && k < n && is_cont(s[k]))
		k++;
	return k;
}
