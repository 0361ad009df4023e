#include "domain/idempotency.h"

#include <string.h>

#include "domain/idempotency_db.h"

int idempotency_check(const struct domain *d, const struct idempotency *i, struct idempotency_hash *ret, err_t **err)
{
	memset(ret, 0, sizeof *ret);
	if (!i->key)
		return 0;
	size_t n = strlen(i->key);
	if (n < 1 || n > IDEMPOTENCY_KEY_MAX)
		return err_set(err, ERR_INVALID, "bad_idempotency_key", "Idempotency-Key has 1 to %d characters", IDEMPOTENCY_KEY_MAX);
	for (size_t k = 0; k < n; k++)
		if (i->key[k] < 0x20 || i->key[k] > 0x7e)
			return err_set(err, ERR_INVALID, "bad_idempotency_key", "Idempotency-Key is printable ASCII");
	crypto_keyed_hash(&d->pepper, i->body ? i->body : "", i->body ? i->body_len : 0, ret->hash);
	ret->db = (struct db_idem){ .key = i->key, .body_hash = ret->hash, .body_hash_len = sizeof ret->hash };
	return 0;
}
