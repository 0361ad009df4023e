#include "executor/feed.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"

#define FEED_CHUNK (64u << 10)

void feed_init(struct feed *f)
{
	*f = (struct feed){ .fd = -1, .limit = FEED_WINDOW_FIRST };
}

void feed_close(struct feed *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

int feed_open(struct feed *f, int fd, err_t **err)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		close(fd);
		return err_sys(err, errno, "stdin spool");
	}
	f->fd = fd;
	f->size = (uint64_t)st.st_size;
	return 0;
}

int feed_add(struct feed *f, const void *p, size_t n, uint64_t max, err_t **err)
{
	int e;

	if (f->size > max || n > max - f->size)
		return err_set(err, ERR_TOO_LARGE, "stdin_too_large", "standard input is limited to %llu bytes in all", (unsigned long long)max);
	if (io_write_full(f->fd, p, n) < 0) {
		e = errno;
		if (ftruncate(f->fd, (off_t)f->size) < 0)
			log_kv(LOG_WARN, "stdin_spool_torn", "err", strerror(errno), NULL);
		return err_sys(err, e, "stdin spool");
	}
	f->size += n;
	return 0;
}

/* The agent is not believed beyond what there is. */
static uint64_t at_most(uint64_t v, uint64_t max)
{
	return v < max ? v : max;
}

void feed_taken(struct feed *f, uint64_t taken, uint64_t window)
{
	f->limit = at_most(taken, f->size) + at_most(window, FEED_CHUNK * 16);
}

void feed_reconnected(struct feed *f, uint64_t taken)
{
	f->sent = f->limit = at_most(taken, f->size);
	f->eof_sent = false;
}

static size_t sendable(const struct feed *f)
{
	uint64_t to = f->size < f->limit ? f->size : f->limit;

	if (to <= f->sent)
		return 0;
	return to - f->sent < FEED_CHUNK ? (size_t)(to - f->sent) : FEED_CHUNK;
}

int feed_push(struct feed *f, struct instances *is, const char *iid, const char *cid)
{
	static uint8_t chunk[FEED_CHUNK];

	for (;;) {
		cleanup_err err_t *e = NULL;
		size_t n = sendable(f);
		bool eof = f->eof && f->sent + n == f->size;

		if ((n == 0 && !eof) || f->eof_sent)
			return 0;
		if (n > 0 && io_pread(f->fd, chunk, n, (off_t)f->sent) != (ssize_t)n) {
			log_kv(LOG_ERROR, "stdin_spool_unreadable", "command", cid, NULL);
			return 0;
		}
		if (instances_exec_stdin(is, iid, cid, f->sent, chunk, n, eof, &e) < 0) {
			log_kv(LOG_DEBUG, "stdin_not_sent", "command", cid, "err", err_message(e), NULL);
			return err_code(e) == ERR_BUSY ? -1 : 0;   /* without a connection the next one goes on */
		}
		f->sent += n;
		f->eof_sent = eof;
	}
}
