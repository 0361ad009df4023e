#include "domain/lease.h"

#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "base/str.h"
#include "domain/check.h"

static void hex(const uint8_t *p, size_t n, char *dst)
{
	for (size_t i = 0; i < n; i++)
		snprintf(dst + 2 * i, 3, "%02x", p[i]);
}

void lease_token(const struct domain *d, const char *nonce, char ret[LEASE_TOKEN_SIZE])
{
	char text[64];
	uint8_t h[CRYPTO_HASH_BYTES];
	(void)str_fmt(text, sizeof text, "lease|%s", nonce);
	crypto_keyed_hash(&d->pepper, text, strlen(text), h);
	memcpy(ret, "lt_", 3);
	hex(h, sizeof h, ret + 3);
}

void lease_present(const struct domain *d, const char *token, struct lease *ret)
{
	memset(ret, 0, sizeof *ret);
	if (!token)
		return;
	crypto_keyed_hash(&d->pepper, token, strlen(token), ret->hash);
	ret->db.hash = ret->hash;
	ret->db.hash_len = sizeof ret->hash;
}

int lease_offer(const struct domain *d, const struct run_claim *claim, struct lease *ret, err_t **err)
{
	char token[LEASE_TOKEN_SIZE];
	int64_t ms;
	memset(ret, 0, sizeof *ret);
	if (!claim)
		return 0;
	if (check_name(claim->worker_id, RUN_WORKER_MAX, "bad_worker_id", "worker_id", err) < 0 ||
			check_lease_ms(claim->lease_ms, d->limits.lease_ms, d->limits.lease_max_ms, &ms, err) < 0)
		return -1;
	rand_hex(ret->nonce, (sizeof ret->nonce - 1) / 2);
	lease_token(d, ret->nonce, token);
	crypto_keyed_hash(&d->pepper, token, strlen(token), ret->hash);
	ret->db = (struct db_lease){ .worker = claim->worker_id, .lease_ms = ms, .nonce = ret->nonce, .hash = ret->hash, .hash_len = sizeof ret->hash };
	crypto_wipe(token, sizeof token);
	return 0;
}
