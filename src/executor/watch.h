/* watch.h - "call me when this changes". A watch is in one list at a time; its function may take itself out, nobody else. */
#ifndef PADDOCK_EXECUTOR_WATCH_H
#define PADDOCK_EXECUTOR_WATCH_H

#include "base/list.h"

struct watch {
	struct list node;
	void (*fn)(struct watch *w);
};

static inline void watch_init(struct watch *w, void (*fn)(struct watch *w))
{
	list_init(&w->node);
	w->fn = fn;
}

static inline void watch_tell(struct list *watches)
{
	list_for_each_safe(p, next, watches)
		list_entry(p, struct watch, node)->fn(list_entry(p, struct watch, node));
}

#endif
