/* archive.h - logs of commands whose end was acknowledged, several to a file.
 *
 * The file is named by the first ten digits of the id: for the ids that our callers make (UUIDv7) that is a quarter of a second, so a file holds what
 * was started together and a look-up reads one small file. An entry is a line "entry <cid> <bytes>" of ARCHIVE_HEADER bytes and the log as it was. A torn last
 * entry is cut off before the next one is added; its command is then still in the journal.
 *
 * Of the files that were used last the ids are kept in memory: to look for a new id or to add a log then costs no look at what is there. Nobody else
 * may write to the directory. */
#ifndef PADDOCK_EXECUTOR_ARCHIVE_H
#define PADDOCK_EXECUTOR_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/id.h"

#define ARCHIVE_HEADER 54
#define ARCHIVE_NAME 12

struct archive;

struct archive *archive_new(int dirfd, err_t **err);   /* the directory is borrowed */
void archive_free(struct archive *a);                  /* NULL is fine */
int archive_add(struct archive *a, const char *cid, const void *log, size_t n, err_t **err);
bool archive_has(struct archive *a, const char *cid);
/* The log, malloc'ed, NUL appended. ERR_NOT_FOUND. */
int archive_read(struct archive *a, const char *cid, char **ret, size_t *ret_len, err_t **err);
/* The file of that name is going to be removed. */
void archive_forget(struct archive *a, const char *name);

/* Walks an open file: *at is the place of the next header, 0 at first. 1: an entry, its log is the *len bytes before the new *at; 0: the
 * end, or a torn entry at *at. */
int archive_next(int fd, uint64_t *at, char cid[ID_SIZE], size_t *len);
bool archive_is_name(const char *name);
void archive_name(char dst[ARCHIVE_NAME], const char *cid);   /* of the file that cid belongs to */

#endif
