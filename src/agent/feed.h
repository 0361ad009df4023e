/* feed.h - the standard input of one command: takes bytes by offset, holds at most MSG_STDIN_MAX of them, never blocks.
 *
 * Bytes below `taken` were seen before (sent again after a reconnect) and are dropped. When the command has closed its end, or has
 * none, everything is taken and thrown away. */
#ifndef PADDOCK_AGENT_FEED_H
#define PADDOCK_AGENT_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/poller.h"
#include "core/frame_msg.h"

struct feed {
	struct watch w;        /* write end of the pipe; closed: nobody reads */
	uint64_t taken;        /* bytes accepted in all */
	uint8_t *held;         /* MSG_STDIN_MAX bytes, while some are held */
	size_t at, len;
	bool eof;              /* no more bytes after the held ones */
	bool news;             /* taken or the window changed: to be told */
};

void feed_init(struct feed *f);                    /* without a pipe */
int feed_open(struct feed *f, int fd);             /* the write end, non-blocking, becomes the feed's on success; 0 or -1 with errno */
void feed_close(struct feed *f);
/* 0; -1: a gap before m->offset, more than the window, or no memory: the connection must be closed, nothing was taken. */
int feed_put(struct feed *f, const struct msg_stdin *m);
uint64_t feed_window(const struct feed *f);        /* bytes that may be sent beyond taken; INT64_MAX when nobody reads */

#endif
