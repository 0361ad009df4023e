#include "agent/poller.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define TURN_EVENTS 32

static int epoll_fd = -1;
static struct watch timer = WATCH_NONE;
static int64_t armed_us = INT64_MAX;

static void timer_fired(struct watch *w, uint32_t events)
{
	uint64_t n;

	(void)events;
	if (read(w->fd, &n, sizeof(n)) == sizeof(n))
		armed_us = INT64_MAX;
}

int poller_open(void)
{
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (epoll_fd < 0 || fd < 0)
		return -1;
	return poller_add(&timer, fd, EPOLLIN, timer_fired);
}

int poller_add(struct watch *w, int fd, uint32_t events, void (*fn)(struct watch *w, uint32_t events))
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		return -1;
	w->fd = fd;
	w->fn = fn;
	return 0;
}

void poller_set(struct watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	epoll_ctl(epoll_fd, EPOLL_CTL_MOD, w->fd, &e);
}

void poller_close(struct watch *w)
{
	if (w->fd < 0)
		return;
	/* By hand: descriptors passed to the executor keep the description alive, and epoll would go on reporting it. */
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	close(w->fd);
	w->fd = -1;
}

/* Any moment in the past must still fire: zero would disarm. */
static void arm(int64_t boot_us)
{
	struct itimerspec it = { 0 };

	if (boot_us == armed_us)
		return;
	armed_us = boot_us;
	if (boot_us != INT64_MAX) {
		if (boot_us < 1)
			boot_us = 1;
		it.it_value.tv_sec = boot_us / 1000000;
		it.it_value.tv_nsec = boot_us % 1000000 * 1000;
	}
	timerfd_settime(timer.fd, TFD_TIMER_ABSTIME, &it, NULL);
}

void poller_turn(int64_t boot_us)
{
	struct epoll_event ev[TURN_EVENTS];

	arm(boot_us);
	int n = epoll_wait(epoll_fd, ev, TURN_EVENTS, -1);
	for (int i = 0; i < n; i++) {
		struct watch *w = ev[i].data.ptr;
		if (w->fd >= 0)
			w->fn(w, ev[i].events);
	}
}
