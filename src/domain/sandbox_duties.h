/* sandbox_duties.h - what the janitor does for users' sandboxes. Each gives the number of things done, or -1; each is safe beside other janitors. */
#ifndef PADDOCK_DOMAIN_SANDBOX_DUTIES_H
#define PADDOCK_DOMAIN_SANDBOX_DUTIES_H

#include "domain/domain.h"

int sandboxes_go_on(struct domain *d, err_t **err);       /* operations without recent progress: asked for, told again */
int sandboxes_pause_idle(struct domain *d, err_t **err);  /* nobody used them for idle_timeout_ms */
int sandboxes_keep(struct domain *d, err_t **err);        /* those with an active Run: every keepalive_ms */
int sandboxes_retire(struct domain *d, err_t **err);      /* instances that were replaced or given up: destroyed, confirmed */

#endif
