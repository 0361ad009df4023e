/* host_userns.c - see host_userns.h. */
#include "provider/host_userns.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"

#define FILE_MAX (1u << 20)
#define NUMBER 16
#define MAP_MS 5000
#define IDS_MIN (HOST_USER_ID + 1)

struct range {
	int64_t first, n;
};

/* The account's first range in a file like /etc/subuid ("name:first:count", or with the number for the name). */
static int subordinate(const char *file, struct range *ret, err_t **err)
{
	cleanup_free char *text = NULL;
	const struct passwd *pw = getpwuid(geteuid());
	char number[NUMBER];

	str_fmt(number, sizeof(number), "%u", (unsigned)geteuid());
	if (!pw || io_read_file(AT_FDCWD, file, FILE_MAX, &text, NULL, err) < 0)
		return pw ? -1 : err_set(err, ERR_UNAVAILABLE, "no_account", "the account %s has no name", number);
	for (char *line = text, *next; line; line = next) {
		char *first = strchr(line, ':'), *n = first ? strchr(first + 1, ':') : NULL;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!n || (next && n > next))
			continue;
		*first++ = *n++ = '\0';
		if ((str_eq(line, pw->pw_name) || str_eq(line, number)) && num_i64(first, 1, UINT32_MAX, &ret->first) == 0 &&
		    num_i64(n, IDS_MIN, UINT32_MAX, &ret->n) == 0)
			return 0;
	}
	return err_set(err, ERR_UNAVAILABLE, "no_subordinate_ids", "%s has no range of at least %d for %s", file, IDS_MIN, pw->pw_name);
}

bool host_userns_possible(err_t **err)
{
	struct range r;

	return subordinate("/etc/subuid", &r, err) == 0 && subordinate("/etc/subgid", &r, err) == 0;
}

int host_run_program(char *const argv[], int ms, err_t **err)
{
	char *const env[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" }, NULL };
	cleanup_close int fd = -1;
	struct pollfd ended = { .events = POLLIN };
	pid_t pid;
	int status = 0, rc = posix_spawnp(&pid, argv[0], NULL, NULL, argv, env);

	if (rc != 0)
		return err_sys(err, rc, "%s", argv[0]);
	ended.fd = fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0 || poll(&ended, 1, ms) <= 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_set(err, ERR_UNAVAILABLE, NULL, "%s ended with %s %d", argv[0], WIFEXITED(status) ? "status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* 0..999 and 1001.. are subordinate ids, 1000 is us. */
static int map(const char *program, pid_t child, const struct range *r, unsigned us, err_t **err)
{
	char n[9][NUMBER];
	char *argv[13] = { (char *)(uintptr_t)program };
	const int64_t values[] = { child, 0, r->first, HOST_USER_ID, HOST_USER_ID, us, 1, HOST_USER_ID + 1, r->first + HOST_USER_ID };
	char last[NUMBER];

	for (size_t i = 0; i < 9; i++) {
		str_fmt(n[i], NUMBER, "%lld", (long long)values[i]);
		argv[i + 1] = n[i];
	}
	str_fmt(last, sizeof(last), "%lld", (long long)(r->n - HOST_USER_ID));
	argv[10] = r->n > HOST_USER_ID ? last : NULL;
	argv[11] = NULL;
	return host_run_program(argv, MAP_MS, err);
}

int host_userns_map(pid_t child, err_t **err)
{
	struct range uids, gids;

	if (subordinate("/etc/subuid", &uids, err) < 0 || subordinate("/etc/subgid", &gids, err) < 0)
		return -1;
	if (map("newuidmap", child, &uids, geteuid(), err) < 0)
		return -1;
	return map("newgidmap", child, &gids, getegid(), err);
}

int host_userns_become_root(void)
{
	cleanup_close int fd = -1;

	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return -1;
	/* our account, which owns the namespace, sees to its network by way of /proc */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return -1;
	fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, "0", 1) == 1 ? 0 : -1;
}
