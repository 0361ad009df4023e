#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_context.h"
#include "domain/users.h"

static int usage(void)
{
	fprintf(stderr, "usage: paddockctl users create NAME [--admin]\n       paddockctl users list\n");
	return 2;
}

static int create(struct domain *d, const struct caller *by, const char *name, bool admin)
{
	json_t *user = NULL;
	err_t *e = NULL;

	if (users_create(d, by, name, admin, &user, &e) < 0)
		return ctl_context_fail(e);
	printf("%s\n", name);
	json_object_put(user);
	return 0;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = NULL;

	(void)json_get_str(o, key, false, &s, NULL);
	return s ? s : "-";
}

static int list(struct domain *d)
{
	cleanup_json json_t *all = NULL;
	err_t *e = NULL;

	if (users_list(d, &all, &e) < 0)
		return ctl_context_fail(e);
	for (size_t i = 0; i < json_object_array_length(all); i++) {
		const json_t *u = json_object_array_get_idx(all, i);
		bool admin = false, disabled = false;

		(void)json_get_bool(u, "admin", false, &admin, NULL);
		(void)json_get_bool(u, "disabled", false, &disabled, NULL);
		printf("%-32s %-6s %-9s %s\n", text_of(u, "name"), admin ? "admin" : "user", disabled ? "disabled" : "", text_of(u, "created_at"));
	}
	return 0;
}

int ctl_users(const struct config *c, int argc, char **argv)
{
	bool creates = argc >= 3 && str_eq(argv[1], "create"), admin = argc == 4 && str_eq(argv[3], "--admin");
	struct caller by;

	if (!(creates && (argc == 3 || admin)) && !(argc == 2 && str_eq(argv[1], "list")))
		return usage();
	struct domain *d = ctl_context_open(c, &by);
	if (!d)
		return 1;
	int rc = creates ? create(d, &by, argv[2], admin) : list(d);
	domain_close(d);
	return rc;
}
