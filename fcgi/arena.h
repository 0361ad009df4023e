/* arena.h - the memory of one request: taken piece by piece, given back all at once.
 *
 * An arena has a hard cap (bytes handed out since the last reset). Allocation is zeroed and aligned for any type; it returns NULL
 * when the cap would be passed or memory is out, and the request then fails with ERR_NO_MEMORY. Not for threads. */
#ifndef PADDOCK_FCGI_ARENA_H
#define PADDOCK_FCGI_ARENA_H

#include <stddef.h>

struct arena;

struct arena *arena_new(size_t cap);          /* NULL when out of memory */
void arena_free(struct arena *a);             /* runs what was adopted; NULL is fine */
void arena_reset(struct arena *a);            /* the same, but the arena and its first block stay */
size_t arena_used(const struct arena *a);

void *arena_alloc(struct arena *a, size_t n);
char *arena_dupn(struct arena *a, const char *s, size_t n);   /* NUL appended */
char *arena_dup(struct arena *a, const char *s);
char *arena_fmt(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* fn(p) is called at the next reset or free, last adopted first. Returns p; NULL (and fn was called) when out of memory. */
void *arena_adopt(struct arena *a, void (*fn)(void *p), void *p);

#endif
