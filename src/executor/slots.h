/* slots.h - files that are used again and again, named by number. A command's log lies in one until its end is acknowledged: to make and remove a
 * file for each command would cost more than everything else that is done for it (ext4 walks past the inodes that were freed lately). */
#ifndef PADDOCK_EXECUTOR_SLOTS_H
#define PADDOCK_EXECUTOR_SLOTS_H

#include "base/err.h"

struct slots;

struct slots *slots_new(int dirfd, err_t **err);   /* the directory is borrowed; see slots_each() */
void slots_free(struct slots *s);                  /* NULL is fine */
/* An empty file, open for reading and appending; *ret is its number. */
int slots_take(struct slots *s, unsigned *ret, err_t **err);
/* Opens the file of a slot that is in use. */
int slots_open(struct slots *s, unsigned slot, err_t **err);
/* Empties the slot for its next use; takes the fd (-1: not open). */
void slots_give(struct slots *s, unsigned slot, int fd);
/* At start: calls fn for each slot that is there. fn says whether it is in use (1, 0; -1: an error, which ends it all); the others are given back. */
int slots_each(struct slots *s, int (*fn)(void *arg, unsigned slot, err_t **err), void *arg, err_t **err);

#endif
