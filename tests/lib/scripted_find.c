/* scripted_find.c - takes the place of the registry of providers: every name is the scripted one. PADDOCK_SCRIPTED_KIND (persistent, per-run) decides
 * when the name shall not. */
#include <stdlib.h>

#include "base/str.h"
#include "scripted_provider.h"

const struct provider_ops *provider_find(const char *name, err_t **err)
{
	const char *kind = getenv("PADDOCK_SCRIPTED_KIND");

	(void)err;
	return str_eq(kind ? kind : name, kind ? "per-run" : "container") ? &scripted_per_run : &scripted_persistent;
}
