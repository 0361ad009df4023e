/* The start that all programs share (declared in config.h). */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/config.h"
#include "core/config_table.h"
#include "core/config_value.h"

enum action { DO_RUN, DO_CHECK, DO_DUMP, DO_HELP, DO_VERSION };

struct request {
	const char *path;
	enum action action;
};

void config_help(FILE *to)
{
	const char *section = "";

	for (size_t i = 0; i < config_table_len; i++) {
		const struct config_opt *o = &config_table[i];
		char allowed[128];

		config_value_allowed(o, allowed, sizeof allowed);
		if (!str_eq(section, o->section))
			fprintf(to, "\n[%s]\n", o->section);
		section = o->section;
		fprintf(to, "  %s = %s\n      %s: %s", o->key, o->def, o->help, allowed);
		if (o->env)
			fprintf(to, " (environment: %s)", o->env);
		fputc('\n', to);
	}
}

static void print_help(const char *program, const char *summary)
{
	printf("usage: %s [--config FILE] [--check | --dump | --help | --version]\n%s\n\n"
		"  --config FILE  read FILE instead of $PADDOCK_CONFIG or %s\n"
		"  --check        check the configuration and exit\n"
		"  --dump         print the configuration in effect, with the source of each value\n"
		"\nOptions of the file (%%I: \"-NAME\" of $PADDOCK_INSTANCE); PADDOCK_<SECTION>_<KEY> in the environment overrides:\n",
		program, summary, CONFIG_DEFAULT_PATH);
	config_help(stdout);
}

static int parse(int argc, char **argv, struct request *r)
{
	static const struct {
		const char *word;
		enum action action;
	} words[] = { { "--check", DO_CHECK }, { "--dump", DO_DUMP }, { "--help", DO_HELP }, { "-h", DO_HELP }, { "--version", DO_VERSION } };

	for (int i = 1; i < argc; i++) {
		size_t k = 0;

		if (str_eq(argv[i], "--config") && i + 1 < argc) {
			r->path = argv[++i];
			continue;
		}
		if (str_prefix(argv[i], "--config=")) {
			r->path = argv[i] + strlen("--config=");
			continue;
		}
		while (k < sizeof words / sizeof words[0] && !str_eq(argv[i], words[k].word))
			k++;
		if (k == sizeof words / sizeof words[0])
			return -1;
		r->action = words[k].action;
	}
	return 0;
}

int config_main(int argc, char **argv, const char *program, const char *summary, struct config **ret)
{
	struct request r = { 0 };
	cleanup_err err_t *err = NULL;
	struct config *c;

	if (parse(argc, argv, &r) < 0) {
		fprintf(stderr, "usage: %s [--config FILE] [--check | --dump | --help | --version]\n", program);
		return -1;
	}
	if (r.action == DO_HELP) {
		print_help(program, summary);
		return 1;
	}
	if (r.action == DO_VERSION) {
		printf("%s (Paddock) %s\n", program, PACKAGE_VERSION);
		return 1;
	}
	c = config_load(r.path, &err);
	if (!c) {
		fprintf(stderr, "%s: %s\n", program, err_message(err));
		return -1;
	}
	if (r.action == DO_RUN) {
		*ret = c;
		return 0;
	}
	if (r.action == DO_DUMP)
		config_dump(c, stdout);
	else
		printf("%s: the configuration is valid\n", program);
	config_free(c);
	return 1;
}
