/* What holds a sandbox in: limits, quota, seccomp, the network guard. */
#include <fcntl.h>
#include <mntent.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "ctl/ctl_check.h"
#include "ctl/ctl_paths.h"

#define CGROUP2_MAGIC 0x63677270

static bool cgroup_v2(void)
{
	struct statfs s;

	return statfs("/sys/fs/cgroup", &s) == 0 && s.f_type == CGROUP2_MAGIC;
}

/* The account may write there: it owns the directory. */
static bool owned(const struct config *c, const char *dir)
{
	cleanup_free char *account = ctl_path(c, "paddock%I");
	const struct passwd *pw = account ? getpwnam(account) : NULL;
	struct stat st;

	return pw && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == pw->pw_uid;
}

static void limits_v2(const struct config *c, struct ctl_finding *f)
{
	cleanup_free char *dir = str_dupf("/sys/fs/cgroup%s", config_str(c, "container.cgroup_parent"));
	cleanup_free char *file = dir ? str_dupf("%s/cgroup.controllers", dir) : NULL;
	cleanup_free char *have = NULL;
	size_t len;

	if (!file || io_read_file(AT_FDCWD, file, 4096, &have, &len, NULL) < 0 || !owned(c, dir)) {
		ctl_find(f, CTL_NOMINAL, "cgroup v2, but %s is not delegated to paddock%s: only rlimits hold (paddockctl start makes it)", dir ? dir : "?",
			ctl_suffix(c));
		return;
	}
	if (!strstr(have, "memory") || !strstr(have, "pids") || !strstr(have, "cpu"))
		ctl_find(f, CTL_NOMINAL, "cgroup v2 in %s has only \"%.*s\": memory, pids and cpu are needed", dir, (int)strcspn(have, "\n"), have);
	else
		ctl_find(f, CTL_OK, "memory, pids, cpu by cgroup v2 below %s", dir);
}

static void limits_v1(const struct config *c, struct ctl_finding *f)
{
	static const char *const needed[] = { "memory", "pids", "cpu", "freezer" };

	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
		cleanup_free char *dir = str_dupf("/sys/fs/cgroup/%s%s", needed[i], config_str(c, "container.cgroup_parent"));

		if (!dir || !owned(c, dir)) {
			ctl_find(f, CTL_NOMINAL, "cgroup v1, but %s is not there or not paddock%s's: only rlimits hold (paddockctl start makes it)",
				dir ? dir : "?", ctl_suffix(c));
			return;
		}
	}
	ctl_find(f, CTL_OK, "memory, pids, cpu, freezer by cgroup v1, written by the executor");
}

static void check_limits(const struct config *c, struct ctl_finding *f)
{
	if (cgroup_v2())
		limits_v2(c, f);
	else
		limits_v1(c, f);
}

/* Options of the mount that holds path: the longest mount point that is a prefix of it. */
static bool mount_of(const char *path, struct ctl_finding *opts)
{
	FILE *m = setmntent("/proc/self/mounts", "re");
	const struct mntent *e;
	size_t best = 0;

	if (!m)
		return false;
	while ((e = getmntent(m))) {
		size_t n = strlen(e->mnt_dir);

		if (strncmp(path, e->mnt_dir, n) == 0 && (path[n] == '/' || path[n] == '\0' || n == 1) && n >= best) {
			best = n;
			snprintf(opts->text, sizeof opts->text, "%s %s", e->mnt_dir, e->mnt_opts);
		}
	}
	endmntent(m);
	return best > 0;
}

static void check_quota(const struct config *c, struct ctl_finding *f)
{
	const char *dir = config_str(c, "paths.workspaces");
	struct ctl_finding opts = { .verdict = CTL_OK };

	if (mount_of(dir, &opts) && (strstr(opts.text, "prjquota") || strstr(opts.text, "pquota")))
		ctl_find(f, CTL_OK, "project quota is on below %s", dir);
	else
		ctl_find(f, CTL_NOMINAL, "no project quota on %s: one user can fill the file system that all share; keep it apart from PostgreSQL's", dir);
}

static void check_seccomp(const struct config *c, struct ctl_finding *f)
{
	const char *file = config_str(c, "container.seccomp");

	if (!str_eq(config_backend(c), "container"))
		ctl_find(f, CTL_OK, "the profile %s is not used by %s", file, config_backend(c));
	else if (access("/proc/sys/kernel/seccomp/actions_avail", F_OK) < 0)
		ctl_find(f, CTL_MISSING, "the kernel has no seccomp filters");
	else if (access(file, R_OK) < 0)
		ctl_find(f, CTL_MISSING, "%s is not there: run contrib/up", file);
	else
		ctl_find(f, CTL_OK, "own profile %s", file);
}

static void check_helpers(const struct config *c, struct ctl_finding *f)
{
	static const char *const keys[] = { "container.agent", "container.netguard" };

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		if (access(config_str(c, keys[i]), X_OK) < 0) {
			ctl_find(f, CTL_MISSING, "%s is not there: run contrib/up", config_str(c, keys[i]));
			return;
		}
	}
	ctl_find(f, CTL_OK, "agent and network guard are installed");
}

static void check_guard(const struct config *c, struct ctl_finding *f)
{
	if (str_eq(config_str(c, "container.network"), "none"))
		ctl_find(f, CTL_OK, "sandboxes have no network");
	else
		ctl_find(f, CTL_OK, "outgoing internet; host, private and metadata addresses are closed by nft before the first command");
}

static void check_isolation(const struct config *c, struct ctl_finding *f)
{
	(void)c;
	ctl_find(f, CTL_NOMINAL, "sandboxes share this kernel: for single-tenant or trusted code (SECURITY.md says what an escape reaches)");
}

const struct ctl_check ctl_checks_limits[] = {
	{ "limits", check_limits },
	{ "disk quota", check_quota },
	{ "seccomp", check_seccomp },
	{ "helpers", check_helpers },
	{ "network guard", check_guard },
	{ "isolation", check_isolation },
	{ NULL, NULL },
};
