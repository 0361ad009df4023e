/* What runs the sandboxes: which provider, and what provider host needs. */
#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/unixsock.h"
#include "ctl/ctl_check.h"
#include "ctl/ctl_paths.h"

static bool is_host(const struct config *c, struct ctl_finding *f)
{
	if (str_eq(config_backend(c), "host"))
		return true;
	ctl_find(f, CTL_OK, "not used by %s", config_backend(c));
	return false;
}

static void check_provider(const struct config *c, struct ctl_finding *f)
{
	if (str_eq(config_backend(c), "host"))
		ctl_find(f, CTL_NOMINAL, "host: commands are processes of this machine and share its kernel, without a seccomp profile; for development and a single "
			"tenant only (docs/host.md)");
	else
		ctl_find(f, CTL_OK, "%s", config_backend(c));
}

static void check_bubblewrap(const struct config *c, struct ctl_finding *f)
{
	const char *path = config_str(c, "host.bwrap");

	if (!is_host(c, f))
		return;
	if (access(*path ? path : "/usr/bin/bwrap", X_OK) == 0)
		ctl_find(f, CTL_OK, "%s", *path ? path : "/usr/bin/bwrap");
	else
		ctl_find(f, CTL_NOMINAL, "no bubblewrap: commands read this machine's files as the account of the service: apt install bubblewrap");
}

static void check_directory(const struct config *c, struct ctl_finding *f)
{
	const char *path = config_str(c, "host.sandboxes");
	cleanup_free char *name = ctl_path(c, "paddock%I");
	const struct passwd *pw = name ? getpwnam(name) : NULL;
	struct stat st;

	if (!is_host(c, f))
		return;
	if (lstat(path, &st) < 0)
		ctl_find(f, CTL_MISSING, "%s: %s: run contrib/up", path, strerror(errno));
	else if (!S_ISDIR(st.st_mode) || !pw || st.st_uid != pw->pw_uid || (st.st_mode & 077))
		ctl_find(f, CTL_MISSING, "%s must be a directory of %s with mode 700: run contrib/up", path, name ? name : "the account");
	else
		ctl_find(f, CTL_OK, "%s", path);
}

static void check_launcher(const struct config *c, struct ctl_finding *f)
{
	const char *path = config_str(c, "host.launcher_socket");
	cleanup_err err_t *err = NULL;
	cleanup_close int fd = -1;

	if (!is_host(c, f))
		return;
	fd = unix_connect(path, &err);
	if (fd < 0)
		ctl_find(f, CTL_MISSING, "%s: %s: start the service engine", path, err_message(err));
	else
		ctl_find(f, CTL_OK, "paddock-launcher answers");
}

const struct ctl_check ctl_checks_sandboxes[] = {
	{ "provider", check_provider },
	{ "bubblewrap", check_bubblewrap },
	{ "sandboxes", check_directory },
	{ "launcher", check_launcher },
	{ NULL, NULL },
};
