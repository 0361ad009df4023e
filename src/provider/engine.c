/* engine.c - the registry of engines. */
#include "provider/engine.h"

#include <stddef.h>

#include "base/str.h"

static const struct engine_ops *const engines[] = { &engine_podman, &engine_docker };

const struct engine_ops *engine_find(const char *name, err_t **err)
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if (str_eq(engines[i]->name, name))
			return engines[i];
	err_set(err, ERR_REFUSED, "bad_engine", "[container] engine is \"%s\"; allowed are podman and docker", name);
	return NULL;
}
