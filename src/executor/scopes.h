/* scopes.h - scopes that were ended: one attempt of a Run inside an instance, with all that it left there.
 *
 * From the first word on nothing of the scope can start any more, across restarts. Its open commands are killed with the reason given; then the
 * provider is asked to kill what is left, again and again until it confirms. <state>/ending/<scope> is a scope that is being ended, <state>/scopes/<second> has
 * those that are no more (tombs.h), for [executor] tombstone_ms.
 *
 * On a full disk a scope is ended all the same: what is being ended is in memory alone until it can be written, and would be forgotten by a restart; its caller
 * has to ask until it is gone. That is always on disk before it is told. */
#ifndef PADDOCK_EXECUTOR_SCOPES_H
#define PADDOCK_EXECUTOR_SCOPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "core/loop.h"
#include "executor/commands.h"
#include "executor/instances.h"
#include "executor/outcome.h"

struct scopes;

struct scopes *scopes_open(struct loop *l, int state_fd, int64_t keep_ms, err_t **err);
void scopes_close(struct scopes *s);   /* NULL is fine; before instances and commands */
/* Once, when these are open: goes on with what was being ended. */
void scopes_attach(struct scopes *s, struct instances *is, struct commands *cs);

bool scopes_over(const struct scopes *s, const char *scope);      /* ended, or being ended: starts nothing */
bool scopes_any_in(const struct scopes *s, const char *iid);      /* one is being ended there */
/* Ends it; *ret_gone: nothing is left of it. ERR_CONFLICT other_instance: it is being ended in another one. ERR_NOT_FOUND instance_not_found: it was never
 * seen, so that nobody here knows whether anything of the scope is left, and it is not known to be gone. */
int scopes_end(struct scopes *s, const char *iid, const char *scope, enum reason why, bool *ret_gone, err_t **err);
struct list *scopes_watches(struct scopes *s);                    /* told when one is gone */

/* From the instances. */
void scopes_answered(struct scopes *s, const char *iid, const char *scope, const err_t *err);
void scopes_instance_changed(struct scopes *s, struct instance *i);
void scopes_instance_connected(struct scopes *s, struct instance *i);

#endif
