/* agent_token.c - see agent_token.h. */
#include "provider/agent_token.h"

#include "base/str.h"
#include "core/crypto.h"

void agent_token_hash(const char *token, char dst[AGENT_HASH_SIZE])
{
	static const struct crypto_key purpose = { .bytes = "paddock agent token v1" };   /* tells this hash from others; no secret */
	uint8_t hash[CRYPTO_HASH_BYTES];

	crypto_keyed_hash(&purpose, token, strlen(token), hash);
	for (size_t i = 0; i < sizeof(hash); i++)
		str_fmt(dst + 2 * i, 3, "%02x", hash[i]);
}

bool agent_token_is(const char *token, const char hash[AGENT_HASH_SIZE])
{
	char of_token[AGENT_HASH_SIZE];

	agent_token_hash(token, of_token);
	return hash[0] && crypto_equal(of_token, hash, AGENT_HASH_SIZE);
}
