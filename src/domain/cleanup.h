/* cleanup.h - the one routine that confirms that a Run's resources are released (R2.2), and only then clears its duty. */
#ifndef PADDOCK_DOMAIN_CLEANUP_H
#define PADDOCK_DOMAIN_CLEANUP_H

#include "domain/domain.h"

/* Asks the executor to destroy the Run's instance. 1: confirmed gone, every command of it has an end on record, the duty is cleared.
 * 0: asked, not confirmed yet. -1: could not be asked; the duty stays, with a later next try. Safe to call at any time by anybody. */
int cleanup_run(struct domain *d, const char *run_id, err_t **err);

/* Every duty whose time has come, at most limits.batch. The number of duties looked at, or -1. */
int cleanup_sweep(struct domain *d, err_t **err);

#endif
