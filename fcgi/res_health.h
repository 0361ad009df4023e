/* res_health.h - liveness, readiness, metrics, and what the children do. */
#ifndef PADDOCK_FCGI_RES_HEALTH_H
#define PADDOCK_FCGI_RES_HEALTH_H

#include "fcgi/ctx.h"

int res_health_live(struct call *c, err_t **err);
int res_health_ready(struct call *c, err_t **err);
int res_health_metrics(struct call *c, err_t **err);   /* for loopback addresses and admin tokens */
int res_health_workers(struct call *c, err_t **err);

#endif
