/* caller.h - who is calling, and for whom. */
#ifndef PADDOCK_DOMAIN_CALLER_H
#define PADDOCK_DOMAIN_CALLER_H

#include <stdbool.h>

#include "core/id.h"

#define USER_NAME_SIZE 65    /* [a-z0-9][a-z0-9._-]{0,63}; also the name of the user's workspace directory */
#define TOKEN_ID_SIZE 13     /* 12 hex digits */
#define REQUEST_ID_SIZE 65
#define ADDRESS_SIZE 64

enum caller_kind { CALLER_USER, CALLER_ADMIN, CALLER_SERVICE, CALLER_E2B };

struct caller {
	char user_id[ID_SIZE];         /* whose things these are */
	char user[USER_NAME_SIZE];
	char actor_id[ID_SIZE];        /* whose token it is; differs from user_id for service tokens only */
	char actor[USER_NAME_SIZE];
	enum caller_kind kind;
	bool admin;                    /* an admin token of an admin account */
	char token_id[TOKEN_ID_SIZE];  /* "" when there was none (paddockctl) */
	char request_id[REQUEST_ID_SIZE];
	char address[ADDRESS_SIZE];    /* where from, for the audit */
};

const char *caller_kind_name(enum caller_kind k);               /* "user", "admin", ... */
int caller_kind_parse(const char *s, enum caller_kind *ret);    /* 0 or -1 */

#endif
