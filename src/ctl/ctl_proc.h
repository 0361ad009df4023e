/* ctl_proc.h - other programs: started by argument vector, never by a shell. */
#ifndef PADDOCK_CTL_PROC_H
#define PADDOCK_CTL_PROC_H

#include "base/buf.h"
#include "base/err.h"

/* Runs argv[0] (looked up in PATH) to its end. out NULL: standard output is inherited; else it is appended there (what passes its cap is
 * dropped) and standard error goes to /dev/null. Returns the exit status (128 + n for signal n), or -1 when it could not be started. */
int ctl_proc_run(const char *const *argv, struct buf *out, err_t **err);

/* Becomes argv[0]. Does not return on success; -1 on failure. */
int ctl_proc_exec(const char *const *argv, err_t **err);

/* Gives up root for good: uid, gid and supplementary groups of the account. -1 when that fails or is not possible. */
int ctl_proc_become(const char *account, err_t **err);

#endif
