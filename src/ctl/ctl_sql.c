/* paddockctl sql [ARGUMENTS]: psql on the service's database as the role that may only read. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_paths.h"
#include "ctl/ctl_proc.h"

static int sql_exec(const struct config *c, int argc, char **argv, err_t **err)
{
	cleanup_free char *dir = ctl_path(c, "host=/run/paddock%I/pg dbname=paddock user=paddock_read");
	cleanup_free const char **args = calloc((size_t)argc + 5, sizeof *args);

	if (!dir || !args)
		return err_set(err, ERR_NO_MEMORY, NULL, "arguments");
	args[0] = "psql";
	args[1] = "-X";
	args[2] = "-d";
	args[3] = dir;
	for (int i = 0; i < argc; i++)
		args[i + 4] = argv[i];
	return ctl_proc_exec(args, err);
}

int ctl_sql(const struct config *c, int argc, char **argv)
{
	cleanup_err err_t *err = NULL;

	if (geteuid() != 0) {
		fprintf(stderr, "paddockctl: sql: run this as root\n");
		return 1;
	}
	sql_exec(c, argc - 1, argv + 1, &err);
	fprintf(stderr, "paddockctl: sql: %s\n", err_message(err));
	return 1;
}
