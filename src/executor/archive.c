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

/* An executor that was killed while it added: known to be whole afterwards, so one look at each file is enough. */
static int make_whole(int fd, const char *cid)
{
	static char looked_at[16][ARCHIVE_NAME];
	static unsigned turn;
	char name[ARCHIVE_NAME], other[ID_SIZE];
	uint64_t at = 0;
	size_t n;

	archive_name(name, cid);
	for (size_t i = 0; i < 16; i++)
		if (str_eq(looked_at[i], name))
			return 0;
	while (archive_next(fd, &at, other, &n) == 1)
		;
	memcpy(looked_at[turn++ % 16], name, sizeof name);
	return ftruncate(fd, (off_t)at);
}

int archive_add(int dirfd, const char *cid, const void *log, size_t n, err_t **err)
{
	cleanup_close int fd = file_open(dirfd, cid, O_RDWR | O_CREAT | O_APPEND);
	cleanup_buf struct buf b = BUF_INIT(STEPS_FILE_MAX + 2 * ARCHIVE_HEADER);
	struct stat st;
	int e;

	if (fd < 0 || make_whole(fd, cid) < 0 || fstat(fd, &st) < 0)
		return err_sys(err, errno, "archive of %s", cid);
	buf_addf(&b, "entry %s %10zu\n", cid, n);
	buf_add(&b, log, n);
	if (buf_failed(&b))
		return err_set(err, ERR_NO_MEMORY, NULL, "archive of %s", cid);
	if (io_write_full(fd, b.data, b.len) == 0)
		return 0;
	e = errno;
	if (ftruncate(fd, st.st_size) < 0)
		return err_sys(err, errno, "archive of %s is torn", cid);
	return err_sys(err, e, "archive of %s", cid);
}

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

bool archive_has(int dirfd, const char *cid)
{
	cleanup_close int fd = file_open(dirfd, cid, O_RDONLY);
	size_t n;

	return fd >= 0 && find(fd, cid, &n) > 0;
}

int archive_read(int dirfd, const char *cid, char **ret, size_t *ret_len, err_t **err)
{
	cleanup_close int fd = file_open(dirfd, cid, O_RDONLY);
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
