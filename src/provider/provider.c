/* provider.c - the registry of providers. */
#include "provider/provider.h"

#include <stddef.h>

#include "base/str.h"

static const struct provider_ops *const providers[] = { &provider_container, &provider_host };

const struct provider_ops *provider_find(const char *name, err_t **err)
{
	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
		if (str_eq(providers[i]->name, name))
			return providers[i];
	err_set(err, ERR_REFUSED, "bad_backend", "no provider \"%s\"; allowed are container and host", name);
	return NULL;
}
