#include "executor/view.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "executor/executor.h"

static const struct view_kind kinds[] = {
	{ "result", view_result_open },
	{ "sse", view_events_open },
	{ "ndjson", view_events_open },
	{ "stdout", view_raw_open },
	{ "stderr", view_raw_open },
};

unsigned view_open_streams;

const struct view_kind *view_find(const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (str_eq(name, kinds[i].name))
			return &kinds[i];
	return NULL;
}

unsigned view_readers(void)
{
	return view_open_streams;
}

void *view_begin(struct executor *x, struct request *r, const char *cid, size_t size, struct output **ret)
{
	cleanup_err err_t *e = NULL;
	struct output *o = commands_output(x->commands, cid, &e);
	void *state = o ? calloc(1, size) : NULL;

	if (state) {
		http_header(r, "X-Paddock-Command", cid);
		http_header(r, "Cache-Control", "no-store");
		*ret = o;
		return state;
	}
	output_unref(o);
	if (e)
		http_answer_err(r, e);
	else
		http_answer_problem(r, 503, "no_memory", "out of memory");
	return NULL;
}
