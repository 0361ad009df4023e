/* engine_main.c - paddock-engine --socket PATH: keeps `podman system service` alive for the account that it runs as.
 *
 * It is the child subreaper under which conmon ends up, so that machines whose init does not reap for others stay clean. When podman dies it is
 * started again with back-off; SIGTERM goes to podman only: containers live on. Everything else that podman needs comes from
 * the environment (HOME, XDG_RUNTIME_DIR, CONTAINERS_CONF, CONTAINERS_STORAGE_CONF). */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"

#define BACKOFF_MIN_MS 200
#define BACKOFF_MAX_MS 10000
#define HEALTHY_MS 10000        /* a podman that lived this long resets the back-off */
#define STOP_MS 8000            /* how long podman may take to end on SIGTERM */
#define STRAY_MS 5000           /* how long the rest of a killed podman may take to end */

extern char **environ;

struct keeper {
	const char *socket;
	char uri[256];
	sigset_t signals;           /* the mask before ours, for the child */
	int sigfd;
	pid_t podman;               /* 0: not running */
	bool stopping;
	int64_t started_ms, backoff_ms, next_ms;   /* CLOCK_BOOTTIME */
};

static void spawn_podman(struct keeper *k)
{
	char *const argv[] = { (char[]){ "podman" }, (char[]){ "--log-level=warn" }, (char[]){ "system" }, (char[]){ "service" },
		(char[]){ "--time" }, (char[]){ "0" }, k->uri, NULL };
	posix_spawnattr_t attr;
	sigset_t def;
	int rc;

	if (unlink(k->socket) < 0 && errno != ENOENT)
		log_kv(LOG_WARN, "socket_not_removed", "path", k->socket, "err", strerror(errno), NULL);
	sigemptyset(&def);
	sigaddset(&def, SIGPIPE);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &k->signals);
	posix_spawnattr_setsigdefault(&attr, &def);
	rc = posix_spawnp(&k->podman, "podman", NULL, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	k->started_ms = clock_boot_ms();
	if (rc != 0) {
		k->podman = 0;
		k->next_ms = k->started_ms + k->backoff_ms;
		log_kv(LOG_ERROR, "engine_not_started", "err", strerror(rc), NULL);
		return;
	}
	log_kv(LOG_INFO, "engine_started", "socket", k->socket, NULL);
}

static bool is_child(const char *pid)
{
	cleanup_free char *stat = NULL;
	char path[64];
	int parent = 0;

	if (str_fmt(path, sizeof(path), "/proc/%s/stat", pid) < 0 || io_read_file(AT_FDCWD, path, 4096, &stat, NULL, NULL) < 0)
		return false;
	char *rest = strrchr(stat, ')');
	return rest && sscanf(rest + 1, " %*c %d", &parent) == 1 && parent == getpid();
}

/* Is it a podman service for our socket? */
static bool serves(const struct keeper *k, const char *pid)
{
	cleanup_free char *args = NULL;
	char path[64];
	size_t n = 0;
	bool ours = false, service = false;

	if (str_fmt(path, sizeof(path), "/proc/%s/cmdline", pid) < 0 || io_read_file(AT_FDCWD, path, 65536, &args, &n, NULL) < 0 || n == 0)
		return false;
	for (size_t at = 0; at < n; at += strlen(args + at) + 1) {
		ours = ours || str_eq(args + at, k->uri);
		service = service || str_eq(args + at, "service");
	}
	return ours && service && str_suffix(args, "podman");
}

/* Signals the services for our socket that are children of ours, or those that are not; how many there are. */
static size_t signal_services(const struct keeper *k, bool children, int signo)
{
	cleanup_closedir DIR *d = opendir("/proc");
	struct dirent *e;
	int64_t pid = 0;
	size_t found = 0;

	while (d && (e = readdir(d))) {
		if (!isdigit((unsigned char)e->d_name[0]) || num_i64(e->d_name, 1, INT_MAX, &pid) < 0)
			continue;
		cleanup_close int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);   /* first: what is looked at is what is signalled */
		if (fd < 0 || is_child(e->d_name) != children || !serves(k, e->d_name))
			continue;
		if (syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) == 0)
			found++;
	}
	return found;
}

/* What a podman that ended has left: the first one without a pause process starts itself once more, and the second falls to us. Go unlinks its
 * socket when it ends, so it must be gone before the next one listens. */
static void end_strays(const struct keeper *k)
{
	for (int64_t until = clock_boot_ms() + STRAY_MS; signal_services(k, true, clock_boot_ms() < until ? SIGTERM : SIGKILL) > 0;) {
		poll(NULL, 0, 20);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

/* What a keeper that was killed has left serves nobody. Killed, it does not unlink the socket. */
static void end_orphans(const struct keeper *k)
{
	for (int i = 0; i < 100 && signal_services(k, false, SIGKILL) > 0; i++)
		poll(NULL, 0, 20);
}

static void on_podman_end(struct keeper *k, int status)
{
	int64_t now = clock_boot_ms();
	char how[32];

	str_fmt(how, sizeof(how), WIFSIGNALED(status) ? "signal %d" : "exit %d", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	k->podman = 0;
	if (!k->stopping)
		log_kv(LOG_WARN, "engine_ended", "how", how, NULL);
	end_strays(k);
	if (k->stopping)
		return;
	if (now - k->started_ms >= HEALTHY_MS)
		k->backoff_ms = BACKOFF_MIN_MS;
	k->next_ms = now + k->backoff_ms;
	k->backoff_ms = k->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : k->backoff_ms * 2;
}

static void reap(struct keeper *k)
{
	int status;

	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		if (pid == k->podman)
			on_podman_end(k, status);
}

static void stop(struct keeper *k, int signo)
{
	if (!k->stopping)
		log_kv(LOG_INFO, "stopping", NULL);
	k->stopping = true;
	k->next_ms = clock_boot_ms() + STOP_MS;
	if (k->podman)
		kill(k->podman, signo);
}

static void on_signals(struct keeper *k)
{
	struct signalfd_siginfo si;

	while (io_read(k->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		if (si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT)
			stop(k, SIGTERM);
}

static int wait_ms(const struct keeper *k)
{
	int64_t left = k->next_ms - clock_boot_ms();

	if (k->podman && !k->stopping)
		return -1;
	return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static int keep(struct keeper *k)
{
	for (;;) {
		struct pollfd p = { .fd = k->sigfd, .events = POLLIN };

		if (k->stopping && !k->podman)
			return 0;
		if (!k->podman && clock_boot_ms() >= k->next_ms)
			spawn_podman(k);
		if (k->stopping && clock_boot_ms() >= k->next_ms)
			kill(k->podman, SIGKILL);
		poll(&p, 1, wait_ms(k));
		on_signals(k);
		reap(k);
	}
}

static int prepare(struct keeper *k)
{
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGHUP);
	sigaddset(&ours, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &ours, &k->signals) < 0)
		return -1;
	sigemptyset(&k->signals);
	k->sigfd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
	k->backoff_ms = BACKOFF_MIN_MS;
	return k->sigfd < 0 ? -1 : prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

int main(int argc, char **argv)
{
	struct keeper k = { .sigfd = -1 };

	io_std_fds();
	log_init("paddock-engine", LOG_INFO);
	if (argc != 3 || !str_eq(argv[1], "--socket") || argv[2][0] != '/' || str_fmt(k.uri, sizeof(k.uri), "unix://%s", argv[2]) < 0) {
		dprintf(2, "usage: paddock-engine --socket /PATH\n");
		return 2;
	}
	k.socket = argv[2];
	if (prepare(&k) < 0) {
		log_kv(LOG_ERROR, "engine_not_prepared", "err", strerror(errno), NULL);
		return 1;
	}
	end_orphans(&k);
	return keep(&k);
}
