/* ctl_context.h - what the commands that work on the database share. */
#ifndef PADDOCK_CTL_CONTEXT_H
#define PADDOCK_CTL_CONTEXT_H

#include "base/err.h"
#include "domain/caller.h"
#include "domain/domain.h"

/* Opens the domain as the configured database role; `by` is the operator, for the audit. NULL after saying why on standard error. */
struct domain *ctl_context_open(const struct config *c, struct caller *by);
/* "paddockctl: why" on standard error; frees e. Returns 1, the exit status. */
int ctl_context_fail(err_t *e);

#endif
