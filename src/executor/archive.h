/* archive.h - logs of commands whose end was acknowledged, several to a file.
 *
 * The file is named by the first ten digits of the id: for the ids that our callers make (UUIDv7) that is a quarter of a second, so a file holds what
 * was started together and a look-up reads one small file. An entry is a line "entry <cid> <bytes>" of ARCHIVE_HEADER bytes and the log as it was. A torn last
 * entry is cut off before the next one is added; its command is then still in the journal. */
#ifndef PADDOCK_EXECUTOR_ARCHIVE_H
#define PADDOCK_EXECUTOR_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/id.h"

#define ARCHIVE_HEADER 54
#define ARCHIVE_NAME 12

int archive_add(int dirfd, const char *cid, const void *log, size_t n, err_t **err);
bool archive_has(int dirfd, const char *cid);
/* The log, malloc'ed, NUL appended. ERR_NOT_FOUND. */
int archive_read(int dirfd, const char *cid, char **ret, size_t *ret_len, err_t **err);

/* Walks an open file: *at is the place of the next header, 0 at first. 1: an entry, its log is the *len bytes before the new *at; 0: the
 * end, or a torn entry at *at. */
int archive_next(int fd, uint64_t *at, char cid[ID_SIZE], size_t *len);
bool archive_is_name(const char *name);
void archive_name(char dst[ARCHIVE_NAME], const char *cid);   /* of the file that cid belongs to */

#endif
