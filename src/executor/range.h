/* range.h - the Range header for one range of bytes (RFC 9110). Pure. */
#ifndef PADDOCK_EXECUTOR_RANGE_H
#define PADDOCK_EXECUTOR_RANGE_H

#include <stdint.h>

enum range_kind { RANGE_WHOLE, RANGE_PART, RANGE_UNSATISFIABLE };

/* header NULL, another unit, several ranges or nonsense: RANGE_WHOLE (the header is ignored). PART: *from and *length are set. */
enum range_kind range_parse(const char *header, uint64_t size, uint64_t *from, uint64_t *length);

#endif
