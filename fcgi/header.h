/* header.h - the few header values that a worker understands. Pure functions over strings. */
#ifndef PADDOCK_FCGI_HEADER_H
#define PADDOCK_FCGI_HEADER_H

#include <stdbool.h>
#include <stddef.h>

/* The forms an answer about a command can take. */
enum header_form { HEADER_JSON, HEADER_SSE, HEADER_NDJSON };

/* What Accept asks for among the forms whose bit (1u << form) is in `offered`. The highest q wins; among equals the more specific range,
 * then the order of the header; a wildcard stands for `fallback`. `fallback` too when the header is absent, malformed or names
 * nothing on offer (RFC 9110 lets a server disregard it). */
enum header_form header_accept(const char *accept, unsigned offered, enum header_form fallback);

const char *header_form_type(enum header_form f);   /* "application/json", ... */

/* The token of "Bearer <token>" (scheme in any case, one or more spaces, visible ASCII, nothing behind it); NULL otherwise. Borrowed. */
const char *header_bearer(const char *authorization);

/* May a body of this Content-Type be read as JSON? JSON itself (charset utf-8 or none), no type at all, and what `curl -d` sends by
 * itself, application/x-www-form-urlencoded. */
bool header_is_json(const char *content_type);

/* 1 to 64 characters of [A-Za-z0-9-]. */
bool header_request_id_ok(const char *s);

#endif
