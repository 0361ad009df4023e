/* utf8.h - UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, at most U+10FFFF. Pure functions. */
#ifndef PADDOCK_BASE_UTF8_H
#define PADDOCK_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

bool utf8_valid(const void *p, size_t n);
/* How many bytes (0-3) at the end of p[0..n) are the beginning of a character that more bytes could complete. */
size_t utf8_partial_tail(const void *p, size_t n);
/* How many bytes (0-3) at the start of p[0..n) are continuation bytes. */
size_t utf8_partial_head(const void *p, size_t n);

#endif
