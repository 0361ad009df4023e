/* tombs.h - ids of what is over for good and is refused for a while yet: instances that are gone and acknowledged, scopes that were ended. 16 bytes each in
 * memory, a line each on disk:
 *
 *   <state>/<name>/<second>   "<id> <wall ms>" for those of one part (a 24th) of keep_ms; removed as a whole when its youngest is old enough
 *
 * On a full disk they go into whichever file has room: there is always some that was set aside (tombs_make_room).
 *
 * Blocking file operations on our own disk. */
#ifndef PADDOCK_EXECUTOR_TOMBS_H
#define PADDOCK_EXECUTOR_TOMBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tombs;

struct tombs *tombs_open(int state_fd, const char *name, int64_t keep_ms, err_t **err);   /* name: static */
void tombs_free(struct tombs *t);   /* NULL is fine */
/* Written before it returns 0; one that is there already is fine. The id is valid. */
int tombs_add(struct tombs *t, const char *id, int64_t now_ms, err_t **err);
bool tombs_has(const struct tombs *t, const char *id);
void tombs_expire(struct tombs *t, int64_t now_ms);
void tombs_make_room(struct tombs *t, int64_t now_ms);   /* for some thousand more lines, if it can be had now; at start and now and then */
size_t tombs_count(const struct tombs *t);

#endif
