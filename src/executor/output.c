#include "executor/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "base/utf8.h"
#include "executor/journal_index.h"

#define OUTPUT_PATH 64
#define GAP_RECORDS_AT_ONCE 4096   /* how many records one answer may join to a gap */

struct stream_file {
	int fd;
	uint64_t size;       /* bytes in the file, hole included */
	uint64_t indexed;    /* of these, covered by the index */
	uint64_t hole_end;   /* the hole is [head, hole_end) */
};

struct output {
	unsigned refs;
	int dirfd;
	char name[OUTPUT_PATH];
	struct output_caps caps;
	struct stream_file s[2];
	uint64_t dropped[2];
	struct journal_index index;
	bool finished;
	bool dropping;
	struct list watches;
};

static const char *const file_names[] = { "out", "err", "idx" };

static int file_open(const struct output *o, unsigned which, int flags)
{
	char path[OUTPUT_PATH + 8];

	if (str_fmt(path, sizeof path, "%s.%s", o->name, file_names[which]) < 0) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return openat(o->dirfd, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* --- what is kept --- */

static uint64_t hole_end(const struct output_caps *c, uint64_t size)
{
	if (size <= c->head + c->tail)
		return c->head;
	return c->head + (size - c->head - c->tail) / OUTPUT_HOLE_STEP * OUTPUT_HOLE_STEP;
}

static void punch(struct output *o, struct stream_file *f)
{
	uint64_t to = hole_end(&o->caps, f->size);

	if (to <= f->hole_end)
		return;
	if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)f->hole_end, (off_t)(to - f->hole_end)) < 0)
		log_kv(LOG_WARN, "journal_punch_failed", "command", o->name, "err", strerror(errno), NULL);
	f->hole_end = to;
}

/* --- the index --- */

static int index_persist(struct output *o)
{
	if (!o->index.have_last || !o->index.dirty)
		return 0;
	if (o->index.fd < 0)
		o->index.fd = file_open(o, 2, O_RDWR | O_CREAT);
	return o->index.fd < 0 ? -1 : index_flush(&o->index);
}

/* Bytes at the end of the unindexed part that begin a character which may still be completed. */
static uint64_t held_back(const struct stream_file *f)
{
	uint64_t n = f->size - f->indexed;
	uint8_t b[3];

	if (n > sizeof b)
		n = sizeof b;
	if (n == 0 || io_pread(f->fd, b, n, (off_t)(f->size - n)) != (ssize_t)n)
		return 0;
	return utf8_partial_tail(b, n);
}

/* 0, or -1 when the index can take no more. */
static int cover(struct output *o, enum output_stream s, bool all)
{
	struct stream_file *f = &o->s[s];
	uint64_t n = f->size - f->indexed;

	if (!all && n > 0)
		n -= held_back(f);
	if (n == 0)
		return 0;
	if (o->index.have_last && o->index.last.kind != (uint32_t)s) {
		if (o->index.last.kind == INDEX_DROPPED)
			return -1;
		if (!o->index.frozen && index_persist(o) < 0) {
			if (!all)
				return -1;
			o->index.frozen = true;
		}
	}
	if (index_add(&o->index, (enum index_kind)s, f->indexed, n) < 0)
		return -1;
	f->indexed += n;
	return 0;
}

/* --- dropping --- */

/* Bytes that are in a file but can no longer be indexed are taken out of it and counted as dropped. */
static void shed_unindexed(struct output *o, uint64_t shed[2])
{
	for (int s = 0; s < 2; s++) {
		struct stream_file *f = &o->s[s];

		shed[s] = f->size - f->indexed;
		if (shed[s] && ftruncate(f->fd, (off_t)f->indexed) < 0)
			log_kv(LOG_WARN, "journal_truncate_failed", "command", o->name, "err", strerror(errno), NULL);
		f->size = f->indexed;
	}
}

static void count_dropped(struct output *o, uint64_t out, uint64_t err)
{
	o->dropped[OUTPUT_OUT] += out;
	o->dropped[OUTPUT_ERR] += err;
	if (out + err == 0)
		return;
	if (index_persist(o) < 0)
		o->index.dirty = false;   /* its record is lost to a later executor, which finds the tail by the file's size */
	index_drop(&o->index, out, err);
	(void)index_persist(o);
}

static void start_dropping(struct output *o, const char *why, int errnum)
{
	uint64_t shed[2];

	log_kv(LOG_WARN, "journal_dropping", "command", o->name, "why", why, "err", errnum ? strerror(errnum) : NULL, NULL);
	o->dropping = true;
	shed_unindexed(o, shed);
	count_dropped(o, shed[OUTPUT_OUT], shed[OUTPUT_ERR]);
}

static int null_fd(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return fd;
}

static ssize_t pour(int pipe_fd, size_t max)
{
	ssize_t n;

	do
		n = splice(pipe_fd, NULL, null_fd(), NULL, max, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (n < 0 && errno == EINTR);
	return n;
}

static ssize_t take_dropping(struct output *o, enum output_stream s, int pipe_fd, size_t max)
{
	ssize_t n = pour(pipe_fd, max);

	if (n > 0)
		count_dropped(o, s == OUTPUT_OUT ? (uint64_t)n : 0, s == OUTPUT_ERR ? (uint64_t)n : 0);
	return n;
}

/* --- taking --- */

/* A stream's file is made when its first byte is there. 1: ready to splice; 0: end of the pipe; -1: nothing now. */
static int first_byte(struct output *o, enum output_stream s, int pipe_fd)
{
	struct pollfd p = { .fd = pipe_fd, .events = POLLIN };

	if (o->s[s].fd >= 0 || o->dropping)
		return 1;
	if (poll(&p, 1, 0) < 0 || p.revents == 0) {
		errno = EAGAIN;
		return -1;
	}
	if (!(p.revents & POLLIN))
		return 0;
	o->s[s].fd = file_open(o, s, O_RDWR | O_CREAT);
	if (o->s[s].fd < 0)
		start_dropping(o, "open", errno);
	return 1;
}

/* Before bytes of the other stream may reach their file the last record must be on disk: at most one stream then has a tail that
 * readers saw and a later executor finds unindexed, so positions never change. */
static void before_switch(struct output *o, enum output_stream s)
{
	if (!o->index.have_last || o->index.last.kind == (uint32_t)s || !o->index.dirty)
		return;
	if (index_count(&o->index) >= o->caps.index_records)
		start_dropping(o, "index_records", 0);
	else if (index_persist(o) < 0)
		start_dropping(o, "index", errno);
}

ssize_t output_take(struct output *o, enum output_stream s, int pipe_fd, size_t max)
{
	struct stream_file *f = &o->s[s];
	int ready = first_byte(o, s, pipe_fd);
	loff_t at;
	ssize_t n;

	if (ready <= 0)
		return ready;
	if (!o->dropping)
		before_switch(o, s);
	if (o->dropping)
		return take_dropping(o, s, pipe_fd, max);
	at = (loff_t)f->size;
	do
		n = splice(pipe_fd, NULL, f->fd, &at, max, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN) {
		start_dropping(o, "write", errno);
		return take_dropping(o, s, pipe_fd, max);
	}
	if (n <= 0)
		return n;
	FAULT_POINT(command_spliced);
	f->size += (uint64_t)n;
	if (cover(o, s, false) < 0)
		start_dropping(o, "index", errno);
	else
		punch(o, f);
	return n;
}

void output_finish(struct output *o)
{
	if (o->finished)
		return;
	for (int s = 0; s < 2 && !o->dropping; s++)
		(void)cover(o, (enum output_stream)s, true);
	/* A single stream needs no index: its file says it all. */
	if (o->index.fd >= 0 || (o->s[OUTPUT_OUT].size && o->s[OUTPUT_ERR].size))
		(void)index_persist(o);
	o->finished = true;
}

/* --- opening --- */

static void stream_load(struct output *o, enum output_stream s, uint64_t covered)
{
	struct stream_file *f = &o->s[s];
	struct stat st;

	if (f->fd >= 0 && fstat(f->fd, &st) == 0)
		f->size = (uint64_t)st.st_size;
	if (f->size < covered)
		f->size = covered;
	f->indexed = covered;
	f->hole_end = o->caps.head;
	if (o->finished)
		f->hole_end = hole_end(&o->caps, f->size);
	else if (f->fd >= 0)
		punch(o, f);   /* once more: the last one may not have been reached */
}

/* The last record's stream first: readers may have seen its tail; the other's tail nobody saw. */
static void take_up_tails(struct output *o, const uint64_t totals[2])
{
	int first = o->index.have_last && o->index.last.kind == INDEX_ERR;

	o->index.frozen = totals != NULL;
	if (o->index.have_last && o->index.last.kind == INDEX_DROPPED) {
		o->dropping = true;
		o->dropped[OUTPUT_OUT] = o->index.last.off;
		o->dropped[OUTPUT_ERR] = o->index.last.len - o->index.last.off;
		return;
	}
	for (int i = 0; i < 2; i++)
		(void)cover(o, (enum output_stream)(i ^ first), totals != NULL);
	for (int i = 0; totals && i < 2; i++)
		if (totals[i] > o->s[i].size)
			o->dropped[i] = totals[i] - o->s[i].size;
	if (o->dropped[OUTPUT_OUT] + o->dropped[OUTPUT_ERR])
		(void)index_drop(&o->index, o->dropped[OUTPUT_OUT], o->dropped[OUTPUT_ERR]);
}

static int open_files(struct output *o, uint64_t covered[2], err_t **err)
{
	int flags = o->finished ? O_RDONLY : O_RDWR, fd;

	for (unsigned i = 0; i < 3; i++) {
		fd = file_open(o, i, flags);
		if (fd < 0 && errno != ENOENT)
			return err_sys(err, errno, "output %s.%s", o->name, file_names[i]);
		if (i < 2)
			o->s[i].fd = fd;
		else if (fd >= 0)
			index_load(&o->index, fd, covered);
	}
	return 0;
}

struct output *output_new(int dirfd, const char *name, const struct output_caps *caps, err_t **err)
{
	struct output *o = calloc(1, sizeof *o);

	if (!o || str_copy(o->name, sizeof o->name, name) < 0) {
		free(o);
		err_set(err, ERR_NO_MEMORY, NULL, "output of %s", name);
		return NULL;
	}
	o->refs = 1;
	o->dirfd = dirfd;
	o->caps = *caps;
	o->s[0] = o->s[1] = (struct stream_file){ .fd = -1, .hole_end = caps->head };
	index_init(&o->index);
	list_init(&o->watches);
	return o;
}

struct output *output_open(int dirfd, const char *name, const struct output_caps *caps, const uint64_t totals[2], err_t **err)
{
	struct output *o = output_new(dirfd, name, caps, err);
	uint64_t covered[2] = { 0, 0 };

	if (!o)
		return NULL;
	o->finished = totals != NULL;
	if (open_files(o, covered, err) < 0) {
		output_unref(o);
		return NULL;
	}
	for (int s = 0; s < 2; s++)
		stream_load(o, (enum output_stream)s, covered[s]);
	take_up_tails(o, totals);
	return o;
}

struct output *output_ref(struct output *o)
{
	o->refs++;
	return o;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void output_unref(struct output *o)
{
	if (!o || --o->refs > 0)
		return;
	close_fd(o->s[0].fd);
	close_fd(o->s[1].fd);
	close_fd(o->index.fd);
	free(o);
}

/* --- looking --- */

void output_tell(struct output *o)
{
	watch_tell(&o->watches);
}

struct list *output_watches(struct output *o)
{
	return &o->watches;
}

bool output_finished(const struct output *o)
{
	return o->finished;
}

uint64_t output_end(const struct output *o)
{
	return index_end(&o->index);
}

uint64_t output_bytes(const struct output *o, enum output_stream s)
{
	return o->s[s].size + o->dropped[s];
}

uint64_t output_size(const struct output *o, enum output_stream s)
{
	return o->s[s].size;
}

bool output_hole(const struct output *o, enum output_stream s, uint64_t *from, uint64_t *to)
{
	*from = o->caps.head;
	*to = o->s[s].hole_end;
	return *to > *from;
}

bool output_truncated(const struct output *o, enum output_stream s)
{
	return o->dropped[s] > 0 || o->s[s].hole_end > o->caps.head;
}

ssize_t output_read(const struct output *o, enum output_stream s, uint64_t off, void *p, size_t n)
{
	return o->s[s].fd < 0 ? 0 : io_pread(o->s[s].fd, p, n, (off_t)off);
}

/* The part of record r from pos on. */
static void piece_of(const struct output *o, const struct index_record *r, uint64_t pos, struct output_piece *ret)
{
	const struct stream_file *f;

	ret->to = r->seq + r->len;
	if (r->kind == INDEX_DROPPED) {
		ret->what = o->finished ? OUTPUT_GAP : OUTPUT_NONE;
		return;
	}
	f = &o->s[r->kind];
	ret->stream = (enum output_stream)r->kind;
	ret->off = r->off + (pos - r->seq);
	ret->what = OUTPUT_DATA;
	if (ret->off >= f->hole_end || f->hole_end == o->caps.head)
		return;
	if (ret->off < o->caps.head) {
		if (ret->to - pos > o->caps.head - ret->off)
			ret->to = pos + (o->caps.head - ret->off);
		return;
	}
	ret->what = OUTPUT_GAP;
	if (ret->to - pos > f->hole_end - ret->off)
		ret->to = pos + (f->hole_end - ret->off);
}

void output_piece_at(const struct output *o, uint64_t pos, uint64_t *hint, struct output_piece *ret)
{
	struct index_record r;
	struct output_piece next;

	*ret = (struct output_piece){ .what = OUTPUT_NONE };
	if (index_find(&o->index, pos, hint, &r) < 0)
		return;
	piece_of(o, &r, pos, ret);
	for (int i = 0; ret->what == OUTPUT_GAP && i < GAP_RECORDS_AT_ONCE; i++) {
		if (index_find(&o->index, ret->to, hint, &r) < 0)
			return;
		piece_of(o, &r, ret->to, &next);
		if (next.what != OUTPUT_GAP)
			return;
		ret->to = next.to;
	}
}
