/* sweep.h - takes acknowledged journal entries away when their retention is over. Walks the directory a little at a time, keeps nothing in
 * memory, shortens large files step by step before it unlinks them. */
#ifndef PADDOCK_EXECUTOR_SWEEP_H
#define PADDOCK_EXECUTOR_SWEEP_H

#include "base/err.h"
#include "core/loop.h"

struct sweep;
struct journal_policy;

/* The directories of acknowledged logs and of outputs are borrowed, *p is copied. */
struct sweep *sweep_new(struct loop *l, int acked_fd, int output_fd, const struct journal_policy *p, err_t **err);
void sweep_free(struct sweep *s);   /* NULL is fine */

#endif
