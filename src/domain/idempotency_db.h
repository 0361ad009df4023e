/* idempotency_db.h - for src/domain alone: a checked key with its body's hash, as the database wants it. */
#ifndef PADDOCK_DOMAIN_IDEMPOTENCY_DB_H
#define PADDOCK_DOMAIN_IDEMPOTENCY_DB_H

#include "db/db_runs.h"
#include "domain/idempotency.h"

struct idempotency_hash {
	uint8_t hash[CRYPTO_HASH_BYTES];
	struct db_idem db;       /* points into this struct and at the key */
};

int idempotency_check(const struct domain *d, const struct idempotency *i, struct idempotency_hash *ret, err_t **err);

#endif
