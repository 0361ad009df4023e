/* lease.h - lease tokens: derived from a nonce that the Run's row keeps and the pepper, so that the same answer can be given again;
 * the row has the token's hash. */
#ifndef PADDOCK_DOMAIN_LEASE_H
#define PADDOCK_DOMAIN_LEASE_H

#include "db/db_runs.h"
#include "domain/domain.h"
#include "domain/runs.h"

#define LEASE_NONCE_SIZE 33

struct lease {
	char nonce[LEASE_NONCE_SIZE];
	uint8_t hash[CRYPTO_HASH_BYTES];
	struct db_lease db;      /* points into this struct and at what was given */
};

/* A new lease to offer; claim NULL: none. Errors as runs_create. */
int lease_offer(const struct domain *d, const struct run_claim *claim, struct lease *ret, err_t **err);
/* What a caller presents; token NULL: none. */
void lease_present(const struct domain *d, const char *token, struct lease *ret);
void lease_token(const struct domain *d, const char *nonce, char ret[LEASE_TOKEN_SIZE]);

#endif
