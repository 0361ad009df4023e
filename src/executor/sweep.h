/* sweep.h - takes acknowledged journal entries away: when their retention is over, and earlier, oldest first, when their room is needed. It
 * sleeps until the next one is due; the directory is walked once, at start. Large files are shortened step by step before they are unlinked. */
#ifndef PADDOCK_EXECUTOR_SWEEP_H
#define PADDOCK_EXECUTOR_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/loop.h"

struct archive;
struct sweep;
struct journal_policy;

/* The archive, its directory and that of outputs are borrowed, *p is copied. */
struct sweep *sweep_new(struct loop *l, struct archive *a, int acked_fd, int output_fd, const struct journal_policy *p, err_t **err);
void sweep_free(struct sweep *s);   /* NULL is fine */
/* The log of cid, of so many bytes, went to the archive; has_output: it may have files of output. */
void sweep_acked(struct sweep *s, const char *cid, uint64_t log_bytes, bool has_output);
/* So many bytes are to be given back before their time; 0: no more. First the outputs, oldest first, then the logs that have been there for a minute. */
void sweep_want(struct sweep *s, uint64_t bytes);
bool sweep_can_give(const struct sweep *s);
/* What acknowledged commands hold; at start less, until the walk is done. */
uint64_t sweep_bytes(const struct sweep *s);
uint64_t sweep_early(const struct sweep *s);   /* commands whose output went before its time, since the start */

#endif
