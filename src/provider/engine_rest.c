/* engine_rest.c - see engine_rest.h. */
#include "provider/engine_rest.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "provider/engine_http.h"

#define PING_MS 2000
#define ASK_MS 10000
#define ACT_MS 30000

struct engine {
	const struct engine_rest *rest;
	const struct engine_config *config;
	struct engine_http *http;
};

struct engine *engine_rest_open(const struct engine_rest *r, struct loop *l, const struct engine_config *c, err_t **err)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e) {
		err_set(err, ERR_NO_MEMORY, NULL, "engine");
		return NULL;
	}
	e->rest = r;
	e->config = c;
	e->http = engine_http_new(l, c->socket, err);
	if (!e->http) {
		free(e);
		return NULL;
	}
	return e;
}

void engine_rest_close(struct engine *e)
{
	if (!e)
		return;
	engine_http_free(e->http);
	free(e);
}

const struct engine_config *engine_rest_config(const struct engine *e)
{
	return e->config;
}

int engine_rest_ping(struct engine *e, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "GET", .path = e->rest->ping, .timeout_ms = PING_MS };

	return engine_http_do(e->http, &c, fn, arg, err);
}

int engine_rest_image(struct engine *e, engine_fn *fn, void *arg, err_t **err)
{
	cleanup_buf struct buf path = BUF_INIT(1024);
	struct engine_http_call c = { .method = "GET", .timeout_ms = ASK_MS, .parse = ENGINE_HTTP_ID };

	buf_addf(&path, "%s/images/", e->rest->api);
	engine_http_escape(&path, e->config->image);
	if (buf_adds(&path, "/json") < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "image name too long");
	c.path = buf_str(&path);
	return engine_http_do(e->http, &c, fn, arg, err);
}

/* One call on containers; what stands in the path is ours and needs no escaping. */
static int on_containers(struct engine *e, const char *tail, const char *query, struct engine_http_call *c, engine_fn *fn, void *arg, err_t **err)
{
	char path[ENGINE_NAME_SIZE + 128];

	if (str_fmt(path, sizeof(path), "%s/containers/%s%s", e->rest->api, tail, query) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "container name too long");
	c->path = path;
	return engine_http_do(e->http, c, fn, arg, err);
}

int engine_rest_create(struct engine *e, const char *query, json_t *body, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "POST", .timeout_ms = ACT_MS, .parse = ENGINE_HTTP_ID, .clash_on_500 = true };

	c.body = body ? json_text(body, NULL) : NULL;
	if (!c.body)
		return err_set(err, ERR_NO_MEMORY, NULL, "engine: create");
	return on_containers(e, "create", query, &c, fn, arg, err);
}

int engine_rest_start(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "POST", .timeout_ms = ACT_MS };

	return on_containers(e, name, "/start", &c, fn, arg, err);
}

int engine_rest_inspect(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "GET", .timeout_ms = ASK_MS, .parse = ENGINE_HTTP_INSPECT };

	return on_containers(e, name, "/json", &c, fn, arg, err);
}

int engine_rest_remove(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "DELETE", .timeout_ms = ACT_MS, .absent_is_fine = true };

	return on_containers(e, name, e->rest->remove, &c, fn, arg, err);
}

int engine_rest_list(struct engine *e, const char *prefix, engine_fn *fn, void *arg, err_t **err)
{
	struct engine_http_call c = { .method = "GET", .timeout_ms = ASK_MS, .parse = ENGINE_HTTP_LIST, .node = e->config->node, .prefix = prefix };

	return on_containers(e, e->rest->list, "", &c, fn, arg, err);
}
