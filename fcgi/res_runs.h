/* res_runs.h - handlers of Runs: each turns the request into one domain call and its result into JSON. */
#ifndef PADDOCK_FCGI_RES_RUNS_H
#define PADDOCK_FCGI_RES_RUNS_H

#include "fcgi/ctx.h"

int res_runs_create(struct call *c, err_t **err);
int res_runs_list(struct call *c, err_t **err);
int res_runs_claim(struct call *c, err_t **err);
int res_runs_get(struct call *c, err_t **err);
int res_runs_heartbeat(struct call *c, err_t **err);
int res_runs_finish(struct call *c, err_t **err);
int res_runs_cancel(struct call *c, err_t **err);
int res_runs_steer(struct call *c, err_t **err);

#endif
