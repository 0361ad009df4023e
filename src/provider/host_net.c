/* host_net.c - see host_net.h. */
#include "provider/host_net.h"

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "provider/host_userns.h"

#define READY_MS 10000
#define GUARD_MS 10000
#define READY_FD 3
#define EXIT_FD 4

int host_net_cut(void)
{
	struct ifreq r = { .ifr_name = "lo" };
	cleanup_close int fd = -1;

	if (unshare(CLONE_NEWNET) < 0)
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &r) < 0)
		return -1;
	r.ifr_flags |= IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &r);
}

static _Noreturn void run_slirp(pid_t child, int ready, int hold)
{
	char pid[16];
	char *const argv[] = { (char[]){ "slirp4netns" }, (char[]){ "--disable-host-loopback" }, (char[]){ "--mtu=65520" }, (char[]){ "--enable-sandbox" },
		(char[]){ "--enable-seccomp" }, (char[]){ "-c" }, (char[]){ "-r" }, (char[]){ "3" }, (char[]){ "-e" }, (char[]){ "4" }, pid, (char[]){ "tap0" }, NULL };
	char *const env[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" }, NULL };
	int a = fcntl(ready, F_DUPFD_CLOEXEC, EXIT_FD + 1), b = fcntl(hold, F_DUPFD_CLOEXEC, EXIT_FD + 1);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	str_fmt(pid, sizeof(pid), "%d", (int)child);
	if (a < 0 || b < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || dup2(a, READY_FD) < 0 || dup2(b, EXIT_FD) < 0)
		_exit(126);
	close_range(EXIT_FD + 1, ~0U, 0);
	execvpe(argv[0], argv, env);
	_exit(127);
}

static int start_slirp(struct host_net *n, pid_t child, err_t **err)
{
	int ready[2] = { -1, -1 }, hold[2] = { -1, -1 };
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(hold, O_CLOEXEC) < 0)
		return err_sys(err, errno, "slirp4netns");
	cleanup_close int told = ready[0];
	n->hold_fd = hold[1];
	n->slirp = fork();
	if (n->slirp == 0)
		run_slirp(child, ready[1], hold[0]);
	close(ready[1]);
	close(hold[0]);
	if (n->slirp < 0)
		return err_sys(err, errno, "slirp4netns");
	struct pollfd p = { .fd = told, .events = POLLIN };
	if (poll(&p, 1, READY_MS) == 1 && io_read(told, &byte, 1) == 1)
		return 0;
	return err_set(err, ERR_UNAVAILABLE, "network", "slirp4netns did not come up (is it installed, and may /dev/net/tun be opened?)");
}

int host_net_open(struct host_net *n, pid_t child, const char *netguard, err_t **err)
{
	char pid[16];
	char *const guard[] = { (char *)(uintptr_t)netguard, pid, NULL };

	str_fmt(pid, sizeof(pid), "%d", (int)child);
	/* the rules first: not for a moment is there an open way out */
	if (host_run_program(guard, GUARD_MS, err) == 0 && start_slirp(n, child, err) == 0)
		return 0;
	host_net_close(n);
	return -1;
}

void host_net_close(struct host_net *n)
{
	if (n->hold_fd >= 0)
		close(steal_fd(&n->hold_fd));
	if (n->slirp <= 0)
		return;
	(void)kill(n->slirp, SIGKILL);
	while (waitpid(n->slirp, NULL, 0) < 0 && errno == EINTR)
		;
	n->slirp = 0;
}
