/* json_scan.h - the grammar of RFC 8259 without building anything: what json-c lets pass is refused here first. */
#ifndef PADDOCK_CORE_JSON_SCAN_H
#define PADDOCK_CORE_JSON_SCAN_H

#include <stddef.h>

#include "base/err.h"

/* Looks at the whole of p[0..n), which must be valid UTF-8: one value, white space around it, nothing else. Refuses nesting deeper
 * than max_depth (a scalar has depth 0), raw control bytes and lone surrogates in strings, NUL in member names, and integers outside
 * -2^63..2^64-1.
 * *ret_members: how many members all objects have, duplicates counted. ERR_INVALID (detail "bad_json") with the offset. */
int json_scan(const char *p, size_t n, int max_depth, size_t *ret_members, err_t **err);

#endif
