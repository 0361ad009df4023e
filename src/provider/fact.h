/* fact.h - one fact of a provider's health() answer, as provider.h describes it. */
#ifndef PADDOCK_PROVIDER_FACT_H
#define PADDOCK_PROVIDER_FACT_H

#include <stdbool.h>

#include "base/buf.h"

void fact_add(struct buf *b, const char *name, bool ok, const char *hint);
/* Of what the provider can do nothing without: while it is not ok, the provider says that it is away. */
void fact_add_vital(struct buf *b, const char *name, bool ok, const char *hint);

#endif
