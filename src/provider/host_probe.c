/* host_probe.c - can this machine run sandboxes on the host? A trial says more than a look at versions and settings. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "provider/bwrap.h"
#include "provider/host_keeper.h"
#include "provider/host_userns.h"

#define TRIAL_MS 5000
#define ANSWER_MAX 4096

/* In the child: a user namespace, then bubblewrap with what a sandbox asks of it. Exit 0: it works; 10: no user namespace; else bubblewrap failed. */
static _Noreturn void trial(int talk_fd, const char *bwrap)
{
	char *const argv[] = { (char[]){ "bwrap" }, (char[]){ "--unshare-pid" }, (char[]){ "--unshare-ipc" }, (char[]){ "--unshare-uts" }, (char[]){ "--as-pid-1" },
		(char[]){ "--die-with-parent" }, (char[]){ "--cap-drop" }, (char[]){ "ALL" }, (char[]){ "--ro-bind" }, (char[]){ "/" }, (char[]){ "/" },
		(char[]){ "--proc" }, (char[]){ "/proc" }, (char[]){ "--dev" }, (char[]){ "/dev" }, (char[]){ "--perms" }, (char[]){ "1777" }, (char[]){ "--size" },
		(char[]){ "65536" }, (char[]){ "--tmpfs" }, (char[]){ "/tmp" }, (char[]){ "--" }, (char[]){ "/usr/bin/true" }, NULL };
	char *const env[] = { NULL };
	char byte;

	if (unshare(CLONE_NEWUSER) < 0 || io_write_full(talk_fd, ".", 1) < 0 || io_read(talk_fd, &byte, 1) != 1 || host_userns_become_root() < 0)
		_exit(10);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (bwrap)
		execve(bwrap, argv, env);
	_exit(bwrap ? 127 : 0);
}

/* The trial's exit status; -1 when it could not even begin. */
static int try_it(const char *bwrap, err_t **err)
{
	int talk[2], status = 0;
	char byte;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) < 0 || (pid = fork()) < 0)
		return err_sys(err, errno, "trial");
	if (pid == 0) {
		close(talk[0]);
		trial(talk[1], bwrap);
	}
	close(talk[1]);
	struct pollfd p = { .fd = talk[0], .events = POLLIN };
	bool begun = poll(&p, 1, TRIAL_MS) == 1 && io_read(talk[0], &byte, 1) == 1;
	if (begun && (host_userns_map(pid, err) < 0 || io_write_full(talk[0], ".", 1) < 0))
		begun = false;
	if (!begun)
		(void)kill(pid, SIGKILL);
	cleanup_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	p = (struct pollfd){ .fd = fd, .events = POLLIN };
	if (fd >= 0 && poll(&p, 1, TRIAL_MS) == 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	close(talk[0]);
	return !begun ? 10 : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void fact(struct buf *b, const char *name, bool ok, const char *text)
{
	buf_addf(b, "fact %s %d %s\n", name, ok, ok ? "" : text);
}

static bool have(const char *program)
{
	static const char *const places[] = { "/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin" };
	char path[64];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (str_fmt(path, sizeof(path), "%s/%s", places[i], program) == 0 && access(path, X_OK) == 0)
			return true;
	return false;
}

static void network_fact(struct buf *b, const struct config *c)
{
	bool needed = str_eq(config_str(c, "host.network"), "internet");
	cleanup_close int tun = needed ? open("/dev/net/tun", O_RDWR | O_CLOEXEC) : -1;

	fact(b, "network", !needed || (have("slirp4netns") && have("nft") && tun >= 0 && access(config_str(c, "container.netguard"), X_OK) == 0),
		"[host] network = internet needs the packages slirp4netns and nftables, paddock-netguard, and /dev/net/tun open to the account: run contrib/up");
}

int host_keeper_probe(const struct config *c, int fd, err_t **err)
{
	cleanup_buf struct buf b = BUF_INIT(ANSWER_MAX);
	const char *bwrap = bwrap_find(config_str(c, "host.bwrap"));
	cleanup_err err_t *ids = NULL;
	bool mapped = host_userns_possible(&ids);
	int status = mapped ? try_it(bwrap, err) : 10;

	if (status < 0)
		return -1;
	fact(&b, "subordinate_ids", mapped, err_message(ids));
	fact(&b, "user_namespaces", status != 10, "a user namespace cannot be made: package uidmap, sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone");
	fact(&b, "bubblewrap", bwrap && status == 0, bwrap ? "bubblewrap is there and does not work here: are /proc and mounts open to user namespaces?" :
		"not installed: sandboxes see the host's files; install the package bubblewrap");
	network_fact(&b, c);
	buf_adds(&b, "ok");
	if (io_write_full(fd, buf_str(&b), b.len) < 0)
		return err_sys(err, errno, "answer");
	return 0;
}
