/* boot.h - points in CLOCK_BOOTTIME that outlive a process, and with a little help a boot: the wall clock, which may be set, is asked only when the
 * machine was started anew in between. */
#ifndef PADDOCK_EXECUTOR_BOOT_H
#define PADDOCK_EXECUTOR_BOOT_H

#include <stdint.h>

#include "core/id.h"

/* When something was written down, in both clocks. */
struct boot_stamp {
	char boot[ID_SIZE];   /* the kernel's id of this boot; "" when it is not known */
	int64_t boot_ms, wall_ms;
};

void boot_stamp_now(struct boot_stamp *ret);
/* `ms` is a point in the boot clock of `at`; the same point in ours, possibly negative, never in the future, and never 0, which stands for none. */
int64_t boot_rebase(const struct boot_stamp *at, int64_t ms);
int64_t boot_from_wall(int64_t wall_ms);   /* likewise */

#endif
