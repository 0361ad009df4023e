/* The machine below: accounts, programs, kernel features, clock, disk. */
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "ctl/ctl_check.h"
#include "ctl/ctl_paths.h"

#define SUBIDS 65536

static void check_kernel(const struct config *c, struct ctl_finding *f)
{
	struct utsname u;
	int major = 0, minor = 0;

	(void)c;
	if (uname(&u) < 0 || sscanf(u.release, "%d.%d", &major, &minor) != 2)
		ctl_find(f, CTL_MISSING, "the kernel does not tell its release");
	else if (major < 5 || (major == 5 && minor < 6))
		ctl_find(f, CTL_MISSING, "Linux %s: 5.6 or later is needed (openat2)", u.release);
	else if (major == 5 && minor < 13)
		ctl_find(f, CTL_NOMINAL, "Linux %s: no rootless overlay before 5.13; storage.conf needs mount_program fuse-overlayfs", u.release);
	else
		ctl_find(f, CTL_OK, "Linux %s", u.release);
}

static void check_accounts(const struct config *c, struct ctl_finding *f)
{
	static const char *const names[] = { "paddock%I", "paddock-api%I", "postgres", "www-data" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		cleanup_free char *name = ctl_path(c, names[i]);

		if (!name || !getpwnam(name)) {
			ctl_find(f, CTL_MISSING, "there is no account %s: run contrib/up", name ? name : "?");
			return;
		}
	}
	ctl_find(f, CTL_OK, "paddock%s, paddock-api%s", ctl_suffix(c), ctl_suffix(c));
}

/* A line is "account:first:count". */
static bool line_grants(const char *line, size_t n, const char *prefix)
{
	cleanup_free char *copy = str_dupn(line, n);
	const char *count = copy ? strrchr(copy, ':') : NULL;
	int64_t v;

	return count && str_prefix(copy, prefix) && num_i64(count + 1, SUBIDS, INT64_MAX, &v) == 0;
}

static bool has_subids(const char *file, const char *account)
{
	cleanup_free char *text = NULL;
	cleanup_free char *prefix = str_dupf("%s:", account);
	size_t len, n;

	if (!prefix || io_read_file(AT_FDCWD, file, 1 << 20, &text, &len, NULL) < 0)
		return false;
	for (const char *line = text; *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		if (line_grants(line, n, prefix))
			return true;
	}
	return false;
}

static void check_subids(const struct config *c, struct ctl_finding *f)
{
	cleanup_free char *account = ctl_path(c, "paddock%I");

	if (!account || !has_subids("/etc/subuid", account) || !has_subids("/etc/subgid", account))
		ctl_find(f, CTL_MISSING, "%s needs %d subordinate uids and gids: usermod --add-subuids, --add-subgids", account ? account : "?", SUBIDS);
	else
		ctl_find(f, CTL_OK, "%d uids and gids for %s", SUBIDS, account);
}

static bool installed(const char *program)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin" };

	for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
		cleanup_free char *path = str_dupf("%s/%s", dirs[i], program);

		if (path && access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static void check_programs(const struct config *c, struct ctl_finding *f)
{
	static const struct {
		const char *program, *package;
	} needed[] = {
		{ "podman", "podman" }, { "runc", "runc" }, { "conmon", "conmon" }, { "slirp4netns", "slirp4netns" }, { "newuidmap", "uidmap" },
		{ "newgidmap", "uidmap" }, { "nft", "nftables" }, { "nginx", "nginx" }, { "psql", "postgresql-client" }, { "curl", "curl" },
		{ "openssl", "openssl" },
	};

	(void)c;
	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
		if (!installed(needed[i].program)) {
			ctl_find(f, CTL_MISSING, "there is no program %s: apt install %s", needed[i].program, needed[i].package);
			return;
		}
	}
	ctl_find(f, CTL_OK, "engine, runtime, network, database client and front are installed");
}

static int64_t proc_number(const char *path)
{
	cleanup_free char *text = NULL;
	size_t len;
	int64_t v;

	if (io_read_file(AT_FDCWD, path, 64, &text, &len, NULL) < 0)
		return -1;
	text[strcspn(text, "\n")] = '\0';
	return num_i64(text, 0, INT64_MAX, &v) < 0 ? -1 : v;
}

static void check_userns(const struct config *c, struct ctl_finding *f)
{
	(void)c;
	if (access("/proc/self/ns/user", F_OK) < 0 || proc_number("/proc/sys/user/max_user_namespaces") == 0)
		ctl_find(f, CTL_MISSING, "user namespaces are off: sysctl user.max_user_namespaces=65536");
	else if (proc_number("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		ctl_find(f, CTL_MISSING, "sysctl kernel.unprivileged_userns_clone=1 is needed for rootless containers");
	else if (proc_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		ctl_find(f, CTL_NOMINAL, "AppArmor restricts user namespaces: podman needs a profile that allows them");
	else
		ctl_find(f, CTL_OK, "available without privilege");
}

static void check_sysctls(const struct config *c, struct ctl_finding *f)
{
	static const struct {
		const char *name, *path;
		int64_t least;
		bool zero_is_none;
	} wanted[] = {
		{ "fs.pipe-user-pages-soft", "/proc/sys/fs/pipe-user-pages-soft", 262144, true },
		{ "fs.inotify.max_user_instances", "/proc/sys/fs/inotify/max_user_instances", 16777216, false },
		{ "fs.inotify.max_user_watches", "/proc/sys/fs/inotify/max_user_watches", 16777216, false },
		{ "fs.epoll.max_user_watches", "/proc/sys/fs/epoll/max_user_watches", 2147483647, false },
		{ "kernel.keys.maxkeys", "/proc/sys/kernel/keys/maxkeys", 16384, false },
		{ "kernel.keys.maxbytes", "/proc/sys/kernel/keys/maxbytes", 16777216, false },
	};

	(void)c;
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		int64_t v = proc_number(wanted[i].path);

		if (v >= 0 && v < wanted[i].least && !(v == 0 && wanted[i].zero_is_none)) {
			ctl_find(f, CTL_NOMINAL, "%s is %lld: at least %lld, or one sandbox can use up what all share (paddockctl start sets it)", wanted[i].name,
				(long long)v, (long long)wanted[i].least);
			return;
		}
	}
	ctl_find(f, CTL_OK, "pipe pages, inotify, epoll and keys are raised for all sandboxes together");
}

static void check_links(const struct config *c, struct ctl_finding *f)
{
	(void)c;
	if (proc_number("/proc/sys/fs/protected_symlinks") == 0 || proc_number("/proc/sys/fs/protected_hardlinks") == 0)
		ctl_find(f, CTL_NOMINAL, "fs.protected_symlinks or fs.protected_hardlinks is 0: Paddock does not rely on them, other programs of this machine do");
	else
		ctl_find(f, CTL_OK, "protected");
}

static void check_tun(const struct config *c, struct ctl_finding *f)
{
	struct stat st;

	if (str_eq(config_str(c, "container.network"), "none"))
		ctl_find(f, CTL_OK, "not needed: [container] network = none");
	else if (stat("/dev/net/tun", &st) < 0 || !S_ISCHR(st.st_mode))
		ctl_find(f, CTL_MISSING, "there is no /dev/net/tun: modprobe tun, or give the device to this container");
	else if ((st.st_mode & 0006) != 0006)
		ctl_find(f, CTL_NOMINAL, "/dev/net/tun is %04o: fine only if an ACL or a group lets paddock%s in", (unsigned)st.st_mode & 07777, ctl_suffix(c));
	else
		ctl_find(f, CTL_OK, "/dev/net/tun");
}

static void check_clock(const struct config *c, struct ctl_finding *f)
{
	struct timex t = { 0 };
	int state = adjtimex(&t);

	(void)c;
	if (state < 0 || state == TIME_ERROR || (t.status & STA_UNSYNC))
		ctl_find(f, CTL_NOMINAL, "the clock is not synchronised (NTP): times in records may be off; leases use the database's clock alone");
	else
		ctl_find(f, CTL_OK, "synchronised");
}

static void check_disk(const struct config *c, struct ctl_finding *f)
{
	static const char *const keys[] = { "paths.state", "paths.workspaces" };

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const char *path = config_str(c, keys[i]);
		struct statvfs v;
		uint64_t mib;

		if (statvfs(path, &v) < 0) {
			ctl_find(f, CTL_MISSING, "%s: %s", path, strerror(errno));
			return;
		}
		mib = (uint64_t)v.f_bavail * v.f_frsize >> 20;
		if (mib < 512 || (v.f_files > 0 && v.f_favail < 10000)) {
			ctl_find(f, CTL_MISSING, "%s: %llu MiB and %llu inodes left: commands will fail", path, (unsigned long long)mib,
				(unsigned long long)v.f_favail);
			return;
		}
		if ((int64_t)mib << 20 < config_int(c, "executor.min_free_bytes")) {
			ctl_find(f, CTL_MISSING, "%s: %llu MiB left, less than [executor] min_free_bytes: output goes early, new commands may be refused", path,
				(unsigned long long)mib);
			return;
		}
		ctl_find(f, mib < 4096 ? CTL_NOMINAL : CTL_OK, "%llu MiB free in %s%s", (unsigned long long)mib, path,
			mib < 4096 ? ": output of one command may take 256 MiB a stream" : "");
	}
}

const struct ctl_check ctl_checks_host[] = {
	{ "kernel", check_kernel },
	{ "accounts", check_accounts },
	{ "subordinate ids", check_subids },
	{ "programs", check_programs },
	{ "user namespaces", check_userns },
	{ "sysctls", check_sysctls },
	{ "links", check_links },
	{ "network device", check_tun },
	{ "clock", check_clock },
	{ "disk space", check_disk },
	{ NULL, NULL },
};
