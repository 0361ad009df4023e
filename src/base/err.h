/* err.h - error objects: a stable code, an errno, and a chain of context.
 *
 * Convention: a function that can fail returns < 0 (or NULL) and takes `err_t **` as its last argument.
 * On success *err is untouched; on failure *err, when err is not NULL, receives a new object that the caller owns.
 * err may be NULL: the caller does not care why. Never blocks. Out of memory yields a static "out_of_memory" object.
 */
#ifndef PADDOCK_BASE_ERR_H
#define PADDOCK_BASE_ERR_H

#include <stdarg.h>

/* The classes that decisions are made on. The outside word for each ("not_found", ...) is its name in err_code_name()
 * and its HTTP status is in fcgi/problem.c. UNKNOWN means: the outcome of an action is not known; ask again, do not repeat. */
enum err_code {
	ERR_INTERNAL = 1,   /* a fault of ours */
	ERR_INVALID,        /* malformed input */
	ERR_REFUSED,        /* well-formed but refused value */
	ERR_NOT_FOUND,
	ERR_CONFLICT,       /* the state forbids it now */
	ERR_EXISTS,
	ERR_DENIED,         /* no right to do it */
	ERR_BUSY,
	ERR_LIMIT,          /* a configured limit is reached */
	ERR_TOO_LARGE,
	ERR_UNAVAILABLE,    /* a part we depend on is away; nothing was done */
	ERR_UNKNOWN,        /* it may or may not have been done */
	ERR_TIMEOUT,
	ERR_GONE,           /* existed, was removed for good */
	ERR_NO_SPACE,
	ERR_NO_MEMORY,
};

typedef struct err err_t;

/* Sets *err to a new error. `detail` is a stable snake_case word for clients (e.g. "lease_lost"); NULL means the code's name. Returns -1. */
int err_set(err_t **err, enum err_code code, const char *detail, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The same with an errno value, whose text is appended as ": cause". Returns -1. */
int err_sys(err_t **err, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Prepends "context: " to *err (no effect when err or *err is NULL). Returns -1. */
int err_wrap(err_t **err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

enum err_code err_code(const err_t *err);      /* ERR_INTERNAL for NULL */
const char *err_detail(const err_t *err);      /* stable word; never NULL */
const char *err_message(const err_t *err);     /* the chain, for people; never NULL, never a secret */
int err_errno(const err_t *err);               /* 0 when none */
const char *err_code_name(enum err_code code); /* "not_found", ... */

err_t *err_copy(const err_t *err);             /* of its own: code, detail, message; NULL of NULL; one of no memory when memory is out */
void err_free(err_t *err);                     /* NULL is fine */
/* Moves `from` into *to when to is not NULL and empty, else frees it. Returns -1. */
int err_move(err_t **to, err_t *from);

#endif
