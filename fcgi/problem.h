/* problem.h - errors as application/problem+json (RFC 9457): {type, title, status, detail, code, request_id}.
 *
 * `code` is the error's stable word (err_detail). `detail` is its message where the fault is the caller's; for faults of ours it is a
 * general sentence, the message goes to the log only (it may name sockets and files). An error that carries an errno is always ours. */
#ifndef PADDOCK_FCGI_PROBLEM_H
#define PADDOCK_FCGI_PROBLEM_H

#include <stdint.h>

#include "base/err.h"
#include "fcgi/response.h"

int problem_status(enum err_code code);   /* the HTTP status of an error class */

/* Makes r the answer to e: 503 and 429 get Retry-After of retry_after_s, 401 gets WWW-Authenticate; the members of extras (NULL: none) follow the usual
 * ones. Never fails: when even that does not fit into memory the answer is an empty 503. */
void problem_answer(struct response *r, const err_t *e, const json_t *extras, const char *request_id, int64_t retry_after_s);

/* Errors whose status differs from their class's: ERR_DENIED "unauthorized" is 401, ERR_INVALID "unsupported_media_type" 415,
 * ERR_NOT_FOUND "method_not_allowed" 405. */
int problem_status_of(const err_t *e);

#endif
