#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

ssize_t io_read(int fd, void *p, size_t n)
{
	ssize_t r;

	do
		r = read(fd, p, n);
	while (r < 0 && errno == EINTR);
	return r;
}

ssize_t io_pread(int fd, void *p, size_t n, off_t at)
{
	ssize_t r;

	do
		r = pread(fd, p, n, at);
	while (r < 0 && errno == EINTR);
	return r;
}

int io_read_full(int fd, void *p, size_t n)
{
	char *dst = p;

	while (n) {
		ssize_t r = io_read(fd, dst, n);

		if (r <= 0) {
			if (r == 0)
				errno = 0;
			return -1;
		}
		dst += r;
		n -= (size_t)r;
	}
	return 0;
}

int io_write_full(int fd, const void *p, size_t n)
{
	const char *src = p;

	while (n) {
		ssize_t r = write(fd, src, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		src += r;
		n -= (size_t)r;
	}
	return 0;
}

int io_pwrite_full(int fd, const void *p, size_t n, off_t at)
{
	const char *src = p;

	while (n) {
		ssize_t r = pwrite(fd, src, n, at);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		src += r;
		at += r;
		n -= (size_t)r;
	}
	return 0;
}

int io_set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

int io_std_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);   /* not CLOEXEC: these are to be inherited */
	while (fd >= 0 && fd <= 2);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

/* Reads to the end of fd; one byte more than max is asked for so that a longer file is noticed. */
static int slurp(int fd, const char *path, size_t max, size_t guess, char **ret, size_t *ret_len, err_t **err)
{
	cleanup_free char *data = NULL;
	size_t len = 0, alloc = 0;

	for (;;) {
		ssize_t r;

		if (len + 1 >= alloc) {
			size_t want = alloc ? alloc * 2 : guess + 2;
			char *p;

			if (want > max + 2)
				want = max + 2;
			p = realloc(data, want);
			if (!p)
				return err_sys(err, ENOMEM, "%s", path);
			data = p;
			alloc = want;
		}
		r = io_read(fd, data + len, alloc - len - 1);
		if (r < 0)
			return err_sys(err, errno, "cannot read %s", path);
		if (r == 0)
			break;
		len += (size_t)r;
		if (len > max)
			return err_set(err, ERR_TOO_LARGE, NULL, "%s is larger than %zu bytes", path, max);
	}
	data[len] = '\0';
	*ret = steal_ptr(&data);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int io_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len, err_t **err)
{
	cleanup_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	size_t guess = 4096;

	if (fd < 0)
		return err_sys(err, errno, "cannot open %s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(err, errno, "cannot stat %s", path);
	if (S_ISDIR(st.st_mode))
		return err_sys(err, EISDIR, "cannot read %s", path);
	if (S_ISREG(st.st_mode) && st.st_size > 0)
		guess = (size_t)st.st_size;
	if (guess > max)
		guess = max;
	return slurp(fd, path, max, guess, ret, ret_len, err);
}

static int sync_dir(int dirfd)
{
	cleanup_close int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -1 : fsync(fd);
}

static int fill_new(int dirfd, const char *tmp, const void *p, size_t n, mode_t mode, int durable)
{
	cleanup_close int fd = -1;

	if (unlinkat(dirfd, tmp, 0) < 0 && errno != ENOENT)
		return -1;
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (io_write_full(fd, p, n) < 0 || fchmod(fd, mode) < 0 || (durable && fsync(fd) < 0))
		return -1;
	return 0;
}

int io_write_file(int dirfd, const char *name, const void *p, size_t n, mode_t mode, int durable, err_t **err)
{
	char tmp[256];

	if (strchr(name, '/') || str_fmt(tmp, sizeof tmp, "%s.new", name) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "bad file name for a write: %s", name);
	if (fill_new(dirfd, tmp, p, n, mode, durable) < 0 || renameat(dirfd, tmp, dirfd, name) < 0) {
		int saved = errno;

		unlinkat(dirfd, tmp, 0);
		return err_sys(err, saved, "cannot write %s", name);
	}
	if (durable && sync_dir(dirfd) < 0)
		return err_sys(err, errno, "cannot sync the directory of %s", name);
	return 0;
}
