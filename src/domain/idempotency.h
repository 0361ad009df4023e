/* idempotency.h - Idempotency-Key: the same key by the same user for the same kind of thing gives the first answer again. */
#ifndef PADDOCK_DOMAIN_IDEMPOTENCY_H
#define PADDOCK_DOMAIN_IDEMPOTENCY_H

#include <stddef.h>

#include "domain/domain.h"

#define IDEMPOTENCY_KEY_MAX 255

/* Another body under the same key is ERR_REFUSED "idempotency_mismatch". Keys are 1-255 printable ASCII characters (ERR_INVALID "bad_idempotency_key").
 * They are kept for 24 h. */
struct idempotency {
	const char *key;        /* NULL: none */
	const void *body;       /* the request's body as it came; only its keyed hash is kept */
	size_t body_len;
};

#endif
