/* The path of a request target: what is accepted holds no empty, relative or hidden segment and is valid UTF-8. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fcgi/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena *a = arena_new(1 << 20);
	struct uri u = { 0 };

	if (uri_parse_path(a, (const char *)p, n, &u, NULL) == 0) {
		for (size_t i = 0; i < u.nsegments; i++) {
			const char *s = u.segments[i];

			if (!*s || strcmp(s, ".") == 0 || strcmp(s, "..") == 0 || strchr(s, '/') || !utf8_valid(s, strlen(s)))
				abort();
		}
	}
	arena_free(a);
	return 0;
}
