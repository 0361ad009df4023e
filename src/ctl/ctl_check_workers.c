/* What the service's own processes gave up: looked at in /proc, and in the kernel. */
#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "ctl/ctl_check.h"
#include "ctl/ctl_paths.h"

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#endif

struct seen {
	uid_t api, executor;
	unsigned workers, executors, open;   /* open: of the two, with new privileges or (workers) without a filter */
};

static uid_t uid_of(const struct config *c, const char *name)
{
	cleanup_free char *account = ctl_path(c, name);
	const struct passwd *pw = account ? getpwnam(account) : NULL;

	return pw ? pw->pw_uid : (uid_t)-1;
}

static void look_at(struct seen *s, int proc_fd, const char *pid)
{
	cleanup_close int fd = openat(proc_fd, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_free char *text = NULL;
	unsigned uid;
	size_t len;
	const char *line;
	bool worker, executor;

	if (fd < 0 || io_read_file(fd, "status", 16384, &text, &len, NULL) < 0 || !(line = strstr(text, "\nUid:")) || sscanf(line, "\nUid: %u", &uid) != 1)
		return;
	worker = uid == s->api && (str_prefix(text, "Name:\tpaddock-worker\n") || str_prefix(text, "Name:\tpaddock-janitor\n"));
	executor = uid == s->executor && str_prefix(text, "Name:\tpaddock-executo\n");
	s->workers += worker;
	s->executors += executor;
	if ((worker && !strstr(text, "\nSeccomp:\t2\n")) || ((worker || executor) && !strstr(text, "\nNoNewPrivs:\t1\n")))
		s->open++;
}

static void look_at_all(struct seen *s)
{
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);

	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			look_at(s, dirfd(d), e->d_name);
}

static void check_confinement(const struct config *c, struct ctl_finding *f)
{
	struct seen s = { .api = uid_of(c, "paddock-api%I"), .executor = uid_of(c, "paddock%I") };
	long abi = syscall(__NR_landlock_create_ruleset, NULL, 0, 1);

	look_at_all(&s);
	if (s.workers == 0)
		ctl_find(f, CTL_NOMINAL, "no worker runs here that could be looked at (paddockctl start)");
	else if (s.open > 0)
		ctl_find(f, CTL_NOMINAL, "%u of %u processes have given nothing up: an older or a sanitizer build is running", s.open, s.workers + s.executors);
	else if (abi <= 0)
		ctl_find(f, CTL_NOMINAL, "%u workers under seccomp; the kernel has no Landlock (lsm=landlock,...): their account alone says what they read", s.workers);
	else
		ctl_find(f, CTL_OK, "%u workers under seccomp and Landlock (ABI %ld), no new privileges", s.workers, abi);
}

const struct ctl_check ctl_checks_workers[] = {
	{ "confinement", check_confinement },
	{ NULL, NULL },
};
