#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/str.h"
#include "core/crypto.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_context.h"
#include "domain/tokens.h"

#define DAYS_MAX 36500
#define DAY_MS INT64_C(86400000)

static int usage(void)
{
	fprintf(stderr, "usage: paddockctl tokens create --user NAME --kind user|admin|service|e2b [--label TEXT] [--days N]\n"
		"       paddockctl tokens list [--user NAME]\n"
		"       paddockctl tokens revoke ID\n");
	return 2;
}

struct options {
	const char *user, *kind, *label, *days;
};

/* --name value pairs; -1 for anything else. */
static int parse(int argc, char **argv, struct options *o)
{
	for (int i = 2; i < argc; i += 2) {
		if (i + 1 >= argc)
			return -1;
		if (str_eq(argv[i], "--user"))
			o->user = argv[i + 1];
		else if (str_eq(argv[i], "--kind"))
			o->kind = argv[i + 1];
		else if (str_eq(argv[i], "--label"))
			o->label = argv[i + 1];
		else if (str_eq(argv[i], "--days"))
			o->days = argv[i + 1];
		else
			return -1;
	}
	return 0;
}

static int create(const struct config *c, const struct token_new *n)
{
	struct caller by;
	char secret[TOKEN_SECRET_SIZE];
	err_t *e = NULL;
	struct domain *d = ctl_context_open(c, &by);

	if (!d)
		return 1;
	int rc = tokens_create(d, &by, n, secret, &e);
	domain_close(d);
	if (rc < 0)
		return ctl_context_fail(e);
	/* Alone on standard output, so that a script can take it. */
	printf("%s\n", secret);
	crypto_wipe(secret, sizeof secret);
	return 0;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = NULL;

	(void)json_get_str(o, key, false, &s, NULL);
	return s ? s : "-";
}

static int list(const struct config *c, const char *user)
{
	struct caller by;
	cleanup_json json_t *all = NULL;
	err_t *e = NULL;
	struct domain *d = ctl_context_open(c, &by);

	if (!d)
		return 1;
	int rc = tokens_list(d, user, &all, &e);
	domain_close(d);
	if (rc < 0)
		return ctl_context_fail(e);
	for (size_t i = 0; i < json_object_array_length(all); i++) {
		const json_t *t = json_object_array_get_idx(all, i);
		printf("%s %-24s %-8s created %s expires %s revoked %s %s\n", text_of(t, "id"), text_of(t, "user"), text_of(t, "kind"), text_of(t, "created_at"),
			text_of(t, "expires_at"), text_of(t, "revoked_at"), text_of(t, "label"));
	}
	return 0;
}

static int revoke(const struct config *c, const char *id)
{
	struct caller by;
	err_t *e = NULL;
	struct domain *d = ctl_context_open(c, &by);

	if (!d)
		return 1;
	int rc = tokens_revoke(d, &by, id, &e);
	domain_close(d);
	return rc < 0 ? ctl_context_fail(e) : 0;
}

int ctl_tokens(const struct config *c, int argc, char **argv)
{
	struct options o = { 0 };
	struct token_new n = { 0 };
	int64_t days = 0;

	if (argc == 3 && str_eq(argv[1], "revoke"))
		return revoke(c, argv[2]);
	if (argc < 2 || parse(argc, argv, &o) < 0)
		return usage();
	if (str_eq(argv[1], "list") && !o.kind && !o.label && !o.days)
		return list(c, o.user);
	if (!str_eq(argv[1], "create") || !o.user || !o.kind || caller_kind_parse(o.kind, &n.kind) < 0 || (o.days && num_i64(o.days, 1, DAYS_MAX, &days) < 0))
		return usage();
	n.user = o.user;
	n.label = o.label;
	n.lifetime_ms = days * DAY_MS;
	return create(c, &n);
}
