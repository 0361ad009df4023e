/* engine_podman.c - Podman by its own (libpod) API, rootless. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "provider/engine_http.h"
#include "provider/engine_spec.h"

#define API "/v4.0.0/libpod"
#define PING_MS 2000
#define ASK_MS 10000
#define ACT_MS 30000

struct engine {
	const struct engine_config *config;
	struct engine_http *http;
};

static void podman_close(struct engine *e)
{
	if (!e)
		return;
	engine_http_free(e->http);
	free(e);
}

static struct engine *podman_open(struct loop *l, const struct engine_config *c, err_t **err)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e) {
		err_set(err, ERR_NO_MEMORY, NULL, "engine");
		return NULL;
	}
	e->config = c;
	e->http = engine_http_new(l, c->socket, err);
	if (!e->http) {
		free(e);
		return NULL;
	}
	return e;
}

static int podman_ping(struct engine *e, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "GET", .path = API "/_ping", .timeout_ms = PING_MS };

	return engine_http_do(e->http, &c, fn, arg, err);
}

static int podman_image(struct engine *e, engine_fn *fn, void *arg, err_t **err)
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

static int podman_create(struct engine *e, const struct engine_spec *s, engine_fn *fn, void *arg, err_t **err)
{
	cleanup_json json_t *o = engine_spec_libpod(e->config, s);
	struct engine_http_call c = { .method = "POST", .path = API "/containers/create", .timeout_ms = ACT_MS, .parse = ENGINE_HTTP_ID,
		.clash_on_500 = true };

	c.body = o ? json_text(o, NULL) : NULL;
	if (!c.body)
		return err_set(err, ERR_NO_MEMORY, NULL, "engine: create");
	return engine_http_do(e->http, &c, fn, arg, err);
}

/* One call on a container by its name; our names need no escaping. */
static int on_container(struct engine *e, const char *name, const char *tail, struct engine_http_call *c, engine_fn *fn, void *arg, err_t **err)
{
	char path[ENGINE_NAME_SIZE + 128];

	if (str_fmt(path, sizeof(path), API "/containers/%s%s", name, tail) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "container name too long");
	c->path = path;
	return engine_http_do(e->http, c, fn, arg, err);
}

static int podman_start(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "POST", .timeout_ms = ACT_MS };

	return on_container(e, name, "/start", &c, fn, arg, err);
}

static int podman_inspect(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "GET", .timeout_ms = ASK_MS, .parse = ENGINE_HTTP_INSPECT };

	return on_container(e, name, "/json", &c, fn, arg, err);
}

static int podman_remove(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "DELETE", .timeout_ms = ACT_MS, .absent_is_fine = true };

	return on_container(e, name, "?force=true&timeout=0&v=true", &c, fn, arg, err);
}

static int podman_list(struct engine *e, const char *prefix, engine_fn *fn, void *arg, err_t **err)
{
	/* `external` adds what only the storage knows; such entries have no labels, so the filter is ours and not the engine's */
	struct engine_http_call c = { .method = "GET", .path = API "/containers/json?all=true&external=true", .timeout_ms = ASK_MS,
		.parse = ENGINE_HTTP_LIST, .node = e->config->node, .prefix = prefix };

	return engine_http_do(e->http, &c, fn, arg, err);
}

const struct engine_ops engine_podman = {
	.name = "podman",
	.open = podman_open,
	.close = podman_close,
	.ping = podman_ping,
	.image = podman_image,
	.create = podman_create,
	.start = podman_start,
	.inspect = podman_inspect,
	.remove = podman_remove,
	.list = podman_list,
};
