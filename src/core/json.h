/* json.h - strict JSON. The only header that shows json-c; nobody else includes it.
 *
 * Parsing refuses: trailing bytes, duplicate keys, invalid UTF-8, NaN/Infinity, depth over max_depth, size over max_bytes. */
#ifndef PADDOCK_CORE_JSON_H
#define PADDOCK_CORE_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct json_object json_t;

/* A new reference, or NULL with ERR_INVALID (detail "bad_json") or ERR_TOO_LARGE. */
json_t *json_parse(const char *p, size_t n, size_t max_bytes, int max_depth, err_t **err);

static inline void cleanup_json_(json_t **j) { json_object_put(*j); }
#define cleanup_json __attribute__((__cleanup__(cleanup_json_)))

/* Field access with types. A missing or null field leaves *ret untouched and returns 0 when !required.
 * A wrong type or range is ERR_INVALID (detail "bad_field"), the message names the field. Strings: NUL inside is refused. */
int json_get_str(const json_t *o, const char *key, bool required, const char **ret, err_t **err); /* borrowed */
int json_get_mem(const json_t *o, const char *key, bool required, const char **ret, size_t *len, err_t **err); /* NUL allowed */
int json_get_i64(const json_t *o, const char *key, bool required, int64_t min, int64_t max, int64_t *ret, err_t **err);
int json_get_bool(const json_t *o, const char *key, bool required, bool *ret, err_t **err);
int json_get_obj(const json_t *o, const char *key, bool required, const json_t **ret, err_t **err); /* borrowed */
int json_get_arr(const json_t *o, const char *key, bool required, const json_t **ret, err_t **err); /* borrowed */
bool json_has(const json_t *o, const char *key);      /* present and not null */
/* ERR_INVALID (detail "unknown_field"), naming the first key of o that is not in the NULL-terminated list. */
int json_only_keys(const json_t *o, const char *const *keys, err_t **err);

/* Building: each adds to o; out of memory makes json_add_* return -1 and the object is to be dropped. A key is not copied and outlives o: a literal;
 * only json_add() takes any. */
int json_add_str(json_t *o, const char *key, const char *v);             /* NULL adds null */
int json_add_mem(json_t *o, const char *key, const void *p, size_t n);   /* must be valid UTF-8 */
int json_add_i64(json_t *o, const char *key, int64_t v);
int json_add_bool(json_t *o, const char *key, bool v);
int json_add_null(json_t *o, const char *key);
int json_add(json_t *o, const char *key, json_t *v);                     /* copies the key; takes the reference of v, also on failure */
/* Compact text, owned by o, valid until o changes. No slash escaping. */
const char *json_text(json_t *o, size_t *ret_len);

/* Appends a JSON string literal (with quotes) of bytes that are valid UTF-8; escapes controls, quote, backslash, DEL and U+2028/9. */
int json_quote(struct buf *b, const void *p, size_t n);
size_t json_plain(const void *p, size_t n);   /* how many bytes at the beginning are ASCII that json_quote() leaves as it is */

#endif
