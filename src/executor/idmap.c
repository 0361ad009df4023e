#include "executor/idmap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "base/str.h"

#define IDMAP_SLOTS 256

int idmap_init(struct idmap *m, err_t **err)
{
	m->count = 0;
	m->n_slots = IDMAP_SLOTS;
	rand_bytes(&m->seed, sizeof m->seed);
	m->slots = calloc(m->n_slots, sizeof *m->slots);
	return m->slots ? 0 : err_set(err, ERR_NO_MEMORY, NULL, "id table");
}

void idmap_free(struct idmap *m)
{
	free(m->slots);
	m->slots = NULL;
}

/* FNV-1a with a seed of the process: a caller who chooses ids cannot aim at one slot. */
static size_t slot_of(const struct idmap *m, const char *id)
{
	uint64_t h = 14695981039346656037ull ^ m->seed;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 1099511628211ull;
	return (size_t)(h ^ (h >> 32)) & (m->n_slots - 1);
}

struct idmap_node *idmap_find(const struct idmap *m, const char *id)
{
	for (struct idmap_node *n = m->slots[slot_of(m, id)]; n; n = n->next)
		if (str_eq(n->id, id))
			return n;
	return NULL;
}

static void link_node(struct idmap *m, struct idmap_node *n)
{
	struct idmap_node **s = &m->slots[slot_of(m, n->id)];

	n->next = *s;
	*s = n;
}

/* Doubling that fails for lack of memory leaves longer chains, no error. */
static void grow(struct idmap *m)
{
	struct idmap_node **old = m->slots, **fresh = calloc(m->n_slots * 2, sizeof(struct idmap_node *));
	size_t n_old = m->n_slots;

	if (!fresh)
		return;
	m->slots = fresh;
	m->n_slots *= 2;
	for (size_t i = 0; i < n_old; i++)
		for (struct idmap_node *n = old[i], *next; n; n = next) {
			next = n->next;
			link_node(m, n);
		}
	free(old);
}

void idmap_add(struct idmap *m, struct idmap_node *n)
{
	if (m->count >= m->n_slots)
		grow(m);
	link_node(m, n);
	m->count++;
}

void idmap_del(struct idmap *m, struct idmap_node *n)
{
	struct idmap_node **p = &m->slots[slot_of(m, n->id)];

	while (*p && *p != n)
		p = &(*p)->next;
	if (!*p)
		return;
	*p = n->next;
	m->count--;
}

void idmap_each(struct idmap *m, void (*fn)(void *arg, struct idmap_node *n), void *arg)
{
	for (size_t i = 0; i < m->n_slots; i++)
		for (struct idmap_node *n = m->slots[i], *next; n; n = next) {
			next = n->next;
			fn(arg, n);
		}
}
