/* sandbox_ask.h - what has become of a user's instance: asks the executor, writes down what it says, tells it once more what it seems to have missed.
 * For src/domain alone. */
#ifndef PADDOCK_DOMAIN_SANDBOX_ASK_H
#define PADDOCK_DOMAIN_SANDBOX_ASK_H

#include "db/db_sandbox.h"
#include "domain/domain.h"

/* Writes down an Instance of the executor. version: only while the sandbox is of that version; 0: whatever it is. 0, also when it is nobody's. */
int sandbox_take(struct domain *d, const json_t *instance, int64_t version, err_t **err);
/* One that the executor does not know: its books were lost, or it was never told. It is told what the ledger has, asks the provider, and what it says is
 * written down. 1: the ledger has it, also as one of another provider, or to be destroyed, of which nobody is told here. 0: no such instance. */
int sandbox_take_missing(struct domain *d, const char *instance, err_t **err);
/* Asks the executor how it is, and writes that down. */
int sandbox_look(struct domain *d, const char *instance, err_t **err);

/* A sandbox row of r, from column `at` on, is in an operation: makes it go on. ERR_UNAVAILABLE "control_plane_unavailable": nobody could be asked. */
int sandbox_go_on(struct domain *d, const struct db_result *r, int row, int at, err_t **err);
/* The operation of this instance's sandbox is in doubt ("sandbox_stale"): the first who comes resets its time, warns and asks, the others wait a moment, so
 * that all can try their decision again. Errors as above. */
int sandbox_unstick(struct domain *d, const char *instance, err_t **err);
#define SANDBOX_TRIES 5

/* Tells the executor to make, to pause, to destroy. Row first: the row is committed. What the executor does not hear, the janitor tells it again. */
int sandbox_tell_make(struct domain *d, const char *instance, const char *workspace, const char *previous, err_t **err);
int sandbox_tell_pause(struct domain *d, const char *instance, int64_t wait_ms, err_t **err);
/* Keeps it alive, and puts that on record. ERR_CONFLICT "sandbox_not_running", "sandbox_not_found". */
int sandbox_tell_keep(struct domain *d, const char *instance, int64_t ms, err_t **err);
/* 1: nothing of it is left, and that is on record. 0: not yet. */
int sandbox_tell_destroy(struct domain *d, const char *instance, err_t **err);

#endif
