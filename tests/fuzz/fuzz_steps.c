/* The log of a command: whatever is in the file, what is taken from it lies in it and can be shown. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "executor/steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct steps s;

	if (steps_parse((const char *)p, n, &s, NULL) < 0)
		return 0;
	if (s.record_off + s.record_len >= n || p[s.record_off + s.record_len] != '\n' || strlen(s.instance) != ID_SIZE - 1)
		abort();
	if (s.ended && !reason_name(s.end.reason))
		abort();
	return 0;
}
