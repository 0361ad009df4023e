#include "domain/caller.h"

#include "base/str.h"

static const char *const kinds[] = {
	[CALLER_USER] = "user",
	[CALLER_ADMIN] = "admin",
	[CALLER_SERVICE] = "service",
	[CALLER_E2B] = "e2b",
};

const char *caller_kind_name(enum caller_kind k)
{
	return kinds[k];
}

int caller_kind_parse(const char *s, enum caller_kind *ret)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (str_eq(s, kinds[i])) {
			*ret = (enum caller_kind)i;
			return 0;
		}
	}
	return -1;
}
