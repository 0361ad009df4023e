#include "agent/leader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "agent/caps.h"
#include "agent/exports.h"
#include "agent/rawcall.h"
#include "agent/supervisor.h"
#include "base/str.h"

/* Functions here return 0 or -errno, as the calls do. */

_Noreturn static void fail(enum msg_stage stage, long r)
{
	struct report rep = { REPORT_FAILED, (int32_t)stage, (int32_t)-r };

	rawcall(SYS_sendto, LEADER_REPORT_FD, &rep, sizeof(rep), MSG_NOSIGNAL, 0, 0);
	rawcall_exit(127);
}

static long lower_limit(int what, unsigned to)
{
	struct {
		uint64_t cur, max;
	} r;
	long ret = rawcall(SYS_prlimit64, 0, what, 0, &r);

	if (ret < 0)
		return ret;
	if (r.max <= to && r.cur == r.max)
		return 0;
	r.max = to < r.max ? to : r.max;
	r.cur = r.max;
	return rawcall(SYS_prlimit64, 0, what, &r, 0);
}

/* Best effort: not every container lets its root write there. */
static void raise_oom_score(const char *adj)
{
	long fd = rawcall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return;
	rawcall(SYS_write, fd, adj, strlen(adj));
	rawcall(SYS_close, fd);
}

static long apply_limits(const struct launch *l)
{
	long r = lower_limit(RLIMIT_CORE, 0);

	if (r == 0 && l->nofile)
		r = lower_limit(RLIMIT_NOFILE, l->nofile);
	if (r == 0 && l->nproc)
		r = lower_limit(RLIMIT_NPROC, l->nproc);
	if (r == 0)
		r = rawcall(SYS_setpriority, PRIO_PROCESS, 0, l->nice);
	if (r == 0 && l->oom_score_adj[0])
		raise_oom_score(l->oom_score_adj);
	return r;
}

/* What the agent has: nothing that a command starts can ever have it again. Where the agent has no CAP_SETPCAP, no_new_privs alone sees to that. */
static void drop_bounding_set(void)
{
	for (size_t i = 0; i < CAPS_KEPT; i++)
		rawcall(SYS_prctl, PR_CAPBSET_DROP, caps_kept[i], 0, 0, 0);
}

static long become_user(void)
{
	drop_bounding_set();
	rawcall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	long r = rawcall(SYS_setgroups, 0, 0);
	if (r == 0)
		r = rawcall(SYS_setresgid, LAUNCH_GID, LAUNCH_GID, LAUNCH_GID);
	if (r == 0)
		r = rawcall(SYS_setresuid, LAUNCH_UID, LAUNCH_UID, LAUNCH_UID);
	/* The memory is shared: whatever fs.suid_dumpable says now, the account must not get at it. */
	return r ? r : rawcall(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* mkdir -p and chdir, as the user: its rights decide, links are followed as its own shell would. */
static long make_dirs(const char *path)
{
	char part[MSG_PATH_MAX + 1];
	size_t n = strlen(path);

	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != 0)
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		long r = rawcall(SYS_mkdirat, AT_FDCWD, part, 0755);
		if (r < 0 && r != -EEXIST)
			return r;
	}
	return rawcall(SYS_chdir, path);
}

static long enter(const struct launch *l)
{
	long r = rawcall(SYS_chdir, l->cwd);

	return r == -ENOENT && l->make_cwd ? make_dirs(l->cwd) : r;
}

static const char *search_path(char *const *env)
{
	for (; *env; env++) {
		if (str_prefix(*env, "PATH="))
			return *env + 5;
	}
	return "";
}

/* As execvpe(), along the command's own PATH. A forbidden file is only told when none could be run. */
static long exec_along(const char *path, char *const *argv, char *const *env)
{
	char file[MSG_PATH_MAX + 1];
	size_t name = strlen(argv[0]);
	long told = -ENOENT;

	for (const char *end;; path = end + 1) {
		end = strchrnul(path, ':');
		size_t n = (size_t)(end - path);
		if (n + 1 + name < sizeof(file)) {
			memcpy(file, path, n);
			file[n] = '/';
			memcpy(file + n + (n ? 1 : 0), argv[0], name + 1);
			long r = rawcall(SYS_execve, file, argv, env);
			if (r == -EACCES)
				told = r;
			else if (r != -ENOENT && r != -ENOTDIR)
				return r;
		}
		if (!*end)
			return told;
	}
}

_Noreturn void leader_run(const struct launch *l)
{
	static const uint64_t no_signals;
	char *const *env = l->env;
	long r;

	rawcall(SYS_setsid, 0);
	if ((r = apply_limits(l)) < 0)
		fail(MSG_STAGE_LIMITS, r);
	if ((r = become_user()) < 0)
		fail(MSG_STAGE_USER, r);
	rawcall(SYS_umask, 022);
	if ((r = enter(l)) < 0)
		fail(MSG_STAGE_CWD, r);
	if (l->exports)
		env = exports_read(l->exports, env, l->env_own);
	rawcall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, 0, sizeof(no_signals));
	if (strchr(l->argv[0], '/'))
		r = rawcall(SYS_execve, l->argv[0], l->argv, env);
	else
		r = exec_along(search_path(env), l->argv, env);
	fail(MSG_STAGE_EXEC, r);
}
