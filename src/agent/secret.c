#include "agent/secret.h"

#include <string.h>

#include "base/str.h"
#include "core/frame_msg.h"

#define TOKEN_VAR "PADDOCK_AGENT_TOKEN="

static char token[MSG_TOKEN_MAX + 1];

int secret_take(char **env)
{
	int r = -1;

	for (char **e = env; *e; e++) {
		if (str_prefix(*e, TOKEN_VAR) && (*e)[sizeof(TOKEN_VAR) - 1])
			r = str_copy(token, sizeof(token), *e + sizeof(TOKEN_VAR) - 1);
		explicit_bzero(*e, strlen(*e));
	}
	*env = NULL;
	return r;
}

const char *secret_token(void)
{
	return token;
}

void secret_wipe(void)
{
	explicit_bzero(token, sizeof(token));
}
