#include "core/http_client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/http_wire.h"

#define CONNECT_TIMEOUT_S 5
#define READ_BYTES 8192
#define READ_BYTES_MANY 131072   /* while a long answer comes */

struct http_client {
	struct sockaddr_un addr;
	int fd;                  /* the kept connection, or -1 */
};

/* One request on its way. */
struct exchange {
	int fd;
	int64_t deadline_ms;
	bool sent;               /* some of it may have been acted on */
	bool answered;           /* some of the answer has come */
	const char *why;         /* it failed */
	struct http_wire wire;
};

void http_answer_free(struct http_answer *a)
{
	buf_free(&a->body);
	a->status = 0;
}

struct http_client *http_client_new(const char *socket_path, err_t **err)
{
	struct http_client *c = calloc(1, sizeof *c);

	if (!c) {
		err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
		return NULL;
	}
	c->fd = -1;
	c->addr.sun_family = AF_UNIX;
	if (str_copy(c->addr.sun_path, sizeof c->addr.sun_path, socket_path) < 0) {
		free(c);
		err_set(err, ERR_INVALID, NULL, "the socket's path is too long: %s", socket_path);
		return NULL;
	}
	return c;
}

static void hang_up(struct http_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

void http_client_free(struct http_client *c)
{
	if (!c)
		return;
	hang_up(c);
	free(c);
}

/* Waits while the listener's queue is full. */
static int dial(struct http_client *c)
{
	const struct timeval patience = { .tv_sec = CONNECT_TIMEOUT_S };
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0 ||
	    connect(fd, (const struct sockaddr *)&c->addr, sizeof c->addr) < 0)
		return -1;
	c->fd = steal_fd(&fd);
	return 0;
}

static int wait_for(struct exchange *x, short events)
{
	int64_t left = x->deadline_ms - clock_boot_ms();
	struct pollfd p = { .fd = x->fd, .events = events };
	int n = left > 0 ? poll(&p, 1, left < INT32_MAX ? (int)left : INT32_MAX) : 0;

	if (n > 0 || (n < 0 && errno == EINTR))
		return 0;
	x->why = n == 0 ? "it took too long" : strerror(errno);
	return -1;
}

/* Drops n bytes from the front of the two. */
static void advance(struct iovec iov[2], size_t n)
{
	for (int i = 0; i < 2; i++) {
		size_t k = n < iov[i].iov_len ? n : iov[i].iov_len;

		iov[i].iov_base = (char *)iov[i].iov_base + k;
		iov[i].iov_len -= k;
		n -= k;
	}
}

/* A peer that hangs up before it has read all may still have answered. */
static int send_all(struct exchange *x, const struct buf *head, const struct http_req *r)
{
	struct iovec iov[2] = { { head->data, head->len }, { (void *)(uintptr_t)r->body, r->body ? r->body_len : 0 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

	while (iov[0].iov_len + iov[1].iov_len > 0) {
		ssize_t n = sendmsg(x->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			x->sent = true;
			advance(iov, (size_t)n);
		} else if (errno == EAGAIN) {
			if (wait_for(x, POLLOUT) < 0)
				return -1;
		} else if (errno != EINTR) {
			x->why = strerror(errno);
			return x->sent ? 0 : -1;
		}
	}
	return 0;
}

static int read_some(struct exchange *x)
{
	struct buf *in = &x->wire.in;
	size_t room = x->wire.body.len > READ_BYTES ? READ_BYTES_MANY : READ_BYTES;
	ssize_t n;

	if (buf_reserve(in, room) < 0) {
		x->why = "out of memory";
		return -1;
	}
	n = recv(x->fd, in->data + in->len, room, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return wait_for(x, POLLIN);
	if (n <= 0) {
		x->why = n < 0 ? strerror(errno) : "the connection was closed";
		return -1;
	}
	x->answered = true;
	in->len += (size_t)n;
	in->data[in->len] = '\0';
	return 0;
}

/* 0, or -1 with why or *ret_large. */
static int read_answer(struct exchange *x, bool *ret_large)
{
	int rc = 0;

	if (wait_for(x, POLLIN) < 0)   /* an answer is never there at once */
		return -1;
	while (rc == 0) {
		if (read_some(x) < 0)
			return http_wire_ended(&x->wire) ? 0 : -1;
		rc = http_wire_take(&x->wire, ret_large);
	}
	if (rc < 0)
		x->why = "the answer is malformed";
	return rc < 0 ? -1 : 0;
}

/* On the kept connection or a new one; the connection is kept when the answer allows it. */
static int exchange(struct http_client *c, const struct buf *head, const struct http_req *r, struct exchange *x, bool *ret_large)
{
	int rc;

	if (c->fd < 0 && dial(c) < 0) {
		x->why = strerror(errno);
		return -1;
	}
	x->fd = c->fd;
	rc = send_all(x, head, r) < 0 || read_answer(x, ret_large) < 0 ? -1 : 0;
	if (rc < 0 || !x->wire.keep || x->wire.in.len > 0)
		hang_up(c);
	return rc;
}

static bool may_repeat(const struct http_req *r)
{
	return r->repeatable || !str_eq(r->method, "POST");
}

/* A kept connection whose peer has gone is no answer: once more, on a new one. */
static int exchange_kept(struct http_client *c, const struct buf *head, const struct http_req *r, struct exchange *x, bool *ret_large)
{
	bool kept;

	if (!may_repeat(r))
		hang_up(c);
	kept = c->fd >= 0;
	if (exchange(c, head, r, x, ret_large) == 0)
		return 0;
	if (!kept || x->answered || clock_boot_ms() >= x->deadline_ms)
		return -1;
	return exchange(c, head, r, x, ret_large);
}

int http_client_do(struct http_client *c, const struct http_req *r, struct http_answer *ret, err_t **err)
{
	struct exchange x = { .deadline_ms = clock_boot_ms() + r->timeout_ms };
	cleanup_buf struct buf head = BUF_INIT(HTTP_WIRE_HEAD_MAX);
	bool too_large = false;
	int rc;

	if (http_wire_head(&head, r) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "malformed request path");
	http_wire_init(&x.wire, r->max_answer);
	rc = exchange_kept(c, &head, r, &x, &too_large);
	if (rc == 0) {
		*ret = (struct http_answer){ .status = x.wire.status, .body = x.wire.body };
		buf_init(&x.wire.body, 0);
	} else if (too_large) {
		err_set(err, ERR_TOO_LARGE, NULL, "the answer is larger than %zu bytes", r->max_answer);
	} else {
		err_set(err, x.sent ? ERR_UNKNOWN : ERR_UNAVAILABLE, NULL, "%s: %s", x.sent ? "no complete answer" : "no connection", x.why);
	}
	http_wire_free(&x.wire);
	return rc;
}
