/* host_launcher_main.c - paddock-launcher --config FILE [-- COMMAND...]: starts and removes the sandboxes of the provider `host` for the executor, which
 * has given up the rights that it takes (setuid helpers, the account's control groups).
 *
 * Each request is served by a process of its own (host_keep.c); a sandbox outlives the launcher. When the configuration has another provider, COMMAND is
 * executed instead: a supervisor starts the right one of launcher and engine without knowing which. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "core/config.h"
#include "core/unixsock.h"
#include "provider/host_keep.h"

#define BACKLOG 64

struct launcher {
	const struct config *config;
	sigset_t signals;        /* the mask before ours, for children */
	int sig_fd, listen_fd;
};

/* The account itself, or root, who may be everybody. */
static bool is_us(int fd)
{
	struct unix_peer peer;

	return unix_peer(fd, &peer, NULL) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static void serve(struct launcher *l)
{
	cleanup_close int fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	pid_t pid;

	if (fd < 0)
		return;
	if (!is_us(fd)) {
		log_kv(LOG_WARN, "peer_refused", NULL);
		return;
	}
	pid = fork();
	if (pid == 0) {
		close(l->listen_fd);
		close(l->sig_fd);
		(void)setsid();
		(void)sigprocmask(SIG_SETMASK, &l->signals, NULL);
		_exit(host_keep(l->config, fd));
	}
	if (pid < 0)
		log_kv(LOG_ERROR, "fork_failed", "err", strerror(errno), NULL);
}

/* True when we are to stop. */
static bool take_signals(struct launcher *l)
{
	struct signalfd_siginfo si;
	bool stop = false;

	while (io_read(l->sig_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		stop = stop || si.ssi_signo != SIGCHLD;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return stop;
}

static int run(struct launcher *l)
{
	struct pollfd p[2] = { { .fd = l->sig_fd, .events = POLLIN }, { .fd = l->listen_fd, .events = POLLIN } };

	log_kv(LOG_INFO, "started", NULL);
	for (;;) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return 1;
		if (p[0].revents && take_signals(l))
			break;
		if (p[1].revents)
			serve(l);
	}
	log_kv(LOG_INFO, "stopping", NULL);
	return 0;
}

static int prepare(struct launcher *l, err_t **err)
{
	struct rlimit none = { 0, 0 };
	sigset_t ours;

	umask(077);
	(void)setrlimit(RLIMIT_CORE, &none);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&ours);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &ours, NULL) < 0 || (l->sig_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return err_sys(err, errno, "signals");
	sigemptyset(&l->signals);
	l->listen_fd = unix_listen(config_str(l->config, "host.launcher_socket"), 0600, BACKLOG, err);
	return l->listen_fd < 0 ? -1 : 0;
}

/* Ends our own arguments at "--" and returns what follows it, or NULL. */
static char **other_command(int *argc, char **argv)
{
	for (int i = 1; i < *argc; i++) {
		if (str_eq(argv[i], "--")) {
			*argc = i;
			argv[i] = NULL;
			return argv + i + 1;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct launcher l = { .sig_fd = -1, .listen_fd = -1 };
	struct config *c = NULL;
	cleanup_err err_t *err = NULL;
	char **other;
	enum log_level level = LOG_INFO;
	int rc;

	io_std_fds();
	other = other_command(&argc, argv);
	rc = config_main(argc, argv, "paddock-launcher", "starts sandboxes on the host itself for the executor", &c);
	if (rc != 0)
		return rc < 0 ? 2 : 0;
	if (!str_eq(config_backend(c), "host")) {
		if (other && *other)
			execvp(*other, other);
		fprintf(stderr, "paddock-launcher: the provider is %s, not host\n", config_backend(c));
		return other ? 127 : 2;
	}
	(void)log_level_parse(config_str(c, "service.log_level"), &level);
	log_init("paddock-launcher", level);
	l.config = c;
	if (prepare(&l, &err) < 0) {
		log_kv(LOG_ERROR, "start_failed", "err", err_message(err), NULL);
		return 1;
	}
	rc = run(&l);
	(void)unlink(config_str(c, "host.launcher_socket"));
	config_free(c);
	return rc;
}
