/* stop.h - how a child learns that it is to leave. SIGTERM stays blocked all the time, so that no system call of a request is ever
 * interrupted; it is asked for between requests, and a descriptor tells of it while waiting. */
#ifndef PADDOCK_FCGI_STOP_H
#define PADDOCK_FCGI_STOP_H

#include <stdbool.h>

int stop_open(void);     /* blocks SIGTERM; a descriptor that is readable once it came; -1 with errno */
bool stop_asked(void);   /* has it come? */

#endif
