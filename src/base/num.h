/* num.h - strict numbers: whole string, decimal, range-checked. All return 0 or -1; *ret untouched on failure. */
#ifndef PADDOCK_BASE_NUM_H
#define PADDOCK_BASE_NUM_H

#include <stdint.h>

int num_i64(const char *s, int64_t min, int64_t max, int64_t *ret);
int num_u64(const char *s, uint64_t max, uint64_t *ret);
/* Sizes with an optional suffix K, M, G (1024-based), e.g. "64M". */
int num_size(const char *s, uint64_t max, uint64_t *ret);

#endif
