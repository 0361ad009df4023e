/* response.h - one answer: status, a few headers, a body held in memory. Streams are not sent from here: nginx fetches them by
 * ticket (response_accel). Memory is the arena's. */
#ifndef PADDOCK_FCGI_RESPONSE_H
#define PADDOCK_FCGI_RESPONSE_H

#include "base/buf.h"
#include "base/err.h"
#include "core/json.h"
#include "fcgi/arena.h"

struct response;

struct response *response_new(struct arena *a);   /* 204 without a body; NULL when out of memory */

/* Each replaces what was set before. */
void response_empty(struct response *r, int status);
int response_json(struct response *r, int status, json_t *o, err_t **err);    /* takes the reference, also on failure */
int response_problem(struct response *r, int status, json_t *o, err_t **err); /* the same with application/problem+json */
int response_text(struct response *r, int status, const char *type, const void *p, size_t n, err_t **err);   /* copies */
/* nginx is to fetch the internal location `prefix` + `ticket`; type is what the client will see. */
int response_accel(struct response *r, const char *prefix, const char *ticket, const char *type, err_t **err);

/* A header besides Content-Type and X-Request-Id. Values with control bytes are refused (ERR_INTERNAL). Copied. Headers stay when
 * the body is replaced; response_drop_headers() forgets them. */
int response_header(struct response *r, const char *name, const char *value, err_t **err);
void response_drop_headers(struct response *r);

int response_status(const struct response *r);
size_t response_length(const struct response *r);
/* The CGI answer (Status: ..., headers, blank line, body) appended to b. */
int response_serialize(const struct response *r, const char *request_id, struct buf *b);

const char *response_reason(int status);   /* "Not Found", ... */

#endif
