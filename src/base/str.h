/* str.h - string helpers: copies that cannot overflow, comparisons, formatted allocation. */
#ifndef PADDOCK_BASE_STR_H
#define PADDOCK_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool str_eq(const char *a, const char *b) { return strcmp(a, b) == 0; }
static inline bool str_prefix(const char *s, const char *p) { return strncmp(s, p, strlen(p)) == 0; }
bool str_suffix(const char *s, const char *suffix);
/* Copies src with its NUL into dst of size n. Returns 0, or -1 (dst then empty) when it does not fit. */
int str_copy(char *dst, size_t n, const char *src);
/* snprintf that tells truncation: 0, or -1 (dst then empty) when it does not fit. */
int str_fmt(char *dst, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* malloc'ed; NULL when out of memory. */
char *str_dup(const char *s);
char *str_dupn(const char *s, size_t n);
char *str_dupf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* NULL-terminated vectors of malloc'ed strings. */
void strv_free(char **v);
char **strv_dup(char *const *v);
size_t strv_len(char *const *v);
static inline void cleanup_strv_(char ***v) { strv_free(*v); }
#define cleanup_strv __attribute__((__cleanup__(cleanup_strv_)))

#endif
