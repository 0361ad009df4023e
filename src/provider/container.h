/* container.h - the inside of the provider `container`; shared by its own files only. */
#ifndef PADDOCK_PROVIDER_CONTAINER_H
#define PADDOCK_PROVIDER_CONTAINER_H

#include "provider/box.h"

struct container_probe {
	bool known, engine, image, out;     /* out: a probe is on its way */
	int64_t at_ms;
	char engine_hint[256], image_hint[256];
};

struct provider {
	struct agents agents;               /* first: agents.h */
	const struct config *config;
	const struct engine_ops *ops;
	struct engine_config engine_config;
	struct engine *engine;
	const char *netguard, *workspaces, *runtime_state;
	int workspaces_fd;
	int64_t create_timeout_ms;
	char prefix[64];                    /* of our containers' names: "pdk-<node>-" */
	struct box *creating;               /* whose create call is out */
	int64_t made_ms;                    /* CLOCK_BOOTTIME: when a container was last seen on its way to READY */
	struct container_probe probe;
};
_Static_assert(offsetof(struct provider, agents) == 0, "as agents.h asks");

struct box *container_box(struct agent_instance *i);   /* NULL: NULL */
struct box *container_find(struct provider *p, const char *id);
void container_tell(struct box *b, enum instance_event ev, const err_t *err);

/* What is asked of one instance, or of all (container_ask.c). */
int container_lookup(struct provider *p, const char *id, err_t **err);
int container_pause(struct provider *p, const char *id, err_t **err);   /* also wake */
int container_keep(struct provider *p, const char *id, int64_t ms, err_t **err);
int container_list(struct provider *p, err_t **err);

void container_sweep(struct provider *p, bool (*known)(void *arg, const char *instance_id), void *arg);
void container_probe_start(struct provider *p);
char *container_health(struct provider *p);

#endif
