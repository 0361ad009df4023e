/* engine.h - the seam between the container provider and what really runs containers.
 *
 * One small interface: Podman's and Docker's HTTP API stand behind it today; an engine that makes its own namespaces can. Nothing above
 * this header knows routes or JSON. Every call returns at once; its answer comes from the loop, once, within the call's own
 * deadline. When a call returns -1 nothing was done and there will be no answer. engine_ops.close() drops pending calls without an answer.
 *
 * Errors in an answer: ERR_UNAVAILABLE nothing was done, the engine is away · ERR_UNKNOWN it may or may not have been done, ask
 * by name · ERR_NOT_FOUND · ERR_EXISTS the name is taken · ERR_REFUSED the engine said no and why · ERR_INTERNAL its answer makes no sense. */
#ifndef PADDOCK_PROVIDER_ENGINE_H
#define PADDOCK_PROVIDER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "core/loop.h"
#include "provider/agent_token.h"

#define ENGINE_ID_SIZE 65       /* 64 hex digits */
#define ENGINE_NAME_SIZE 128
#define ENGINE_INSTANCE_SIZE 64

/* The labels that let us find, adopt and remove exactly our own. */
#define ENGINE_LABEL_NODE "io.paddock.node"
#define ENGINE_LABEL_INSTANCE "io.paddock.instance"
#define ENGINE_LABEL_TOKEN "io.paddock.token"   /* the hash of the agent's token, hex */

/* What all containers have in common; borrowed strings outlive the engine. */
struct engine_config {
	const char *socket;          /* of the engine */
	const char *node;            /* value of ENGINE_LABEL_NODE */
	const char *image;
	const char *agent;           /* host path of the static agent */
	const char *seccomp;         /* host path of the profile */
	const char *cgroup_parent;
	bool internet;               /* false: no network at all */
	int64_t memory_bytes, pids, cpus_milli, tmp_bytes, home_bytes, shm_bytes, nofile, nproc;
};

/* One container; borrowed for the call. Paths are host paths that the provider derived itself. */
struct engine_spec {
	const char *name;
	const char *instance;
	const char *token;           /* given to the agent in its environment; never logged */
	const char *token_hash;      /* kept as a label */
	const char *workspace;       /* directory mounted read-write at /home/user/workspace */
	const char *agent_dir;       /* directory mounted read-only at /paddock/run */
};

enum engine_state {
	ENGINE_CREATED,              /* made, never started */
	ENGINE_RUNNING,
	ENGINE_STOPPED,              /* ran and ended */
	ENGINE_ODD,                  /* half-made, being removed, storage only, paused */
};

struct engine_container {
	char id[ENGINE_ID_SIZE];
	char name[ENGINE_NAME_SIZE];
	char node[ENGINE_NAME_SIZE];          /* labels; "" when missing */
	char instance[ENGINE_INSTANCE_SIZE];
	char token_hash[AGENT_HASH_SIZE];
	enum engine_state state;
	pid_t pid;                            /* 0 when not running */
};

struct engine_answer {
	const struct engine_container *items; /* inspect: one; list: any number */
	size_t n;
	const char *id;                       /* create: the container's; image: the image's */
};

/* Exactly one of a and err; both borrowed. */
typedef void engine_fn(void *arg, const struct engine_answer *a, const err_t *err);

struct engine;

struct engine_ops {
	const char *name;            /* value of [container] engine */
	struct engine *(*open)(struct loop *l, const struct engine_config *c, err_t **err);
	void (*close)(struct engine *e);
	int (*ping)(struct engine *e, engine_fn *fn, void *arg, err_t **err);
	int (*image)(struct engine *e, engine_fn *fn, void *arg, err_t **err);
	int (*create)(struct engine *e, const struct engine_spec *s, engine_fn *fn, void *arg, err_t **err);
	int (*start)(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err);     /* also fine when it runs already */
	int (*inspect)(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err);
	int (*remove)(struct engine *e, const char *name, engine_fn *fn, void *arg, err_t **err);    /* by force, at once; fine when absent */
	/* Everything the engine holds that bears our node's label, or a name that begins with `prefix`, at every layer it can list. */
	int (*list)(struct engine *e, const char *prefix, engine_fn *fn, void *arg, err_t **err);
};

extern const struct engine_ops engine_podman, engine_docker;
/* NULL with ERR_REFUSED that names what is allowed. */
const struct engine_ops *engine_find(const char *name, err_t **err);

#endif
