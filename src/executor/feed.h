/* feed.h - a command's standard input: spooled to a file (0600) as it comes, fed to the agent by offset as the command reads.
 *
 * The agent says how many bytes it has taken and how many more it will hold; after a reconnect feeding goes on from what it has taken. */
#ifndef PADDOCK_EXECUTOR_FEED_H
#define PADDOCK_EXECUTOR_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "executor/instances.h"

#define FEED_WINDOW_FIRST (64u << 10)   /* before the agent named one */

struct feed {
	int fd;               /* the spool; -1: none yet */
	uint64_t size;        /* bytes in the spool */
	uint64_t sent, limit; /* sent to the agent; may be sent up to here */
	bool eof;             /* the spool is complete */
	bool eof_sent;
};

void feed_init(struct feed *f);
void feed_close(struct feed *f);
/* Takes over the spool's fd and its present size. */
int feed_open(struct feed *f, int fd, err_t **err);
/* Appends n bytes; ERR_TOO_LARGE ("stdin_too_large") when the spool would pass max. All or nothing. */
int feed_add(struct feed *f, const void *p, size_t n, uint64_t max, err_t **err);
/* The agent has `taken` bytes and takes up to `window` more. */
void feed_taken(struct feed *f, uint64_t taken, uint64_t window);
/* A new connection of the agent: it has `taken` bytes, and nothing may be sent until it has named its window. */
void feed_reconnected(struct feed *f, uint64_t taken);
/* Sends what may be sent. -1: the connection takes no more now, to be tried again later. */
int feed_push(struct feed *f, struct instances *is, const char *iid, const char *cid);

#endif
