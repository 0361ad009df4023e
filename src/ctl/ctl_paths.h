/* ctl_paths.h - where an installation lies: every name is the normal one with the instance's suffix ("" or "-NAME"). */
#ifndef PADDOCK_CTL_PATHS_H
#define PADDOCK_CTL_PATHS_H

#include "core/config.h"

/* "" or "-NAME". Owned by the module, valid until the next call. */
const char *ctl_suffix(const struct config *c);
/* malloc'ed text with each %I of fmt replaced by the suffix, as in the option table: "/run/paddock%I/service". NULL when out of memory. */
char *ctl_path(const struct config *c, const char *fmt);

#endif
