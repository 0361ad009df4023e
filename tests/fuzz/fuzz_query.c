/* The query of a request target: what is accepted has names, each once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fcgi/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena *a = arena_new(1 << 20);
	struct uri u = { 0 };

	if (uri_parse_query(a, (const char *)p, n, &u, NULL) == 0) {
		for (size_t i = 0; i < u.nparams; i++)
			if (!*u.params[i].name || uri_query(&u, u.params[i].name) != u.params[i].value)
				abort();
	}
	arena_free(a);
	return 0;
}
