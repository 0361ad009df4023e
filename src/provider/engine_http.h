/* engine_http.h - what the engines behind an HTTP API share: requests on the loop, answers to errors, parsing of inspect and list. */
#ifndef PADDOCK_PROVIDER_ENGINE_HTTP_H
#define PADDOCK_PROVIDER_ENGINE_HTTP_H

#include "core/http_client.h"
#include "core/json.h"
#include "provider/engine.h"

struct engine_http;

struct engine_http *engine_http_new(struct loop *l, const char *socket_path, err_t **err);
void engine_http_free(struct engine_http *h);

enum engine_http_parse {
	ENGINE_HTTP_NOTHING,    /* any 2xx or 304 will do */
	ENGINE_HTTP_ID,         /* an object with "Id" */
	ENGINE_HTTP_INSPECT,    /* a container object */
	ENGINE_HTTP_LIST,       /* an array of container summaries */
};

struct engine_http_call {
	const char *method;
	const char *path;
	const char *body;                 /* JSON text or NULL */
	int64_t timeout_ms;
	enum engine_http_parse parse;
	bool absent_is_fine;              /* 404 counts as success (remove) */
	bool clash_on_500;                /* a 500 that says "already in use" means ERR_EXISTS (the compatible routes) */
	const char *node, *prefix;        /* LIST: items whose node label or name prefix fits; both may be NULL */
};
/* As the calls of engine.h. The strings are borrowed until it returns. */
int engine_http_do(struct engine_http *h, const struct engine_http_call *c, engine_fn *fn, void *arg, err_t **err);

/* The classes of engine.h for an HTTP status and body; sets *err. */
int engine_http_refusal(int status, const char *body, size_t n, bool clash_on_500, err_t **err);
/* Pure parsers; unknown members are passed over, what we read is checked. */
int engine_http_inspect(const json_t *o, struct engine_container *ret, err_t **err);
int engine_http_summary(const json_t *o, struct engine_container *ret, err_t **err);
/* Appends bytes with everything but [A-Za-z0-9._~-] percent-encoded. */
int engine_http_escape(struct buf *b, const char *s);

#endif
