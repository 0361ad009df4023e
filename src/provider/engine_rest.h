/* engine_rest.h - Podman's and Docker's APIs have the same calls under other prefixes: the calls of engine.h but open() and create(). */
#ifndef PADDOCK_PROVIDER_ENGINE_REST_H
#define PADDOCK_PROVIDER_ENGINE_REST_H

#include "core/json.h"
#include "provider/engine.h"

/* How one API names things; static. */
struct engine_rest {
	const char *api;         /* prefix of the paths below and of those of one container or image */
	const char *ping;        /* a whole path */
	const char *list;        /* below api: all containers, storage-only ones too where the engine can tell them */
	const char *remove;      /* query of a removal: by force, without grace, volumes too */
};

struct engine *engine_rest_open(const struct engine_rest *r, struct loop *l, const struct engine_config *c, err_t **err);
void engine_rest_close(struct engine *e);
const struct engine_config *engine_rest_config(const struct engine *e);

/* query: "" or "?..."; body: the spec, borrowed; NULL (memory is out) is an error. */
int engine_rest_create(struct engine *e, const char *query, json_t *body, engine_fn *fn, void *arg, err_t **err);

int engine_rest_ping(struct engine *e, engine_fn *fn, void *arg, err_t **err);
int engine_rest_image(struct engine *e, engine_fn *fn, void *arg, err_t **err);
int engine_rest_start(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err);
int engine_rest_inspect(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err);
int engine_rest_remove(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err);
int engine_rest_list(struct engine *e, const char *prefix, engine_fn *fn, void *arg, err_t **err);

#endif
