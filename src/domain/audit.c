#include "domain/audit.h"

#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "db/db_accounts.h"
#include "domain/answer.h"

int audit_write(struct domain *d, const struct caller *by, const char *action, const char *object, const char *result, err_t **err)
{
	struct db_origin o = answer_origin(by);
	return db_audit(d->db, &o, by->actor, action, object, result, err);
}

void audit_operator(struct caller *ret, const char *program)
{
	struct passwd pw, *found = NULL;
	char buf[4096];
	memset(ret, 0, sizeof *ret);
	ret->kind = CALLER_ADMIN;
	ret->admin = true;
	if (getpwuid_r(getuid(), &pw, buf, sizeof buf, &found) != 0 || !found || str_copy(ret->actor, sizeof ret->actor, found->pw_name) < 0)
		(void)str_fmt(ret->actor, sizeof ret->actor, "uid %ld", (long)getuid());
	(void)str_copy(ret->address, sizeof ret->address, program);
}
