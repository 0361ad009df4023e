#include "agent/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"

void feed_init(struct feed *f)
{
	*f = (struct feed){ .w = WATCH_NONE };
}

static void drop_held(struct feed *f)
{
	free(f->held);
	f->held = NULL;
	f->at = f->len = 0;
}

void feed_close(struct feed *f)
{
	if (f->w.fd >= 0)
		f->news = true;
	poller_close(&f->w);
	drop_held(f);
}

/* Writes what the pipe takes: the number of bytes, or -1 when nobody reads any more. */
static ssize_t push(const struct feed *f, const void *p, size_t n)
{
	ssize_t w = n ? write(f->w.fd, p, n) : 0;

	if (w < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	return w;
}

static void writable(struct watch *w, uint32_t events)
{
	struct feed *f = list_entry(w, struct feed, w);
	ssize_t n = push(f, f->held + f->at, f->len);

	if (n < 0 || (events & EPOLLERR)) {
		feed_close(f);
		return;
	}
	f->at += (size_t)n;
	f->len -= (size_t)n;
	/* Telling each few bytes would cost a frame each. */
	if (f->len == 0 || f->len <= MSG_STDIN_MAX / 2)
		f->news = true;
	if (f->len)
		return;
	drop_held(f);
	poller_set(&f->w, 0);
	if (f->eof)
		feed_close(f);
}

int feed_open(struct feed *f, int fd)
{
	return poller_add(&f->w, fd, 0, writable);
}

uint64_t feed_window(const struct feed *f)
{
	return f->w.fd < 0 ? INT64_MAX : MSG_STDIN_MAX - f->len;
}

static void hold(struct feed *f, const uint8_t *p, size_t n)
{
	if (f->at) {
		memmove(f->held, f->held + f->at, f->len);
		f->at = 0;
	}
	memcpy(f->held + f->len, p, n);
	if (f->len == 0)
		poller_set(&f->w, EPOLLOUT);
	f->len += n;
}

static int accept_bytes(struct feed *f, const uint8_t *p, size_t n)
{
	if (f->w.fd < 0 || f->eof)
		return 0;
	if (n > MSG_STDIN_MAX - f->len)
		return -1;
	ssize_t w = f->len ? 0 : push(f, p, n);
	if (w < 0) {
		feed_close(f);
		return 0;
	}
	if ((size_t)w == n)
		return 0;
	if (!f->held)
		f->held = malloc(MSG_STDIN_MAX);
	if (!f->held) {
		/* What the pipe already took cannot be taken back. */
		f->taken += (uint64_t)w;
		return -1;
	}
	hold(f, p + w, n - (size_t)w);
	return 0;
}

int feed_put(struct feed *f, const struct msg_stdin *m)
{
	if (m->offset > f->taken)
		return -1;
	uint64_t seen = f->taken - m->offset;
	f->news = true;
	if (seen <= m->len) {
		size_t n = m->len - (size_t)seen;
		if (n && accept_bytes(f, (const uint8_t *)m->data + seen, n) < 0)
			return -1;
		f->taken += n;
		f->eof |= m->eof;
	}
	if (f->eof && f->len == 0)
		feed_close(f);
	return 0;
}
