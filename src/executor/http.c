#include "executor/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/unixsock.h"
#include "executor/http_priv.h"

#define POOL_BYTES (8u << 10)       /* memory of a connection: its headers */
#define MAX_CONNECTIONS 8192
#define TURN_US 1000

enum { PEER_NONE, PEER_TICKETS, PEER_FULL };

static int peer_class(const struct http_peers *p, uid_t uid)
{
	for (size_t i = 0; i < sizeof p->full / sizeof *p->full; i++)
		if (p->full[i] != (uid_t)-1 && p->full[i] == uid)
			return PEER_FULL;
	return p->tickets != (uid_t)-1 && p->tickets == uid ? PEER_TICKETS : PEER_NONE;
}

/* --- who comes in --- */

static bool is_wanted(void *arg, uid_t uid)
{
	const struct http *h = arg;

	return peer_class(&h->peers, uid) != PEER_NONE;
}

static void on_entered(void *arg, int fd)
{
	struct http *h = arg;
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)MHD_add_connection(h->daemon, fd, (struct sockaddr *)&a, sizeof a);   /* closes it when it fails */
}

static void on_connection(void *cls, struct MHD_Connection *c, void **socket_context, enum MHD_ConnectionNotificationCode toe)
{
	struct http *h = cls;
	const union MHD_ConnectionInfo *ci;
	struct unix_peer peer;
	int class = PEER_NONE;

	if (toe != MHD_CONNECTION_NOTIFY_STARTED) {
		h->connections--;
		return;
	}
	h->connections++;
	ci = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (unix_peer(ci->connect_fd, &peer, NULL) == 0)
		class = peer_class(&h->peers, peer.uid);
	*socket_context = (void *)(intptr_t)class;
}

/* --- the daemon on the loop --- */

/* Each ready connection and stream is moved by one step, several times in a turn of the loop; bounded in time so that pipes and agents are not kept waiting. */
static void run(void *arg)
{
	struct http *h = arg;
	int64_t until_us = clock_boot_us() + TURN_US, due = -1, armed = h->due;
	MHD_UNSIGNED_LONG_LONG ms;

	h->due = 0;   /* http_soon() has nothing to do for what happens in here */
	do {
		h->resumed = false;
		MHD_run(h->daemon);
		http_streams_turn(h, TURN_US);
		due = h->resumed || !list_empty(&h->ready) ? 0 : MHD_get_timeout(h->daemon, &ms) == MHD_YES ? (int64_t)ms : -1;
	} while (due == 0 && clock_boot_us() < until_us);
	if (due != armed)
		loop_timer_set(h->timer, due);
	h->due = due;
}

/* With a loop of ours the library does not wake itself. */
void http_soon(struct http *h)
{
	h->resumed = true;
	if (h->due != 0)
		loop_timer_now(h->timer);
	h->due = 0;
}

static void on_ready(void *arg, int fd, int events)
{
	(void)fd;
	(void)events;
	run(arg);
}

static const struct gate_events gate_events = { is_wanted, on_entered, run };

static void on_timer(void *arg)
{
	struct http *h = arg;

	h->due = -1;
	run(h);
}

/* --- requests --- */

static int method_of(const char *m, enum http_method *ret)
{
	static const char *const names[] = { [HTTP_GET] = "GET", [HTTP_PUT] = "PUT", [HTTP_POST] = "POST", [HTTP_DELETE] = "DELETE" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (str_eq(m, names[i])) {
			*ret = (enum http_method)i;
			return 0;
		}
	if (!str_eq(m, "HEAD"))
		return -1;
	*ret = HTTP_GET;
	return 0;
}

/* Matches path against a pattern; the "{}" segments go to params. */
static bool match(const char *pattern, const char *path, char params[][HTTP_PARAM])
{
	unsigned n = 0;

	while (*pattern) {
		if (pattern[0] == '{') {
			size_t len = strcspn(path, "/");

			if (len == 0 || len >= HTTP_PARAM || n >= HTTP_PARAMS)
				return false;
			memcpy(params[n], path, len);
			params[n++][len] = '\0';
			path += len;
			pattern += 2;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return *path == '\0';
}

static const struct route *route_of(struct http *h, struct request *r, const char *url, int class, int *status)
{
	*status = 404;
	for (const struct route *t = h->routes; t->path; t++) {
		if (!match(t->path, url, r->params))
			continue;
		if (t->method != r->method) {
			*status = 405;
			continue;
		}
		if (class == PEER_FULL || (class == PEER_TICKETS && t->for_tickets))
			return t;
		*status = 403;
		return NULL;
	}
	return NULL;
}

static struct request *request_new(struct http *h, struct MHD_Connection *c, const char *url, const char *method, const char *version)
{
	const union MHD_ConnectionInfo *ci = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct request *r = calloc(1, sizeof *r);

	if (!r)
		return NULL;
	r->http = h;
	r->conn = c;
	r->status = 405;
	r->head_only = str_eq(method, MHD_HTTP_METHOD_HEAD);
	r->old_version = str_eq(version, MHD_HTTP_VERSION_1_0);
	list_init(&r->sleeping);
	if (method_of(method, &r->method) == 0)
		r->route = route_of(h, r, url, (int)(intptr_t)ci->socket_context, &r->status);
	buf_init(&r->body, r->route ? r->route->max_body : 0);
	h->requests++;
	return r;
}

static enum MHD_Result on_body(struct request *r, const char *data, size_t *n)
{
	/* What is too large is read to its end all the same: the peer is ours, and it sees the answer instead of a broken pipe. */
	if (!r->too_large && buf_add(&r->body, data, *n) < 0)
		r->too_large = true;
	*n = 0;
	return MHD_YES;
}

static void answer_no_route(struct request *r)
{
	const char *code = r->status == 403 ? "forbidden" : r->status == 404 ? "not_found" : "method_not_allowed";

	http_answer_problem(r, r->status, code, "no such route for this caller");
}

static void dispatch(struct request *r)
{
	void (*next)(struct executor *x, struct request *q) = r->next;

	r->next = NULL;
	if (next)
		next(r->http->x, r);
	else if (!r->route)
		answer_no_route(r);
	else if (r->too_large)
		http_answer_problem(r, 413, "too_large", "the body is larger than this route takes");
	else
		r->route->handle(r->http->x, r);
	if (!r->answered && !r->asleep)
		http_answer_problem(r, 500, "internal", "no answer");
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method, const char *version,
		const char *data, size_t *n, void **req_cls)
{
	struct request *r = *req_cls;

	if (!r) {
		r = *req_cls = request_new(cls, c, url, method, version);
		return r ? MHD_YES : MHD_NO;
	}
	if (*n > 0)
		return on_body(r, data, n);
	if (!r->answered)
		dispatch(r);
	return r->dead ? MHD_NO : MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *c, void **req_cls, enum MHD_RequestTerminationCode toe)
{
	struct request *r = *req_cls;

	(void)cls;
	if (!r)
		return;
	if (toe == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		(void)MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)HTTP_KEPT_S);
	*req_cls = NULL;
	loop_timer_free(r->timer);
	loop_io_free(r->io);
	buf_free(&r->unsent);
	if (r->free_state)
		r->free_state(r->state);
	buf_free(&r->body);
	free(r);
}

/* --- waiting --- */

void request_on_time(void *arg)
{
	struct request *r = arg;

	request_wake(r);
	r->timed_out = true;
}

int request_fd(const struct request *r)
{
	return MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

bool request_peer_gone(const struct request *r)
{
	struct pollfd p = { .fd = request_fd(r), .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

int request_doze(struct request *r, int64_t ms)
{
	if (!r->timer)
		r->timer = loop_timer_new(r->http->loop, request_on_time, r);
	if (!r->timer)
		return -1;
	loop_timer_set(r->timer, ms);
	r->asleep = true;
	r->timed_out = false;
	list_add_tail(&r->http->sleepers, &r->sleeping);
	return 0;
}

void request_wake(struct request *r)
{
	if (!r->asleep)
		return;
	r->asleep = false;
	list_del(&r->sleeping);
	loop_timer_set(r->timer, -1);
	if (r->streaming) {
		http_stream_ready(r);
		return;
	}
	MHD_resume_connection(r->conn);
	http_soon(r->http);
}

void http_wait(struct request *r, int64_t ms, void (*fn)(struct executor *x, struct request *r))
{
	r->next = fn;
	if (request_doze(r, ms) < 0)
		http_answer_problem(r, 503, "no_memory", "out of memory");
	else
		MHD_suspend_connection(r->conn);
}

/* --- opening --- */

__attribute__((format(printf, 2, 0)))
static void on_mhd_log(void *cls, const char *fmt, va_list ap)
{
	char line[256];

	(void)cls;
	if (vsnprintf(line, sizeof line, fmt, ap) < 0)
		return;
	line[strcspn(line, "\n")] = '\0';
	log_kv(LOG_DEBUG, "http_library", "text", line, NULL);
}

static struct MHD_Daemon *daemon_start(struct http *h, int64_t silent_ms)
{
	return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, h,
		MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)((silent_ms + 999) / 1000),
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
		MHD_OPTION_END);
}

static int open_parts(struct http *h, int listen_fd, int64_t silent_ms)
{
	const union MHD_DaemonInfo *di;

	h->gate = gate_new(h->loop, listen_fd, &gate_events, h, NULL);
	h->daemon = h->gate ? daemon_start(h, silent_ms) : NULL;
	di = h->daemon ? MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!di)
		return -1;
	h->io = loop_io_new(h->loop, di->epoll_fd, LOOP_READ, on_ready, h);
	h->timer = loop_timer_new(h->loop, on_timer, h);
	return h->io && h->timer ? 0 : -1;
}

struct http *http_new(struct loop *l, int listen_fd, const struct http_peers *p, int64_t silent_ms, const struct route *routes, struct executor *x, err_t **err)
{
	struct http *h = calloc(1, sizeof *h);

	if (!h) {
		close(listen_fd);
		err_set(err, ERR_NO_MEMORY, NULL, "http");
		return NULL;
	}
	*h = (struct http){ .loop = l, .peers = *p, .routes = routes, .x = x, .due = -1 };
	list_init(&h->sleepers);
	list_init(&h->ready);
	if (open_parts(h, listen_fd, silent_ms) < 0) {
		http_free(h);
		err_set(err, ERR_INTERNAL, NULL, "the HTTP server could not be started");
		return NULL;
	}
	return h;
}

static void let_go(struct request *r)
{
	if (r->streaming)
		http_stream_end(r);
	else
		request_wake(r);
}

void http_free(struct http *h)
{
	if (!h)
		return;
	/* The library will not stop over suspended connections. */
	list_for_each_safe(p, next, &h->sleepers)
		let_go(list_entry(p, struct request, sleeping));
	list_for_each_safe(p, next, &h->ready)
		let_go(list_entry(p, struct request, sleeping));
	gate_free(h->gate);
	loop_io_free(h->io);
	loop_timer_free(h->timer);
	if (h->daemon)
		MHD_stop_daemon(h->daemon);
	free(h);
}

unsigned http_connections(const struct http *h)
{
	return h->connections;
}

uint64_t http_requests(const struct http *h)
{
	return h->requests;
}
