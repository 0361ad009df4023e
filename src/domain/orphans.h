/* orphans.h - the executor's books against ours, both ways. For src/domain alone. */
#ifndef PADDOCK_DOMAIN_ORPHANS_H
#define PADDOCK_DOMAIN_ORPHANS_H

#include "domain/domain.h"

/* Instances without a row are destroyed once this process has seen them without one for orphan_grace_ms; rows whose instance is lost, failed or gone give up
 * their attempt. The number of both, or -1. */
int orphans_instances(struct domain *d, err_t **err);
/* Drops what orphans_instances remembers. */
void orphans_forget(struct domain *d);
/* Open commands that the executor has never heard of, or whose end was acknowledged but is not on record (a database restored from a
 * backup), are settled. */
int orphans_commands(struct domain *d, err_t **err);

#endif
