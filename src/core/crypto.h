/* crypto.h - the only user of libsodium. */
#ifndef PADDOCK_CORE_CRYPTO_H
#define PADDOCK_CORE_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CRYPTO_KEY_BYTES 32
#define CRYPTO_HASH_BYTES 32

struct crypto_key {
	uint8_t bytes[CRYPTO_KEY_BYTES];
};

int crypto_init(err_t **err);
/* Reads a key file: exactly 32 bytes, a regular file, no right for others. The memory is locked where the kernel lets us. */
int crypto_key_load(const char *path, struct crypto_key *ret, err_t **err);
/* Keyed BLAKE2b-256. Never fails. (The plain name crypto_hash is libsodium's.) */
void crypto_keyed_hash(const struct crypto_key *k, const void *p, size_t n, uint8_t ret[CRYPTO_HASH_BYTES]);
bool crypto_equal(const void *a, const void *b, size_t n);   /* constant time */
void crypto_wipe(void *p, size_t n);
/* Base64 (RFC 4648 with padding); malloc'ed, NUL-terminated. */
char *crypto_base64(const void *p, size_t n, size_t *ret_len);
int crypto_base64_decode(const char *s, size_t n, void *dst, size_t dst_size, size_t *ret_len);

#endif
