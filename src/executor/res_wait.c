#include "executor/res_wait.h"

#include <stdlib.h>

#include "base/clock.h"

static void on_change(struct watch *w)
{
	request_wake(list_entry(w, struct res_wait, watch)->r);
}

static void wait_free(void *state)
{
	struct res_wait *w = state;

	list_del(&w->watch.node);
	free(w);
}

void *res_wait_new(struct request *r, struct list *watches, int64_t ms, size_t size)
{
	struct res_wait *w = calloc(1, size);

	if (!w) {
		http_answer_problem(r, 503, "no_memory", "out of memory");
		return NULL;
	}
	w->r = r;
	w->until_ms = clock_boot_ms() + ms;
	watch_init(&w->watch, on_change);
	list_add_tail(watches, &w->watch.node);
	request_set_state(r, w, wait_free);
	return w;
}

bool res_wait_more(struct request *r, void (*fn)(struct executor *x, struct request *r))
{
	const struct res_wait *w = request_state(r);
	int64_t left = w->until_ms - clock_boot_ms();

	if (left <= 0)
		return false;
	http_wait(r, left, fn);
	return true;
}
