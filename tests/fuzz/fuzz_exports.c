/* Export files: what comes of them is a whole environment without a doubled name, in which what may not be replaced is as it was. */
#include <stdlib.h>
#include <string.h>

#include "agent/exports.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char own_a[] = "A=own", own_env[] = "PADDOCK_ENV=/x", base_path[] = "PATH=/bin", base_user[] = "USER=user", base_b[] = "B=base";
static char *const given[] = { own_a, own_env, base_path, base_user, base_b, NULL };
#define OWN 2

static int same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

static void check(char *const *env)
{
	size_t n = 0, bytes = 0, user = 0;

	for (; env[n]; n++) {
		bytes += strlen(env[n]) + 1;
		user += strcmp(env[n], base_user) == 0;
		if (!strchr(env[n], '=') || strchr(env[n], '\n'))
			abort();
		for (size_t i = 0; i < n && i < 64; i++)
			if (same_name(env[i], env[n]))
				abort();
	}
	if (n < sizeof(given) / sizeof(given[0]) - 1 || env[0] != own_a || env[1] != own_env || user != 1 || bytes > EXPORTS_BYTES_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct exports *x = exports_new("s");

	if (!x || size > EXPORTS_BYTES_MAX) {
		free(x);
		return 0;
	}
	if (size)
		memcpy(exports_text(x), data, size);
	check(exports_merge(x, size, given, OWN));
	free(x);
	return 0;
}
