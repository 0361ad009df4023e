/* Bodies that are made while they are sent (declared in http.h).
 *
 * The library would make each piece in the memory of the connection, which is small so that idle streams cost little, and send it in 8 KiB. So it is told to
 * suspend the connection, and the socket is written from here: the head, then pieces straight from where the source has them. What the socket does not take
 * goes back to the source: a reader that stops holds nothing of ours. At the end the library is woken to close the connection. */
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "executor/http_priv.h"

#define PIECE_MAX (128u << 10)
#define UNSENT_MAX 4096          /* the head, or what a chunk needs around it */

static const char chunk_end[] = { '\r', '\n' };

enum step { STEP_ON, STEP_FULL, STEP_ASLEEP, STEP_OVER };

/* --- one piece --- */

/* What of the parts of a message was sent, one after the other. */
static size_t part_sent(size_t *sent, size_t part)
{
	size_t n = *sent < part ? *sent : part;

	*sent -= n;
	return n;
}

/* Of the message unsent, chunk's size line, data, chunk's end only `sent` bytes are gone: the rest of the framing is kept, the rest of the data is not. */
static void settle(struct request *r, size_t sent, const char *line, size_t line_len, size_t n, bool last)
{
	size_t done;

	buf_consume(&r->unsent, part_sent(&sent, r->unsent.len));
	done = part_sent(&sent, line_len);
	buf_add(&r->unsent, line + done, line_len - done);
	done = part_sent(&sent, n);
	if (r->chunked)
		r->owed -= done;
	if (done < n) {
		r->source->back(r, n - done);
	} else if (last) {
		done = part_sent(&sent, sizeof chunk_end);
		buf_add(&r->unsent, chunk_end + done, sizeof chunk_end - done);
	}
	if (r->unsent.len == 0 && !buf_failed(&r->unsent))
		buf_free(&r->unsent);
}

/* A chunk whose size has been told is owed: its bytes may come in several messages, and need not be those that were there when it began. */
static enum step send_piece(struct request *r, const char *data, size_t n)
{
	char line[24] = "";
	size_t line_len = 0, all;
	bool last;
	ssize_t sent;

	if (r->chunked && n > 0 && r->owed == 0) {
		line_len = (size_t)snprintf(line, sizeof line, "%zx\r\n", n);
		r->owed = n;
	}
	last = r->chunked && n > 0 && n == r->owed;
	struct iovec v[] = {
		{ r->unsent.data, r->unsent.len }, { line, line_len }, { (void *)(uintptr_t)data, n }, { (void *)(uintptr_t)chunk_end, last ? sizeof chunk_end : 0 },
	};
	struct msghdr m = { .msg_iov = v, .msg_iovlen = sizeof v / sizeof *v };

	all = r->unsent.len + line_len + n + v[3].iov_len;
	sent = sendmsg(request_fd(r), &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR)
		return STEP_OVER;
	settle(r, sent < 0 ? 0 : (size_t)sent, line, line_len, n, last);
	return buf_failed(&r->unsent) ? STEP_OVER : (size_t)sent == all ? STEP_ON : STEP_FULL;
}

static enum step fall_asleep(struct request *r)
{
	if (r->timed_out && request_peer_gone(r))   /* nobody watches the socket while there is nothing to send */
		return STEP_OVER;
	return request_doze(r, r->idle_ms) < 0 ? STEP_OVER : STEP_ASLEEP;
}

static enum step step(struct request *r)
{
	const char *data = NULL;
	ssize_t n = 0;

	if (!r->ending)
		n = r->source->read(r, r->owed && r->owed < PIECE_MAX ? (size_t)r->owed : PIECE_MAX, &data);
	if (n == HTTP_STREAM_END && r->owed == 0) {
		r->ending = true;
		if (r->chunked)
			buf_adds(&r->unsent, "0\r\n\r\n");
		n = 0;
	}
	if (n < 0)
		return STEP_OVER;
	if (n == 0 && r->unsent.len == 0)
		return r->ending ? STEP_OVER : fall_asleep(r);
	return send_piece(r, data, (size_t)n);
}

/* --- turns --- */

static void on_writable(void *arg, int fd, int events)
{
	struct request *r = arg;

	(void)fd;
	(void)events;
	(void)loop_io_set(r->io, 0);
	http_stream_ready(r);
}

/* Until the socket takes more. */
static enum step wait_for_room(struct request *r)
{
	list_add_tail(&r->http->sleepers, &r->sleeping);
	if (!r->io)
		r->io = loop_io_new(r->http->loop, request_fd(r), LOOP_WRITE, on_writable, r);
	else if (loop_io_set(r->io, LOOP_WRITE) < 0)
		return STEP_OVER;
	return r->io ? STEP_FULL : STEP_OVER;
}

void http_stream_end(struct request *r)
{
	list_del(&r->sleeping);
	loop_io_free(r->io);
	r->io = NULL;
	loop_timer_set(r->timer, -1);
	buf_free(&r->unsent);
	r->asleep = r->streaming = false;
	r->dead = true;
	MHD_resume_connection(r->conn);
	http_soon(r->http);
}

void http_stream_ready(struct request *r)
{
	list_del(&r->sleeping);
	list_add_tail(&r->http->ready, &r->sleeping);
	http_soon(r->http);
}

void http_streams_turn(struct http *h, int64_t us)
{
	struct list *last = h->ready.prev;
	bool more = !list_empty(&h->ready);
	int64_t until_us = more ? clock_boot_us() + us : 0;

	while (more) {
		struct request *r = list_entry(h->ready.next, struct request, sleeping);
		enum step s;

		more = &r->sleeping != last && clock_boot_us() < until_us;
		list_del(&r->sleeping);
		s = step(r);
		if (s == STEP_FULL)
			s = wait_for_room(r);
		if (s == STEP_ON)
			list_add_tail(&h->ready, &r->sleeping);
		else if (s == STEP_OVER)
			http_stream_end(r);
	}
}

/* --- the beginning --- */

static void add_head(struct request *r, int status, const char *content_type, uint64_t length)
{
	struct buf *b = &r->unsent;

	buf_addf(b, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: %s\r\n", status, MHD_get_reason_phrase_for((unsigned)status), content_type);
	for (unsigned i = 0; i < r->n_headers; i++)
		buf_addf(b, "%s: %s\r\n", r->headers[i].name, r->headers[i].value);
	if (length != HTTP_UNSIZED)
		buf_addf(b, "Content-Length: %" PRIu64 "\r\n", length);
	else if (r->chunked)
		buf_adds(b, "Transfer-Encoding: chunked\r\n");
	buf_adds(b, "\r\n");
}

void http_stream(struct request *r, int status, const char *content_type, uint64_t length, const struct http_source *source)
{
	r->source = source;
	r->idle_ms = HTTP_IDLE_MS;
	r->chunked = length == HTTP_UNSIZED && !r->old_version;
	r->answered = r->streaming = true;
	buf_init(&r->unsent, UNSENT_MAX);
	add_head(r, status, content_type, length);
	r->ending = r->head_only;
	if (!r->timer)
		r->timer = loop_timer_new(r->http->loop, request_on_time, r);
	if (!r->timer || buf_failed(&r->unsent)) {
		r->streaming = false;
		r->dead = true;
		return;
	}
	MHD_suspend_connection(r->conn);
	http_stream_ready(r);
}

void http_stream_idle(struct request *r, int64_t ms)
{
	r->idle_ms = ms;
}
