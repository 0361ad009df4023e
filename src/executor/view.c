#include "executor/view.h"

#include <stddef.h>

#include "base/str.h"

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
