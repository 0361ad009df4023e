/* scripted_find.c - takes the place of the registry of providers: every name is the scripted one. */
#include "base/str.h"
#include "scripted_provider.h"

const struct provider_ops *provider_find(const char *name, err_t **err)
{
	(void)err;
	return str_eq(name, "container") ? &scripted_per_run : &scripted_persistent;
}
