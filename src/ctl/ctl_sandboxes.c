#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_context.h"
#include "ctl/ctl_table.h"
#include "domain/sandbox.h"
#include "domain/sandbox_admin.h"

struct asked {
	const char *verb, *object;   /* NULL: list, nothing */
	bool json;
};

static int usage(void)
{
	fprintf(stderr, "usage: paddockctl sandboxes [--json]\n"
			"       paddockctl sandboxes show USER [--json]\n"
			"       paddockctl sandboxes retry USER\n"
			"       paddockctl sandboxes quarantine USER\n"
			"       paddockctl sandboxes retire INSTANCE\n");
	return 2;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = NULL;

	(void)json_get_str(o, key, false, &s, NULL);
	return s ? s : "-";
}

static long long number_of(const json_t *o, const char *key)
{
	int64_t v = 0;

	(void)json_get_i64(o, key, false, INT64_MIN, INT64_MAX, &v, NULL);
	return (long long)v;
}

/* Messages come from providers: nothing but printable ASCII reaches a terminal. */
static void put_safe(const char *s)
{
	for (; *s; s++)
		putchar((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e ? '?' : *s);
}

static void print_stuck(const json_t *o, const char *before, const char *between)
{
	const json_t *stuck = NULL;

	(void)json_get_arr(o, "stuck", false, &stuck, NULL);
	for (size_t i = 0; stuck && i < json_object_array_length(stuck); i++) {
		fputs(i ? between : before, stdout);
		put_safe(json_object_get_string(json_object_array_get_idx(stuck, i)));
	}
}

static void print_line(const json_t *o)
{
	printf("%-16s %-10s %-10s %4lld %-36s %s %s", text_of(o, "user"), text_of(o, "provider"), text_of(o, "state"), number_of(o, "generation"),
	       text_of(o, "instance_id"), text_of(o, "since"), text_of(o, "last_activity_at"));
	print_stuck(o, "  ", "; ");
	putchar('\n');
}

static void print_all(const json_t *o)
{
	static const char *const keys[] = { "user", "provider", "state", "instance_id", "provider_ref", "created_at", "since", "last_activity_at", "keep_until", "error" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		printf("%-17s ", keys[i]);
		put_safe(text_of(o, keys[i]));
		putchar('\n');
	}
	printf("%-17s %lld\n%-17s %lld\n", "generation", number_of(o, "generation"), "lock_version", number_of(o, "lock_version"));
	print_stuck(o, "stuck             ", "\nstuck             ");
	if (json_object_array_length(json_object_object_get(o, "stuck")) > 0)
		putchar('\n');
}

static void print_left(const json_t *o)
{
	bool quarantined = json_has(o, "quarantined_at");

	printf("%-16s %-21s %4lld %-36s %s %lld failed tries  ", text_of(o, "user"), quarantined ? "in quarantine" : "to be destroyed", number_of(o, "generation"),
	       text_of(o, "id"), text_of(o, quarantined ? "quarantined_at" : "retired_at"), number_of(o, "tries"));
	put_safe(text_of(o, "error"));
	putchar('\n');
	if (quarantined) {
		fputs("    ", stdout);
		put_safe(text_of(o, "advice"));
		putchar('\n');
	}
}

static int print_json(json_t *sandboxes, json_t *left)
{
	cleanup_json json_t *o = json_object_new_object();

	bool bad = !o || json_add(o, "sandboxes", json_object_get(sandboxes)) < 0 || json_add(o, "left", json_object_get(left)) < 0;

	return ctl_table_json(bad ? NULL : o);
}

/* Of one user, or of all. */
static int show(struct domain *d, const struct asked *a)
{
	cleanup_json json_t *sandboxes = NULL, *left = NULL;
	err_t *e = NULL;

	if (sandbox_admin_list(d, a->object, &sandboxes, &e) < 0 || sandbox_admin_left(d, a->object, &left, &e) < 0)
		return ctl_context_fail(e);
	if (a->json)
		return print_json(sandboxes, left);
	if (a->object && json_object_array_length(sandboxes) + json_object_array_length(left) == 0)
		printf("%s has no sandbox\n", a->object);
	for (size_t i = 0; i < json_object_array_length(sandboxes); i++)
		(a->object ? print_all : print_line)(json_object_array_get_idx(sandboxes, i));
	for (size_t i = 0; i < json_object_array_length(left); i++)
		print_left(json_object_array_get_idx(left, i));
	return 0;
}

static int change(struct domain *d, const struct asked *a, const struct caller *by)
{
	err_t *e = NULL;
	int rc;

	if (str_eq(a->verb, "retry"))
		rc = sandbox_admin_retry(d, by, a->object, &e);
	else if (str_eq(a->verb, "quarantine"))
		rc = sandbox_quarantine(d, a->object, by, &e);
	else
		rc = sandbox_retire(d, a->object, by, &e);
	return rc < 0 ? ctl_context_fail(e) : 0;
}

static bool parse(int argc, char **argv, struct asked *ret)
{
	static const char *const verbs[] = { "show", "retry", "quarantine", "retire" };
	bool known = false;

	*ret = (struct asked){ 0 };
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--json"))
			ret->json = true;
		else if (argv[i][0] == '-')
			return false;
		else if (!ret->verb)
			ret->verb = argv[i];
		else if (!ret->object)
			ret->object = argv[i];
		else
			return false;
	}
	if (ret->verb && str_eq(ret->verb, "list"))
		return !ret->object;
	for (size_t i = 0; ret->verb && i < sizeof verbs / sizeof *verbs; i++)
		known |= str_eq(ret->verb, verbs[i]);
	if (!ret->verb)
		return true;
	return known && ret->object && (!ret->json || str_eq(ret->verb, "show"));
}

int ctl_sandboxes(const struct config *c, int argc, char **argv)
{
	struct asked a;
	struct caller by;

	if (!parse(argc, argv, &a))
		return usage();
	struct domain *d = ctl_context_open(c, &by);
	if (!d)
		return 1;
	int rc = !a.verb || str_eq(a.verb, "list") || str_eq(a.verb, "show") ? show(d, &a) : change(d, &a, &by);
	domain_close(d);
	return rc;
}
