/* conn.h - the connection to the executor: dials for ever, says hello, takes frames, sends what execs.h has to tell. */
#ifndef PADDOCK_AGENT_CONN_H
#define PADDOCK_AGENT_CONN_H

#include <stdint.h>

int conn_init(const char *socket_path);   /* -1: the path is too long */
int64_t conn_next_us(void);               /* CLOCK_BOOTTIME of the next attempt; INT64_MAX when connected */
/* Between turns of the poller: dials when it is time, sends what there is. */
void conn_run(int64_t now_us);

#endif
