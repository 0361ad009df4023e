/* poller.h - the agent's event loop: epoll, one clock, one signal source. Single-threaded, allocates nothing.
 *
 * A watch is embedded in the object it serves and must stay in memory until the end of the turn in which it was closed
 * (execs.c frees its objects between turns). */
#ifndef PADDOCK_AGENT_POLLER_H
#define PADDOCK_AGENT_POLLER_H

#include <stdbool.h>
#include <stdint.h>

struct watch {
	int fd;                                          /* -1: closed */
	void (*fn)(struct watch *w, uint32_t events);    /* EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP */
};

#define WATCH_NONE { .fd = -1 }

int poller_open(void);                                   /* 0 or -1 with errno */
/* The fd becomes the watch's. events may be 0 (errors and hang-ups only). 0 or -1 with errno (the fd then stays the caller's). */
int poller_add(struct watch *w, int fd, uint32_t events, void (*fn)(struct watch *w, uint32_t events));
void poller_set(struct watch *w, uint32_t events);
void poller_close(struct watch *w);                      /* closes the fd, too; fine when closed */
/* Waits until an event or boot_us (CLOCK_BOOTTIME; INT64_MAX: no limit) and calls the watches. */
void poller_turn(int64_t boot_us);

#endif
