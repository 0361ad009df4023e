/* res_wait.h - an answer that is held until something changed or a time is over. */
#ifndef PADDOCK_EXECUTOR_RES_WAIT_H
#define PADDOCK_EXECUTOR_RES_WAIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "executor/http.h"
#include "executor/watch.h"

#define RES_WAIT_MAX_MS 30000

struct res_wait {
	struct request *r;
	struct watch watch;
	int64_t until_ms;
};

/* Becomes the request's state: zeroed, `size` bytes of which a struct res_wait is the first member. Told through the watches. NULL: out of memory, answered. */
void *res_wait_new(struct request *r, struct list *watches, int64_t ms, size_t size);
/* Sleeps until the next change or the end of the time, then fn. False: the time is over. */
bool res_wait_more(struct request *r, void (*fn)(struct executor *x, struct request *r));

#endif
