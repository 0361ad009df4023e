/* process.h - what the kernel tells of a process that is not ours to ask. */
#ifndef PADDOCK_PROVIDER_PROCESS_H
#define PADDOCK_PROVIDER_PROCESS_H

#include <sys/types.h>

/* Its real uid as seen from here; (uid_t)-1: there is no such process any more. Reads /proc. */
uid_t process_uid(pid_t pid);

#endif
