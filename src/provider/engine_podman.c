/* engine_podman.c - Podman by its own (libpod) API, rootless. */
#include "base/cleanup.h"
#include "provider/engine_rest.h"
#include "provider/engine_spec.h"

#define API "/v4.0.0/libpod"

/* `external` adds what only the storage knows; such entries have no labels, so the filter is ours and not the engine's. */
static const struct engine_rest rest = { .api = API, .ping = API "/_ping", .list = "json?all=true&external=true", .remove = "?force=true&timeout=0&v=true" };

static struct engine *podman_open(struct loop *l, const struct engine_config *c, err_t **err)
{
	return engine_rest_open(&rest, l, c, err);
}

static int podman_create(struct engine *e, const struct engine_spec *s, engine_fn *fn, void *arg, err_t **err)
{
	cleanup_json json_t *o = engine_spec_libpod(engine_rest_config(e), s);

	return engine_rest_create(e, "", o, fn, arg, err);
}

const struct engine_ops engine_podman = {
	.name = "podman",
	.open = podman_open,
	.close = engine_rest_close,
	.ping = engine_rest_ping,
	.image = engine_rest_image,
	.create = podman_create,
	.start = engine_rest_start,
	.inspect = engine_rest_inspect,
	.remove = engine_rest_remove,
	.list = engine_rest_list,
};
