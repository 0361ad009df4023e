#include "executor/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "executor/steps.h"

#define FILES_KNOWN 16     /* four seconds of ids */
#define IDS_KNOWN 2048     /* of a file; of a larger one nothing is kept */

/* A file that was used lately. */
struct known {
	char name[ARCHIVE_NAME];   /* "": none */
	int fd;                    /* open for adding, or -1 */
	uint64_t size;             /* of its whole entries */
	char (*ids)[ID_SIZE];
	size_t n, room;
};

struct archive {
	int dirfd;
	struct known known[FILES_KNOWN];
	unsigned turn;             /* the one that makes room for the next */
};

void archive_name(char dst[ARCHIVE_NAME], const char *cid)
{
	memcpy(dst, cid, ARCHIVE_NAME - 1);
	dst[ARCHIVE_NAME - 1] = '\0';
}

bool archive_is_name(const char *name)
{
	return strlen(name) == ARCHIVE_NAME - 1 && name[8] == '-' && strspn(name, "0123456789abcdef-") == ARCHIVE_NAME - 1;
}

static int file_open(int dirfd, const char *cid, int flags)
{
	char name[ARCHIVE_NAME];

	archive_name(name, cid);
	return openat(dirfd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int archive_next(int fd, uint64_t *at, char cid[ID_SIZE], size_t *len)
{
	char h[ARCHIVE_HEADER + 1];
	uint64_t n;
	struct stat st;

	if (io_pread(fd, h, ARCHIVE_HEADER, (off_t)*at) != ARCHIVE_HEADER || fstat(fd, &st) < 0)
		return 0;
	h[ARCHIVE_HEADER] = '\0';
	if (!str_prefix(h, "entry ") || h[42] != ' ' || h[ARCHIVE_HEADER - 1] != '\n')
		return 0;
	h[42] = h[ARCHIVE_HEADER - 1] = '\0';
	if (!id_valid(h + 6) || num_u64(h + 43 + strspn(h + 43, " "), STEPS_FILE_MAX, &n) < 0 || *at + ARCHIVE_HEADER + n > (uint64_t)st.st_size)
		return 0;
	memcpy(cid, h + 6, ID_SIZE);
	*len = (size_t)n;
	*at += ARCHIVE_HEADER + n;
	return 1;
}

/* --- files that were used lately --- */

static void forget(struct known *k)
{
	if (k->fd >= 0)
		close(k->fd);
	free(k->ids);
	*k = (struct known){ .fd = -1 };
}

/* -1: no memory, or too many: the file is no longer known. */
static int note(struct known *k, const char *cid)
{
	size_t room = k->room ? 2 * k->room : 16;
	void *more;

	if (k->n == k->room) {
		more = room > IDS_KNOWN ? NULL : realloc(k->ids, room * sizeof *k->ids);
		if (!more) {
			forget(k);
			return -1;
		}
		k->ids = more;
		k->room = room;
	}
	memcpy(k->ids[k->n++], cid, ID_SIZE);
	return 0;
}

/* What is in the file, up to a torn entry. */
static int load(struct known *k, int fd)
{
	char cid[ID_SIZE];
	size_t n;

	while (archive_next(fd, &k->size, cid, &n) == 1)
		if (note(k, cid) < 0)
			return -1;
	return 0;
}

/* The file that cid belongs to; NULL: it cannot be known. */
static struct known *known_of(struct archive *a, const char *cid)
{
	char name[ARCHIVE_NAME];
	cleanup_close int fd = -1;
	struct known *k;

	archive_name(name, cid);
	for (size_t i = 0; i < FILES_KNOWN; i++)
		if (str_eq(a->known[i].name, name))
			return &a->known[i];
	fd = file_open(a->dirfd, cid, O_RDONLY);
	if (fd < 0 && errno != ENOENT)
		return NULL;
	k = &a->known[a->turn++ % FILES_KNOWN];
	forget(k);
	if (fd >= 0 && load(k, fd) < 0) {
		a->turn--;
		return NULL;
	}
	memcpy(k->name, name, sizeof name);
	return k;
}

struct archive *archive_new(int dirfd, err_t **err)
{
	struct archive *a = calloc(1, sizeof *a);

	if (!a) {
		err_set(err, ERR_NO_MEMORY, NULL, "archive");
		return NULL;
	}
	a->dirfd = dirfd;
	for (size_t i = 0; i < FILES_KNOWN; i++)
		a->known[i].fd = -1;
	return a;
}

void archive_free(struct archive *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < FILES_KNOWN; i++)
		forget(&a->known[i]);
	free(a);
}

void archive_forget(struct archive *a, const char *name)
{
	for (size_t i = 0; i < FILES_KNOWN; i++)
		if (str_eq(a->known[i].name, name))
			forget(&a->known[i]);
}

/* --- adding --- */

/* Behind the whole entries: what an executor that was killed while it added has left there is cut off. */
static int open_to_add(int dirfd, const char *cid, uint64_t *ret_size)
{
	cleanup_close int fd = file_open(dirfd, cid, O_RDWR | O_CREAT | O_APPEND);
	char other[ID_SIZE];
	struct stat st;
	size_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	while ((uint64_t)st.st_size > *ret_size && archive_next(fd, ret_size, other, &n) == 1)
		;
	if ((uint64_t)st.st_size > *ret_size && ftruncate(fd, (off_t)*ret_size) < 0)
		return -1;
	return steal_fd(&fd);
}

static int append(int fd, uint64_t size, const char *cid, const void *log, size_t n, err_t **err)
{
	cleanup_buf struct buf b = BUF_INIT(STEPS_FILE_MAX + 2 * ARCHIVE_HEADER);
	int e;

	buf_addf(&b, "entry %s %10zu\n", cid, n);
	buf_add(&b, log, n);
	if (buf_failed(&b))
		return err_set(err, ERR_NO_MEMORY, NULL, "archive of %s", cid);
	if (io_write_full(fd, b.data, b.len) == 0)
		return 0;
	e = errno;
	if (ftruncate(fd, (off_t)size) < 0)
		return err_sys(err, errno, "archive of %s is torn", cid);
	return err_sys(err, e, "archive of %s", cid);
}

int archive_add(struct archive *a, const char *cid, const void *log, size_t n, err_t **err)
{
	struct known *k = known_of(a, cid);
	cleanup_close int own = -1;
	uint64_t size = k ? k->size : 0;
	int fd = k ? k->fd : -1;

	if (fd < 0) {
		fd = open_to_add(a->dirfd, cid, &size);
		if (fd < 0)
			return err_sys(err, errno, "archive of %s", cid);
		*(k ? &k->fd : &own) = fd;
	}
	if (append(fd, size, cid, log, n, err) < 0) {
		if (k)
			forget(k);   /* looked at again: it may be torn */
		return -1;
	}
	if (k) {
		k->size = size + ARCHIVE_HEADER + n;
		(void)note(k, cid);
	}
	return 0;
}

/* --- looking --- */

/* The place of cid's log in the open file; 0 when it is not there. */
static uint64_t find(int fd, const char *cid, size_t *len)
{
	char other[ID_SIZE];
	uint64_t at = 0;

	while (archive_next(fd, &at, other, len) == 1)
		if (str_eq(other, cid))
			return at - *len;
	return 0;
}

bool archive_has(struct archive *a, const char *cid)
{
	const struct known *k = known_of(a, cid);
	cleanup_close int fd = k ? -1 : file_open(a->dirfd, cid, O_RDONLY);
	size_t n;

	for (size_t i = 0; k && i < k->n; i++)
		if (str_eq(k->ids[i], cid))
			return true;
	return fd >= 0 && find(fd, cid, &n) > 0;
}

int archive_read(struct archive *a, const char *cid, char **ret, size_t *ret_len, err_t **err)
{
	cleanup_close int fd = file_open(a->dirfd, cid, O_RDONLY);
	cleanup_free char *text = NULL;
	size_t n = 0;
	uint64_t at = fd < 0 ? 0 : find(fd, cid, &n);

	if (fd < 0 && errno != ENOENT)
		return err_sys(err, errno, "archive of %s", cid);
	if (at == 0)
		return err_set(err, ERR_NOT_FOUND, NULL, "command %s is not known", cid);
	text = malloc(n + 1);
	if (!text)
		return err_set(err, ERR_NO_MEMORY, NULL, "archive of %s", cid);
	if (io_pread(fd, text, n, (off_t)at) != (ssize_t)n)
		return err_set(err, ERR_INTERNAL, NULL, "archive of %s is unreadable", cid);
	text[n] = '\0';
	*ret = steal_ptr(&text);
	*ret_len = n;
	return 0;
}
