/* host_inside.c - see host_inside.h. What both ways have in common. */
#include "provider/host_inside.h"

#include <errno.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "provider/host_userns.h"

_Noreturn void host_inside_fail(const char *what)
{
	dprintf(2, "%s: %s\n", what, strerror(errno));
	_exit(126);
}

/* The way to a Workspace is open to our account only, and root of the namespace is another: looked up as the account, shown where root can reach. */
static void show_workspace(const struct host_inside *in)
{
	char at[PATH_MAX];

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		host_inside_fail("mount namespace");
	if (str_fmt(at, sizeof(at), "%s/workspace", in->dir) < 0)
		host_inside_fail("path");
	setfsuid(HOST_USER_ID);
	if (mount(in->workspace, at, NULL, MS_BIND | MS_REC, NULL) < 0)
		host_inside_fail("workspace");
	setfsuid(0);
}

/* No namespace parts keys: the launcher's would be those of all sandboxes. A kernel without keys has none to share; a quota that is used up is no reason to. */
static void join_keyring(void)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS && errno != EOPNOTSUPP)
		host_inside_fail("session keyring");
}

_Noreturn void host_inside_enter(const struct host_inside *in)
{
	struct rlimit none = { 0, 0 }, files = { (rlim_t)in->nofile, (rlim_t)in->nofile };

	umask(022);
	if (setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0)
		host_inside_fail("limits");
	join_keyring();
	show_workspace(in);
	if (in->bwrap)
		host_bwrap_exec(in);
	host_plain_run(in);
}
