/* paddockctl engine -- ARGUMENTS: the engine's own command line as the account that owns the containers, with the service's own files. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_paths.h"
#include "ctl/ctl_proc.h"

static const struct {
	const char *name, *value;
} engine_env[] = {
	{ "PATH", "/usr/sbin:/usr/bin:/sbin:/bin" },
	{ "LANG", "C.UTF-8" },
	{ "HOME", "/var/lib/paddock%I/engine/home" },
	{ "XDG_RUNTIME_DIR", "/run/paddock%I/xdg" },
	{ "TMPDIR", "/var/lib/paddock%I/engine" },
	{ "CONTAINERS_CONF", "/etc/paddock%I/containers.conf" },
	{ "CONTAINERS_STORAGE_CONF", "/etc/paddock%I/storage.conf" },
};

/* A clean environment: nothing of the caller's can point the engine elsewhere. The terminal's type is kept for `run -it`. */
static int set_environment(const struct config *c, err_t **err)
{
	cleanup_free char *term = getenv("TERM") ? str_dup(getenv("TERM")) : NULL;

	if (clearenv() != 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "environment");
	if (term)
		setenv("TERM", term, 1);
	for (size_t i = 0; i < sizeof engine_env / sizeof engine_env[0]; i++) {
		cleanup_free char *value = ctl_path(c, engine_env[i].value);

		if (!value || setenv(engine_env[i].name, value, 1) < 0)
			return err_set(err, ERR_NO_MEMORY, NULL, "environment");
	}
	return 0;
}

static int engine_exec(const struct config *c, int argc, char **argv, err_t **err)
{
	cleanup_free char *account = ctl_path(c, "paddock%I");
	cleanup_free const char **args = calloc((size_t)argc + 2, sizeof *args);

	if (!account || !args)
		return err_set(err, ERR_NO_MEMORY, NULL, "arguments");
	if (!str_eq(config_str(c, "container.engine"), "podman"))
		return err_set(err, ERR_REFUSED, NULL, "the engine is %s: use its own command line", config_str(c, "container.engine"));
	if (ctl_proc_become(account, err) < 0 || set_environment(c, err) < 0)
		return -1;
	if (chdir("/") < 0)
		return err_sys(err, errno, "/");
	args[0] = "podman";
	for (int i = 0; i < argc; i++)
		args[i + 1] = argv[i];
	return ctl_proc_exec(args, err);
}

int ctl_engine(const struct config *c, int argc, char **argv)
{
	cleanup_err err_t *err = NULL;

	if (argc > 1 && str_eq(argv[1], "--")) {
		argc--;
		argv++;
	}
	if (argc < 2) {
		fprintf(stderr, "usage: paddockctl engine -- ARGUMENTS OF THE ENGINE'S OWN COMMAND LINE\n");
		return 2;
	}
	engine_exec(c, argc - 1, argv + 1, &err);
	fprintf(stderr, "paddockctl: engine: %s\n", err_message(err));
	return 1;
}
