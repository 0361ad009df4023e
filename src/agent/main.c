/* paddock-agent - PID 1 of a container: starts, supervises and ends commands for the executor (docs/agent-protocol.md). */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/caps.h"
#include "agent/conn.h"
#include "agent/execs.h"
#include "agent/home.h"
#include "agent/leader.h"
#include "agent/poller.h"
#include "agent/secret.h"
#include "base/clock.h"
#include "base/io.h"

#define DEFAULT_SOCKET "/paddock/run/s"

extern char **environ;

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		execs_child_ended(pid, WIFSIGNALED(status));
}

/* PID 1 takes every process of the container with it. */
static void signalled(struct watch *w, uint32_t events)
{
	struct signalfd_siginfo si;

	(void)events;
	while (read(w->fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo != SIGCHLD)
			_exit(0);
	}
	reap();
}

/* Commands inherit neither a mask nor an ignored signal: all are reset here, once, and blocked; the leader unblocks. */
static int take_signals(void)
{
	static struct watch signals = WATCH_NONE;
	sigset_t all, wanted;

	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGINT);
	int fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -1 : poller_add(&signals, fd, EPOLLIN, signalled);
}

/* 0 is what commands without standard input get. Nothing else is inherited; 3 is kept taken for the supervisors' sake. */
static int take_fds(void)
{
	close_range(LEADER_REPORT_FD, ~0U, 0);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0)
		return -1;
	if (null != 0)
		close(null);
	if (io_std_fds() < 0)
		return -1;
	int hold = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return hold == LEADER_REPORT_FD ? 0 : -1;
}

static _Noreturn void die(const char *what)
{
	static const char name[] = "paddock-agent: ";

	/* Nothing can be done about an error of the last words. */
	if (io_write_full(2, name, sizeof(name) - 1) == 0 && io_write_full(2, what, strlen(what)) == 0)
		io_write_full(2, "\n", 1);
	_exit(1);
}

static void set_up(int argc, char **argv)
{
	const char *path = argc == 2 ? argv[1] : DEFAULT_SOCKET;

	prctl(PR_SET_DUMPABLE, 0);
	if (getpid() != 1)
		die("must be process 1 of a container (it signals every other process)");
	if (argc > 2 || conn_init(path) < 0)
		die("usage: paddock-agent [SOCKET]");
	if (secret_take(environ) < 0)
		die("PADDOCK_AGENT_TOKEN is missing or too long");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	home_give();
	caps_reduce();
	/* Fixed thresholds, so that a large frame's memory goes back to the system. */
	mallopt(M_MMAP_THRESHOLD, 128 * 1024);
	mallopt(M_TRIM_THRESHOLD, 128 * 1024);
	if (take_fds() < 0 || poller_open() < 0 || take_signals() < 0)
		die("cannot set up its descriptors");
	execs_init();
}

static int64_t next_us(void)
{
	int64_t a = execs_next_us(), b = conn_next_us();

	return a < b ? a : b;
}

int main(int argc, char **argv)
{
	set_up(argc, argv);
	for (;;) {
		conn_run(clock_boot_us());
		execs_run(clock_boot_us());
		poller_turn(next_us());
	}
}
