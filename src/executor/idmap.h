/* idmap.h - a hash table of intrusive nodes keyed by an id (a UUID's text). Grows, never shrinks below its start. Not for hostile keys
 * longer than ID_SIZE: callers check id_valid() first. */
#ifndef PADDOCK_EXECUTOR_IDMAP_H
#define PADDOCK_EXECUTOR_IDMAP_H

#include <stddef.h>

#include "base/err.h"
#include "core/id.h"

struct idmap_node {
	struct idmap_node *next;
	char id[ID_SIZE];
};

struct idmap {
	struct idmap_node **slots;
	size_t n_slots;   /* a power of two */
	size_t count;
	unsigned long seed;
};

int idmap_init(struct idmap *m, err_t **err);
void idmap_free(struct idmap *m);   /* the nodes are the caller's */
struct idmap_node *idmap_find(const struct idmap *m, const char *id);
void idmap_add(struct idmap *m, struct idmap_node *n);   /* n->id is set and not in the map; cannot fail */
void idmap_del(struct idmap *m, struct idmap_node *n);
/* fn may delete the node that it is called with, nothing else. */
void idmap_each(struct idmap *m, void (*fn)(void *arg, struct idmap_node *n), void *arg);

#endif
