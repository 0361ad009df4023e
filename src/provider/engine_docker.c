/* engine_docker.c - Docker's HTTP API, and Podman's compatible routes, which is where it is tested.
 *
 * The two want some values in another form (the seccomp profile, the network's name); which one answers is told by the socket: docker.sock is
 * Docker's own. */
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "provider/engine_rest.h"
#include "provider/engine_spec.h"

#define PROFILE_MAX (256u << 10)

static const struct engine_rest rest = { .api = "/v1.40", .ping = "/_ping", .list = "json?all=1", .remove = "?force=1&v=1" };

static struct engine *docker_open(struct loop *l, const struct engine_config *c, err_t **err)
{
	return engine_rest_open(&rest, l, c, err);
}

/* Rootless Podman's socket lies in a place of ours or has its name; a wrong guess is refused by the engine, not silently weaker. */
static bool looks_like_podman(const char *socket)
{
	const char *base = strrchr(socket, '/');

	return !(base && str_eq(base, "/docker.sock"));
}

static int docker_create(struct engine *e, const struct engine_spec *s, engine_fn *fn, void *arg, err_t **err)
{
	const struct engine_config *config = engine_rest_config(e);
	bool podman = looks_like_podman(config->socket);
	cleanup_free char *profile = NULL;
	char query[ENGINE_NAME_SIZE + 16];

	if (!podman && io_read_file(AT_FDCWD, config->seccomp, PROFILE_MAX, &profile, NULL, err) < 0)
		return err_wrap(err, "seccomp profile");
	if (str_fmt(query, sizeof(query), "?name=%s", s->name) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "container name too long");
	cleanup_json json_t *o = engine_spec_docker(config, s, profile ? profile : config->seccomp, podman);
	return engine_rest_create(e, query, o, fn, arg, err);
}

const struct engine_ops engine_docker = {
	.name = "docker",
	.open = docker_open,
	.close = engine_rest_close,
	.ping = engine_rest_ping,
	.image = engine_rest_image,
	.create = docker_create,
	.start = engine_rest_start,
	.inspect = engine_rest_inspect,
	.remove = engine_rest_remove,
	.list = engine_rest_list,
};
