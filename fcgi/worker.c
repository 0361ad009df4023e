#include "fcgi/worker.h"

#include <errno.h>
#include <fcgiapp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fcgi/confine.h"
#include "fcgi/ctx.h"
#include "fcgi/dispatch.h"
#include "fcgi/stop.h"

#define BURST 64     /* connections taken in a row, */
#define BURST_MS 50  /* and for how long, before the descriptor of the stop is looked at */
#define LINES_MS 20  /* of nobody's coming, after which held log lines go out */

struct worker {
	struct ctx ctx;
	struct board_slot *slot;
	struct arena *arena;
	FCGX_Request fcgi;
	int epoll_fd, stop_fd;
	int64_t max_requests, drain_ms, served;
};

static int read_body(void *arg, void *p, int n)
{
	return FCGX_GetStr(p, n, ((FCGX_Request *)arg)->in);
}

static void send_answer(struct worker *w, const struct call *c)
{
	cleanup_buf struct buf b = BUF_INIT(LIMIT_RESPONSE_BYTES);

	if (response_serialize(c->r, request_id(c->q), &b) < 0) {
		FCGX_PutS("Status: 503\r\nRetry-After: 1\r\n\r\n", w->fcgi.out);
		return;
	}
	FCGX_PutStr(b.data, (int)b.len, w->fcgi.out);
}

/* The answer is complete for the client before the log line is written. libfcgi waits for the other side to hang up first, lest a close with input unread
 * take the answer with it; with all of it read there is nothing to wait for. */
static void finish(struct worker *w)
{
	if (FCGX_GetChar(w->fcgi.in) == EOF)
		FCGX_Detach(&w->fcgi);
	FCGX_Finish_r(&w->fcgi);
}

static void serve(struct worker *w)
{
	int64_t from = clock_boot_us(), took;
	struct call c = { .ctx = &w->ctx, .arena = w->arena };

	c.q = request_new(w->arena, w->fcgi.envp, read_body, &w->fcgi);
	c.r = response_new(w->arena);
	if (!c.q || !c.r) {
		FCGX_PutS("Status: 503\r\nRetry-After: 1\r\n\r\n", w->fcgi.out);
		board_count(w->slot, 503, 0);
		return;
	}
	dispatch(&c);
	send_answer(w, &c);
	took = clock_boot_us() - from;
	board_count(w->slot, response_status(c.r), took);
	finish(w);
	dispatch_log(&c, took);
}

/* Takes one connection if there is one. False: nobody is waiting, or it had gone. */
static bool take(struct worker *w)
{
	int rc;

	board_busy(w->slot, clock_boot_ms());
	rc = FCGX_Accept_r(&w->fcgi);
	if (rc == 0) {
		serve(w);
		FCGX_Finish_r(&w->fcgi);
		arena_reset(w->arena);
		w->served++;
	} else if (rc != -EAGAIN && rc != -EWOULDBLOCK && rc != -EINTR) {
		const struct timespec pause = { .tv_nsec = 20000000 };

		log_kv(LOG_WARN, "accept_failed", "err", strerror(-rc), NULL);
		nanosleep(&pause, NULL);
	}
	board_idle(w->slot);
	return rc == 0;
}

/* Each worker has an epoll of its own on the shared socket; EPOLLEXCLUSIVE wakes one of them for a connection, not all. */
static int open_epoll(int listen_fd, int stop_fd)
{
	struct epoll_event on_listen = { .events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = listen_fd };
	struct epoll_event on_stop = { .events = EPOLLIN, .data.fd = stop_fd };
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0)
		return -1;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, listen_fd, &on_listen) < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, stop_fd, &on_stop) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int set_up(struct worker *w, const struct config *c, struct board *b, int listen_fd)
{
	cleanup_err err_t *e = NULL;

	w->stop_fd = stop_open();
	w->epoll_fd = w->stop_fd < 0 ? -1 : open_epoll(listen_fd, w->stop_fd);
	w->arena = arena_new(LIMIT_ARENA_BYTES);
	w->max_requests = config_int(c, "api.max_requests");
	w->drain_ms = config_int(c, "api.drain_ms");
	if (w->epoll_fd < 0 || !w->arena || FCGX_Init() != 0 || FCGX_InitRequest(&w->fcgi, listen_fd, 0) != 0) {
		log_kv(LOG_ERROR, "worker_failed", "err", "out of descriptors or memory", NULL);
		return -1;
	}
	if (ctx_open(&w->ctx, c, b, &e) < 0 || confine_child(c, &e) < 0) {
		log_kv(LOG_ERROR, "worker_failed", "err", err_message(e), NULL);
		return -1;
	}
	return 0;
}

static void drain(struct worker *w)
{
	int64_t until = clock_boot_ms() + w->drain_ms / 2;

	while (clock_boot_ms() < until && take(w))
		;
	w->slot->state = BOARD_DRAINING;
}

static bool spent(const struct worker *w)
{
	return w->max_requests && w->served >= w->max_requests;
}

/* Until somebody is there. False: it is time to leave. */
static bool wait_for_one(struct worker *w)
{
	struct epoll_event ev[2];
	int n = epoll_wait(w->epoll_fd, ev, 2, LINES_MS);

	if (n == 0) {
		log_flush();
		n = epoll_wait(w->epoll_fd, ev, 2, -1);
	}
	for (int i = 0; i < n; i++) {
		if (ev[i].data.fd == w->stop_fd)
			return false;
	}
	return n >= 0 || errno == EINTR;
}

static void serve_all(struct worker *w)
{
	while (!spent(w) && wait_for_one(w)) {
		int64_t until = clock_boot_ms() + BURST_MS;

		for (int i = 0; i < BURST && !spent(w) && take(w) && clock_boot_ms() < until; i++)
			;
	}
}

int worker_main(const struct config *c, struct board *b, struct board_slot *slot, int listen_fd)
{
	struct worker w = { .slot = slot };

	if (set_up(&w, c, b, listen_fd) < 0)
		return 1;
	log_hold();
	board_idle(slot);
	serve_all(&w);
	if (stop_asked())
		drain(&w);
	log_flush();
	slot->done = 1;
	FCGX_Free(&w.fcgi, 1);
	ctx_close(&w.ctx);
	arena_free(w.arena);
	close(w.epoll_fd);
	return 0;
}
