#include "provider/bwrap.h"

#include <stddef.h>
#include <unistd.h>

const char *bwrap_find(const char *configured)
{
	static const char *const places[] = { "/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap" };

	if (*configured)
		return access(configured, X_OK) == 0 ? configured : NULL;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}
