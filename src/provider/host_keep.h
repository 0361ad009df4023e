/* host_keep.h - one request to paddock-launcher, served by a process of its own. A started sandbox keeps that process: its keeper. It holds the lock and
 * the network, and ends when the sandbox ends. When it is killed, the executor ends the sandbox.
 *
 * Request: strings, each with its NUL, up to the end of the stream: "start" ID WORKSPACE TOKEN TOKEN-HASH, "remove" ID, or "probe".
 * Answer: "ok", or "error CODE TEXT" with CODE one of busy, not_found, no_space, failed; then the end of the stream. For probe lines "fact NAME 0|1 TEXT"
 * come before "ok". */
#ifndef PADDOCK_PROVIDER_HOST_KEEP_H
#define PADDOCK_PROVIDER_HOST_KEEP_H

#include "core/config.h"

#define HOST_REQUEST_MAX 4096

/* Serves the connection; the process exits with what it returns. */
int host_keep(const struct config *c, int conn_fd);

#endif
