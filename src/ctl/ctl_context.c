#include "ctl/ctl_context.h"

#include <stdio.h>

#include "domain/audit.h"

int ctl_context_fail(err_t *e)
{
	fprintf(stderr, "paddockctl: %s\n", err_message(e));
	err_free(e);
	return 1;
}

struct domain *ctl_context_open(const struct config *c, struct caller *by)
{
	err_t *e = NULL;
	struct domain *d = domain_open(c, &e);

	if (!d) {
		(void)ctl_context_fail(e);
		return NULL;
	}
	audit_operator(by, "paddockctl");
	return d;
}
