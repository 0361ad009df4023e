#include "executor/range.h"

#include <stdbool.h>
#include <string.h>

#include "base/num.h"
#include "base/str.h"

/* Digits up to `stop` at *p; moves behind the stop character. */
static bool number(const char **p, char stop, uint64_t *ret)
{
	char digits[24];
	size_t n = strspn(*p, "0123456789");

	if (n == 0 || n >= sizeof digits || (*p)[n] != stop)
		return false;
	memcpy(digits, *p, n);
	digits[n] = '\0';
	*p += n + (stop != '\0');
	return num_u64(digits, INT64_MAX, ret) == 0;
}

enum range_kind range_parse(const char *header, uint64_t size, uint64_t *from, uint64_t *length)
{
	uint64_t first, last;
	const char *p;

	if (!header || !str_prefix(header, "bytes="))
		return RANGE_WHOLE;
	p = header + strlen("bytes=");
	if (*p == '-') {
		p++;
		if (!number(&p, '\0', &last))
			return RANGE_WHOLE;
		if (last == 0 || size == 0)
			return RANGE_UNSATISFIABLE;
		*length = last < size ? last : size;
		*from = size - *length;
		return RANGE_PART;
	}
	if (!number(&p, '-', &first))
		return RANGE_WHOLE;
	if (*p == '\0')
		last = INT64_MAX;
	else if (!number(&p, '\0', &last) || last < first)
		return RANGE_WHOLE;
	if (first >= size)
		return RANGE_UNSATISFIABLE;
	*from = first;
	*length = (last < size ? last + 1 : size) - first;
	return RANGE_PART;
}
