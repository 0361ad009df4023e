/* provider_caps.c - what each backend can do. Apart from the providers: the API decides by it and holds none of them. */
#include "provider/provider.h"

#include <stddef.h>

#include "base/str.h"
#include "provider/bwrap.h"

unsigned provider_caps(const char *name)
{
	static const struct {
		const char *name;
		unsigned caps;
	} known[] = {
		{ "container", PROVIDER_MOUNTS },
		{ "host", PROVIDER_PERSISTENT | PROVIDER_PAUSE | PROVIDER_RELEASE | PROVIDER_MOUNTS },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (str_eq(known[i].name, name))
			return known[i].caps;
	return 0;
}

#define KERNEL "provider host: commands run as processes of the server itself and share its kernel; for development and a single tenant only"
#define DISK "provider host: a sandbox's disk use is not limited, and background processes end when it is paused"
#define PLAINLY "NO BUBBLEWRAP: every command of every user reads this machine's files as the account of the service; install the package bubblewrap"

const char *const *provider_warnings(const char *name, const struct config *c)
{
	static const char *const none[] = { NULL };
	static const char *const host[] = { KERNEL, DISK, NULL };
	static const char *const plainly[] = { PLAINLY, KERNEL, DISK, NULL };

	if (!str_eq(name, "host"))
		return none;
	return bwrap_find(config_str(c, "host.bwrap")) ? host : plainly;
}
