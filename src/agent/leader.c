#include "agent/leader.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/supervisor.h"
#include "base/str.h"

_Noreturn static void fail(enum msg_stage stage, int errnum)
{
	struct report r = { REPORT_FAILED, (int32_t)stage, errnum };

	send(LEADER_REPORT_FD, &r, sizeof(r), MSG_NOSIGNAL);
	_exit(127);
}

static int lower_limit(__rlimit_resource_t what, rlim_t to)
{
	struct rlimit r;

	if (getrlimit(what, &r) < 0)
		return -1;
	if (to > r.rlim_max)
		to = r.rlim_max;
	r.rlim_cur = r.rlim_max = to;
	return setrlimit(what, &r);
}

/* Best effort: not every container lets its root write there. */
static void raise_oom_score(int32_t adj)
{
	char text[16];
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (str_fmt(text, sizeof(text), "%d", (int)adj) == 0 && write(fd, text, strlen(text)) < 0)
		errno = 0;
	close(fd);
}

static int apply_limits(const struct msg_config *c)
{
	if (lower_limit(RLIMIT_CORE, 0) < 0)
		return -1;
	if (c->nofile && lower_limit(RLIMIT_NOFILE, c->nofile) < 0)
		return -1;
	if (c->nproc && lower_limit(RLIMIT_NPROC, c->nproc) < 0)
		return -1;
	if (c->nice && setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + c->nice) < 0)
		return -1;
	if (c->oom_score_adj)
		raise_oom_score(c->oom_score_adj);
	return 0;
}

/* The raw calls: the C library's wrappers would involve its bookkeeping of threads, which belongs to the parent. */
static int become_user(void)
{
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, LAUNCH_GID, LAUNCH_GID, LAUNCH_GID) < 0)
		return -1;
	if (syscall(SYS_setresuid, LAUNCH_UID, LAUNCH_UID, LAUNCH_UID) < 0)
		return -1;
	/* The memory is still shared with the supervisor: whatever fs.suid_dumpable says, the account must not get at it. */
	return prctl(PR_SET_DUMPABLE, 0);
}

/* mkdir -p and chdir, as the user: its rights decide, links are followed as its own shell would. */
static int make_dirs(const char *path)
{
	char part[MSG_PATH_MAX + 1];
	size_t n = strlen(path);

	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != 0)
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -1;
	}
	return chdir(path);
}

static int enter(const struct launch *l)
{
	if (chdir(l->cwd) == 0)
		return 0;
	return errno == ENOENT && l->make_cwd ? make_dirs(l->cwd) : -1;
}

static const char *search_path(char *const *env)
{
	for (; *env; env++) {
		if (str_prefix(*env, "PATH="))
			return *env + 5;
	}
	return "";
}

/* As execvpe(), along the command's own PATH; returns the errno to tell. A forbidden file is only told when none could be run. */
static int exec_along(const char *path, char *const *argv, char *const *env)
{
	char file[MSG_PATH_MAX + 1];
	size_t name = strlen(argv[0]);
	int told = ENOENT;

	for (const char *end; ; path = end + 1) {
		end = strchrnul(path, ':');
		size_t n = (size_t)(end - path);
		if (n + 1 + name < sizeof(file)) {
			memcpy(file, path, n);
			file[n] = '/';
			memcpy(file + n + (n ? 1 : 0), argv[0], name + 1);
			execve(file, argv, env);
			if (errno == EACCES)
				told = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return errno;
		}
		if (!*end)
			return told;
	}
}

_Noreturn void leader_run(const struct launch *l)
{
	sigset_t none;

	setsid();
	if (apply_limits(l->limits) < 0)
		fail(MSG_STAGE_LIMITS, errno);
	if (become_user() < 0)
		fail(MSG_STAGE_USER, errno);
	umask(022);
	if (enter(l) < 0)
		fail(MSG_STAGE_CWD, errno);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (!strchr(l->argv[0], '/'))
		fail(MSG_STAGE_EXEC, exec_along(search_path(l->env), l->argv, l->env));
	execve(l->argv[0], l->argv, l->env);
	fail(MSG_STAGE_EXEC, errno);
}
