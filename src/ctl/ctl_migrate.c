#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_context.h"
#include "db/db_schema.h"

static void tell(void *arg, const char *file, bool done)
{
	int *n = arg;

	if (!done)
		return;
	printf("%s\n", file);
	++*n;
}

static int run(const struct config *c, const char *dir, const char *role)
{
	struct db_config dc = {
		.conninfo = config_str(c, "database.conninfo"),
		.user = role,
		.connect_timeout_ms = config_int(c, "database.connect_timeout_ms"),
		.statement_timeout_ms = config_int(c, "database.statement_timeout_ms"),
		.any_schema = true,
	};
	err_t *e = NULL;
	struct db *d = db_new(&dc, &e);
	int n = 0, rc = d ? db_migrate(d, dir, tell, &n, &e) : -1;

	db_free(d);
	if (rc < 0)
		return ctl_context_fail(e);
	printf(n ? "schema version %d\n" : "schema version %d, nothing to do\n", DB_SCHEMA_VERSION);
	return 0;
}

int ctl_migrate(const struct config *c, int argc, char **argv)
{
	const char *dir = PADDOCK_DATADIR "/sql", *role = "paddock_owner";

	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && str_eq(argv[i], "--dir")) {
			dir = argv[i + 1];
		} else if (i + 1 < argc && str_eq(argv[i], "--role")) {
			role = argv[i + 1];
		} else {
			fprintf(stderr, "usage: paddockctl migrate [--dir DIRECTORY] [--role ROLE]\n");
			return 2;
		}
	}
	return run(c, dir, role);
}
