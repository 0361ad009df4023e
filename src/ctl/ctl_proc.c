#include "ctl/ctl_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

extern char **environ;

static void collect(int fd, struct buf *out)
{
	char piece[4096];
	ssize_t n;

	while ((n = io_read(fd, piece, sizeof piece)) > 0)
		buf_add(out, piece, (size_t)n);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int spawn(const char *const *argv, int out_fd, pid_t *ret)
{
	posix_spawn_file_actions_t fa;
	int rc = posix_spawn_file_actions_init(&fa);

	if (rc)
		return rc;
	if (out_fd >= 0) {
		posix_spawn_file_actions_adddup2(&fa, out_fd, STDOUT_FILENO);
		posix_spawn_file_actions_addopen(&fa, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
		posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	}
	rc = posix_spawnp(ret, argv[0], &fa, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	return rc;
}

int ctl_proc_run(const char *const *argv, struct buf *out, err_t **err)
{
	int p[2] = { -1, -1 };
	pid_t pid;
	int rc;

	if (out && pipe2(p, O_CLOEXEC) < 0)
		return err_sys(err, errno, "pipe");
	rc = spawn(argv, p[1], &pid);
	if (p[1] >= 0)
		close(p[1]);
	if (rc == 0 && out)
		collect(p[0], out);
	if (p[0] >= 0)
		close(p[0]);
	return rc == 0 ? wait_for(pid) : err_sys(err, rc, "%s", argv[0]);
}

int ctl_proc_exec(const char *const *argv, err_t **err)
{
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	return err_sys(err, errno, "%s", argv[0]);
}

int ctl_proc_become(const char *account, err_t **err)
{
	const struct passwd *pw = getpwnam(account);

	if (!pw)
		return err_set(err, ERR_NOT_FOUND, NULL, "there is no account %s", account);
	if (geteuid() == pw->pw_uid)
		return 0;
	if (geteuid() != 0)
		return err_set(err, ERR_DENIED, NULL, "run this as root or as %s", account);
	if (initgroups(account, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 || setuid(pw->pw_uid) < 0)
		return err_sys(err, errno, "become %s", account);
	return 0;
}
