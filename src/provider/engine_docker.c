/* engine_docker.c - Docker's HTTP API, and Podman's compatible routes, which is where it is tested.
 *
 * The two want some values in another form (the seccomp profile, the network's name); which one answers is told by the socket: docker.sock is
 * Docker's own. */
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "provider/engine_http.h"
#include "provider/engine_spec.h"

#define API "/v1.40"
#define PING_MS 2000
#define ASK_MS 10000
#define ACT_MS 30000
#define PROFILE_MAX (256u << 10)

struct engine {
	const struct engine_config *config;
	struct engine_http *http;
	bool podman;
};

static void docker_close(struct engine *e)
{
	if (!e)
		return;
	engine_http_free(e->http);
	free(e);
}

/* Rootless Podman's socket lies in a place of ours or has its name; a wrong guess is refused by the engine, not silently weaker. */
static bool looks_like_podman(const char *socket)
{
	const char *base = strrchr(socket, '/');

	return !(base && str_eq(base, "/docker.sock"));
}

static struct engine *docker_open(struct loop *l, const struct engine_config *c, err_t **err)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e) {
		err_set(err, ERR_NO_MEMORY, NULL, "engine");
		return NULL;
	}
	e->config = c;
	e->podman = looks_like_podman(c->socket);
	e->http = engine_http_new(l, c->socket, err);
	if (!e->http) {
		free(e);
		return NULL;
	}
	return e;
}

static int docker_ping(struct engine *e, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "GET", .path = "/_ping", .timeout_ms = PING_MS };

	return engine_http_do(e->http, &c, fn, arg, err);
}

static int docker_image(struct engine *e, engine_fn *fn, void *arg, err_t **err)
{
	cleanup_buf struct buf path = BUF_INIT(1024);
	struct engine_http_call c = { .method = "GET", .timeout_ms = ASK_MS, .parse = ENGINE_HTTP_ID };

	buf_adds(&path, API "/images/");
	engine_http_escape(&path, e->config->image);
	if (buf_adds(&path, "/json") < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "image name too long");
	c.path = buf_str(&path);
	return engine_http_do(e->http, &c, fn, arg, err);
}

static int docker_create(struct engine *e, const struct engine_spec *s, engine_fn *fn, void *arg, err_t **err)
{
	cleanup_free char *profile = NULL;
	char path[ENGINE_NAME_SIZE + 64];
	struct engine_http_call c = { .method = "POST", .path = path, .timeout_ms = ACT_MS, .parse = ENGINE_HTTP_ID, .clash_on_500 = true };

	if (!e->podman && io_read_file(AT_FDCWD, e->config->seccomp, PROFILE_MAX, &profile, NULL, err) < 0)
		return err_wrap(err, "seccomp profile");
	cleanup_json json_t *o = engine_spec_docker(e->config, s, profile ? profile : e->config->seccomp, e->podman);
	c.body = o ? json_text(o, NULL) : NULL;
	if (!c.body || str_fmt(path, sizeof(path), API "/containers/create?name=%s", s->name) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "engine: create");
	return engine_http_do(e->http, &c, fn, arg, err);
}

static int on_container(struct engine *e, const char *name, const char *tail, struct engine_http_call *c, engine_fn *fn, void *arg, err_t **err)
{
	char path[ENGINE_NAME_SIZE + 128];

	if (str_fmt(path, sizeof(path), API "/containers/%s%s", name, tail) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "container name too long");
	c->path = path;
	return engine_http_do(e->http, c, fn, arg, err);
}

static int docker_start(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "POST", .timeout_ms = ACT_MS };

	return on_container(e, name, "/start", &c, fn, arg, err);
}

static int docker_inspect(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "GET", .timeout_ms = ASK_MS, .parse = ENGINE_HTTP_INSPECT };

	return on_container(e, name, "/json", &c, fn, arg, err);
}

static int docker_remove(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "DELETE", .timeout_ms = ACT_MS, .absent_is_fine = true };

	return on_container(e, name, "?force=1&v=1", &c, fn, arg, err);
}

static int docker_list(struct engine *e, const char *prefix, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "GET", .path = API "/containers/json?all=1", .timeout_ms = ASK_MS, .parse = ENGINE_HTTP_LIST,
		.node = e->config->node, .prefix = prefix };

	return engine_http_do(e->http, &c, fn, arg, err);
}

const struct engine_ops engine_docker = {
	.name = "docker",
	.open = docker_open,
	.close = docker_close,
	.ping = docker_ping,
	.image = docker_image,
	.create = docker_create,
	.start = docker_start,
	.inspect = docker_inspect,
	.remove = docker_remove,
	.list = docker_list,
};
