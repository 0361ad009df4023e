#include "domain/audit.h"

#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "db/db_accounts.h"
#include "domain/answer.h"

int audit_write(struct domain *d, const struct caller *by, const char *action, const char *object, const char *result, err_t **err)
{
	struct db_act a = answer_act(by);
	return db_audit(d->db, &a, action, object, result, err);
}

void audit_own(struct domain *d, const char *action, const char *object, const char *result)
{
	(void)db_audit(d->db, &(struct db_act){ .origin.source = "janitor", .actor = "janitor" }, action, object, result, NULL);
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
