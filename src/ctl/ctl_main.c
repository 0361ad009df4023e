#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "core/config.h"
#include "ctl/ctl_commands.h"

struct subcommand {
	const char *name;
	int (*run)(const struct config *c, int argc, char **argv);
	const char *usage;
	const char *help;
};

static const struct subcommand subcommands[] = {
	{ "status", ctl_status, "", "what runs, and whether it is well" },
	{ "doctor", ctl_doctor, "", "what is missing here, and what is only nominally enforced" },
	{ "start", ctl_start, "", "start the service" },
	{ "stop", ctl_stop, "", "stop the service; sandboxes stay" },
	{ "migrate", ctl_migrate, "[--dir DIRECTORY] [--role ROLE]", "bring the database's schema up to date" },
	{ "users", ctl_users, "create NAME [--admin] | list", "accounts" },
	{ "tokens", ctl_tokens, "create --user NAME --kind KIND [--label TEXT] [--days N] | list [--user NAME] | revoke ID", "bearer tokens" },
	{ "runs", ctl_runs, "[--user NAME] [--status STATUS] [--run ID] [--stuck] [--all] [--limit N] [--json]", "Runs that are not over or not cleaned up, and why" },
	{ "commands", ctl_cmds, "[--user NAME] [--run ID] [--open] [--limit N] [--json] | kill ID", "commands in the sandboxes" },
	{ "cleanup", ctl_cleanup, "[--user NAME] [--run ID] [--limit N] [--json] | retry RUN|--all", "clean-ups that are not confirmed" },
	{ "sandboxes", ctl_sandboxes, "[list | show USER] [--json] | retry USER | quarantine USER | retire INSTANCE", "the users' own sandboxes, and what is stuck" },
	{ "sql", ctl_sql, "[psql's arguments]", "psql as a role that may only read" },
	{ "engine", ctl_engine, "-- ARGUMENTS", "the engine's command line, as the account that owns the containers" },
};

static void usage(FILE *to)
{
	fprintf(to, "usage: paddockctl [--config FILE] COMMAND ...\n       paddockctl --help | --version\n\n");
	for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
		fprintf(to, "  %-8s %s\n           %s\n", subcommands[i].name, subcommands[i].usage, subcommands[i].help);
}

static const struct subcommand *find(const char *name)
{
	for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
		if (str_eq(subcommands[i].name, name))
			return &subcommands[i];
	return NULL;
}

/* -1: its arguments are its own business. */
static int before(const struct subcommand *s, int argc, char **argv)
{
	bool help = argc > 1 && str_eq(argv[1], "--help");

	if (!help && (argc == 1 || *s->usage))
		return -1;
	fprintf(help ? stdout : stderr, "usage: paddockctl %s%s%s\n", s->name, *s->usage ? " " : "", s->usage);
	if (help)
		printf("%s\n", s->help);
	return help ? 0 : 2;
}

static int run(const struct subcommand *s, const char *path, int argc, char **argv)
{
	err_t *e = NULL;
	struct config *c = config_load(path, &e);

	if (!c) {
		fprintf(stderr, "paddockctl: %s\n", err_message(e));
		err_free(e);
		return 2;
	}
	int rc = s->run(c, argc, argv);
	config_free(c);
	return rc;
}

int main(int argc, char **argv)
{
	const char *path = NULL;
	int at = 1;

	if (io_std_fds() < 0)
		return 1;
	log_init("paddockctl", LOG_WARN);
	if (argc > 2 && str_eq(argv[1], "--config")) {
		path = argv[2];
		at = 3;
	}
	if (at < argc && (str_eq(argv[at], "--help") || str_eq(argv[at], "--version"))) {
		if (str_eq(argv[at], "--help"))
			usage(stdout);
		else
			printf("paddockctl (Paddock) %s\n", PACKAGE_VERSION);
		return 0;
	}
	const struct subcommand *s = at < argc ? find(argv[at]) : NULL;
	if (!s) {
		if (at < argc)
			fprintf(stderr, "paddockctl: there is no command \"%s\"\n\n", argv[at]);
		usage(stderr);
		return 2;
	}
	int rc = before(s, argc - at, argv + at);
	return rc >= 0 ? rc : run(s, path, argc - at, argv + at);
}
