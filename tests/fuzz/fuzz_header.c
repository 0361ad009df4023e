/* Header values: Accept, Authorization, Content-Type, a request id. The first byte says which forms are on offer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fcgi/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	unsigned offered = n ? p[0] & 7u : 0;
	const char *token;
	char *s = malloc(n + 1);

	if (!s)
		return 0;
	memcpy(s, p, n);
	s[n] = '\0';
	if (n && offered) {
		enum header_form fallback = offered & 1 ? HEADER_JSON : offered & 2 ? HEADER_SSE : HEADER_NDJSON;

		if (!(offered & (1u << header_accept(s + 1, offered, fallback))))
			abort();
	}
	token = header_bearer(s);
	if (token && (token < s || strpbrk(token, " \r\n\t")))
		abort();
	header_is_json(s);
	header_request_id_ok(s);
	free(s);
	return 0;
}
