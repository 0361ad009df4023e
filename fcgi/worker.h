/* worker.h - a pre-forked worker: takes connections from the shared socket, one request each, until it is told to leave. */
#ifndef PADDOCK_FCGI_WORKER_H
#define PADDOCK_FCGI_WORKER_H

#include "core/config.h"
#include "fcgi/board.h"

/* Runs in a child of the master; returns its exit status. listen_fd is non-blocking. It leaves after [api] max_requests requests
 * (slot->done is set then), and on SIGTERM: the request in hand is finished, then what is queued at the socket is served for at most half of
 * [api] drain_ms, since nobody else may be there to serve it. */
int worker_main(const struct config *c, struct board *b, struct board_slot *slot, int listen_fd);

#endif
