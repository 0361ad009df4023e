/* UTF-8: a text cut anywhere is valid without its partial tail. Numbers: what is accepted prints as it was. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void utf8(const uint8_t *p, size_t n)
{
	size_t tail = utf8_partial_tail(p, n), head = utf8_partial_head(p, n);

	if (tail > 3 || tail > n || head > 3 || head > n)
		abort();
	if (!utf8_valid(p, n))
		return;
	if (tail || head)
		abort();
	for (size_t cut = 0; cut < n; cut++) {
		tail = utf8_partial_tail(p, cut);
		head = utf8_partial_head(p + cut, n - cut);
		if (!utf8_valid(p, cut - tail) || !utf8_valid(p + cut + head, n - cut - head))
			abort();
	}
}

static void numbers(const char *s)
{
	char text[32];
	uint64_t u;
	int64_t i;

	if (num_i64(s, INT64_MIN, INT64_MAX, &i) == 0) {
		snprintf(text, sizeof text, "%" PRId64, i);
		if (strcmp(text, s) != 0)
			abort();
	}
	if (num_u64(s, UINT64_MAX, &u) == 0) {
		snprintf(text, sizeof text, "%" PRIu64, u);
		if (strcmp(text, s) != 0)
			abort();
	}
	if (num_size(s, UINT32_MAX, &u) == 0 && u > UINT32_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *s = strndup((const char *)data, size);

	utf8(data, size);
	numbers(s);
	free(s);
	return 0;
}
