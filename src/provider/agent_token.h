/* agent_token.h - by its token an agent shows that it is the one that was started. Outside the instance only the hash of it is kept. */
#ifndef PADDOCK_PROVIDER_AGENT_TOKEN_H
#define PADDOCK_PROVIDER_AGENT_TOKEN_H

#include <stdbool.h>

#define AGENT_HASH_SIZE 65   /* 64 hex digits */

void agent_token_hash(const char *token, char dst[AGENT_HASH_SIZE]);
/* In constant time. hash "": false. */
bool agent_token_is(const char *token, const char hash[AGENT_HASH_SIZE]);

#endif
