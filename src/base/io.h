/* io.h - descriptors and whole files. EINTR is always retried. Everything opened here is CLOEXEC. */
#ifndef PADDOCK_BASE_IO_H
#define PADDOCK_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

ssize_t io_read(int fd, void *p, size_t n);               /* one read; as read(2) */
int io_read_full(int fd, void *p, size_t n);              /* 0; -1 with errno, errno 0 at early end of file */
int io_write_full(int fd, const void *p, size_t n);       /* 0; -1 with errno */
int io_pwrite_full(int fd, const void *p, size_t n, off_t at);
ssize_t io_pread(int fd, void *p, size_t n, off_t at);
/* Whole file, at most max bytes, NUL appended, malloc'ed to *ret. -1: ERR_NOT_FOUND, ERR_TOO_LARGE, ... */
int io_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len, err_t **err);
/* Written aside (name "<name>.new"), renamed into place; fsync'ed when durable. `name` lies directly in dirfd. */
int io_write_file(int dirfd, const char *name, const void *p, size_t n, mode_t mode, int durable, err_t **err);
int io_set_nonblock(int fd);                              /* 0 or -1 with errno */
int io_std_fds(void);                                     /* opens /dev/null on 0-2 where closed; call first in main() */
/* Removes the directory `name` below dirfd with all in it, not following links, depth <= 64. For our own trees only. 0 also when absent. */
int io_remove_tree(int dirfd, const char *name, err_t **err);

#endif
