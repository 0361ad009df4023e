/* ticket.h - one-time tickets for views: 256 random bits, 64 hex digits, short-lived, in memory only. */
#ifndef PADDOCK_EXECUTOR_TICKET_H
#define PADDOCK_EXECUTOR_TICKET_H

#include <stdint.h>

#include "base/err.h"
#include "core/id.h"
#include "executor/spec.h"

#define TICKET_SIZE 65

struct tickets;

struct tickets *tickets_new(int64_t life_ms, err_t **err);
void tickets_free(struct tickets *t);
/* ERR_LIMIT when TICKETS_MAX are waiting to be used. */
#define TICKETS_MAX 65536
int tickets_make(struct tickets *t, const char *cid, const struct view_spec *v, char dst[TICKET_SIZE], err_t **err);
/* Redeems; -1 when unknown, used or expired. */
int tickets_take(struct tickets *t, const char *ticket, char cid[ID_SIZE], struct view_spec *ret);
unsigned tickets_count(const struct tickets *t);

#endif
