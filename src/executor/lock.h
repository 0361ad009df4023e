/* lock.h - one executor per state directory: flock on <state>/lock, which names the holder's pid. */
#ifndef PADDOCK_EXECUTOR_LOCK_H
#define PADDOCK_EXECUTOR_LOCK_H

#include "base/err.h"

/* The lock's fd, held until it is closed (or we die). ERR_BUSY names the holder. */
int lock_take(int state_fd, err_t **err);

#endif
