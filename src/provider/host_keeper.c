/* host_keeper.c - see host_keeper.h. The child goes a step when it is told to, so that each is done with what the one before has made. */
#include "provider/host_keeper.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "provider/bwrap.h"
#include "provider/host_group.h"
#include "provider/host_inside.h"
#include "provider/host_userns.h"

#define STEP_MS 10000
#define OLD_MS 5000
#define CGROUP_ROOT "/sys/fs/cgroup"
#define INFO_MAX 1024
#define WORDS_MAX 400
#define RESOLVER_MAX (64u << 10)

static bool is_shared(const struct config *c)
{
	return str_eq(config_str(c, "host.network"), "shared");
}

/* --- in the child --- */

static void step(int talk_fd, const char *what, int rc)
{
	char byte;

	if (rc < 0)
		host_inside_fail(what);
	if (io_write_full(talk_fd, ".", 1) < 0 || io_read(talk_fd, &byte, 1) != 1)
		_exit(126);   /* the keeper has given up */
}

static void only_these(int a, int b, int c)
{
	int last = a > b ? a : b;

	last = last > c ? last : c;
	for (int fd = 3; fd < last; fd++)
		if (fd != a && fd != b && fd != c)
			close(fd);
	close_range((unsigned)last + 1, ~0U, 0);
}

/* Whoever is in the host's own network asks its name servers, as they are at the start. The file may be a link to where the sandbox does not reach. */
static char *resolver(const struct config *c)
{
	char *text = NULL;

	if (is_shared(c))
		return io_read_file(AT_FDCWD, "/etc/resolv.conf", RESOLVER_MAX, &text, NULL, NULL) < 0 ? str_dup("") : text;
	return str_dup(str_eq(config_str(c, "host.network"), "internet") ? HOST_NET_RESOLVER : "");
}

static _Noreturn void enter(const struct host_keeper *k, pid_t keeper, int talk_fd, int info_fd, int go_fd)
{
	const struct config *c = k->config;
	char dir[PATH_MAX], workspace[PATH_MAX], control[PATH_MAX], launcher[PATH_MAX];
	cleanup_free char *names = resolver(c);
	const char *const hidden[] = { config_str(c, "paths.workspaces"), config_str(c, "host.sandboxes"), config_str(c, "paths.state"),
		config_str(c, "container.agent_dir"), control, launcher, NULL };
	struct host_inside in = { .bwrap = bwrap_find(config_str(c, "host.bwrap")), .agent = config_str(c, "container.agent"),
		.agent_dir = config_str(c, "container.agent_dir"), .instance = k->id, .dir = dir, .workspace = workspace, .token = k->token, .hidden = hidden,
		.internet = str_eq(config_str(c, "host.network"), "internet"), .resolver = names,
		.tmp_bytes = config_int(c, "host.tmp_bytes"), .shm_bytes = config_int(c, "host.shm_bytes"), .nofile = config_int(c, "host.nofile"),
		.info_fd = info_fd, .go_fd = go_fd };

	if (!names || str_fmt(dir, sizeof(dir), "%s/%s", config_str(c, "host.sandboxes"), k->id) < 0 ||
	    str_fmt(workspace, sizeof(workspace), "%s/%s/files", config_str(c, "paths.workspaces"), k->workspace) < 0 ||
	    str_copy(control, sizeof(control), config_str(c, "executor.socket")) < 0 || str_copy(launcher, sizeof(launcher), config_str(c, "host.launcher_socket")) < 0)
		host_inside_fail("set-up");
	*strrchr(control, '/') = '\0';
	*strrchr(launcher, '/') = '\0';   /* who is `user` in a sandbox is our account to the launcher */
	(void)setsid();
	step(talk_fd, "user namespace", unshare(CLONE_NEWUSER));
	step(talk_fd, "root of the user namespace", host_userns_become_root());
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != keeper)
		_exit(126);
	step(talk_fd, "network namespace", is_shared(c) ? 0 : host_net_cut());
	close(talk_fd);
	host_inside_enter(&in);
}

/* --- in the keeper --- */

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int rc;

	do
		rc = poll(&p, 1, ms);
	while (rc < 0 && errno == EINTR);
	return rc == 1;
}

/* What the child, or bubblewrap, has said: on one line. */
static int child_failed(struct host_keeper *k, err_t **err)
{
	char text[WORDS_MAX + 1];
	ssize_t n = io_pread(k->words_fd, text, WORDS_MAX, 0);

	text[n < 0 ? 0 : n] = '\0';
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = c[1] ? ';' : '\0';
	return err_set(err, ERR_UNAVAILABLE, "sandbox_not_started", "the sandbox did not start: %s", *text ? text : "no reason was given");
}

static int await_step(struct host_keeper *k, err_t **err)
{
	char byte;

	if (!readable(k->talk_fd, STEP_MS) || io_read(k->talk_fd, &byte, 1) != 1)
		return child_failed(k, err);
	return 0;
}

static int go_on(struct host_keeper *k, err_t **err)
{
	return io_write_full(k->talk_fd, ".", 1) < 0 ? child_failed(k, err) : 0;
}

static int spawn(struct host_keeper *k, err_t **err)
{
	int talk[2], info[2], go[2];
	pid_t keeper = getpid();

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) < 0 || pipe2(info, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0 ||
	    (k->words_fd = memfd_create("words", MFD_CLOEXEC)) < 0)
		return err_sys(err, errno, "pipes");
	k->child = fork();
	if (k->child == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(k->words_fd, 2) < 0 || fcntl(info[1], F_SETFD, 0) < 0 || fcntl(go[0], F_SETFD, 0) < 0)
			_exit(126);
		only_these(talk[1], info[1], go[0]);   /* closing the keeper's ends, too: theirs is how we learn of its end */
		enter(k, keeper, talk[1], info[1], go[0]);
	}
	close(talk[1]);
	close(info[1]);
	close(go[0]);
	k->talk_fd = talk[0];
	k->info_fd = info[0];
	k->go_fd = go[1];
	return k->child < 0 ? err_sys(err, errno, "fork") : 0;
}

static int join_group(struct host_keeper *k)
{
	const struct config *c = k->config;
	struct cgroup_limits l = { .memory_bytes = config_int(c, "host.memory_bytes"), .pids = config_int(c, "host.pids"), .cpus_milli = config_int(c, "host.cpus_milli") };

	host_group_join(CGROUP_ROOT, config_str(c, "container.cgroup_parent"), k->id, k->child, &l);
	return 0;
}

static int open_network(struct host_keeper *k, err_t **err)
{
	if (!str_eq(config_str(k->config, "host.network"), "internet"))
		return 0;
	return host_net_open(&k->net, k->child, config_str(k->config, "container.netguard"), err);
}

/* Reads what is told about process 1, to its end: bubblewrap writes it in several pieces, and would die of a closed pipe. */
static int agent_pid(struct host_keeper *k, pid_t *ret, err_t **err)
{
	char text[INFO_MAX];
	size_t len = 0;
	ssize_t n;
	int pid = 0;

	do {
		if (!readable(k->info_fd, STEP_MS) || (n = io_read(k->info_fd, text + len, sizeof(text) - 1 - len)) <= 0)
			return child_failed(k, err);
		len += (size_t)n;
		text[len] = '\0';
		const char *at = strstr(text, "\"child-pid\":");
		if (at && strchr(at, '}') && sscanf(at, "\"child-pid\": %d", &pid) == 1 && pid > 1) {
			*ret = pid;
			return 0;
		}
	} while (len < sizeof(text) - 1);
	return child_failed(k, err);
}

static int record(struct host_keeper *k, pid_t agent, err_t **err)
{
	struct host_run r = { .keeper = { 0 } };

	if (host_proc_find(getpid(), &r.keeper) < 0 || host_proc_find(agent, &r.agent) < 0 || str_copy(r.token_hash, sizeof(r.token_hash), k->token_hash) < 0)
		return child_failed(k, err);
	return host_run_write(k->dir_fd, &r, err);
}

static int bring_up(struct host_keeper *k, err_t **err)
{
	pid_t agent;

	if (spawn(k, err) < 0 || await_step(k, err) < 0 || join_group(k) < 0)
		return -1;
	FAULT_POINT(host_keeper_spawned);
	if (host_userns_map(k->child, err) < 0 || go_on(k, err) < 0 || await_step(k, err) < 0 || go_on(k, err) < 0 || await_step(k, err) < 0)
		return -1;
	FAULT_POINT(host_keeper_mapped);
	if (open_network(k, err) < 0 || go_on(k, err) < 0)
		return -1;
	FAULT_POINT(host_keeper_network);
	if (agent_pid(k, &agent, err) < 0 || record(k, agent, err) < 0)
		return -1;
	FAULT_POINT(host_keeper_recorded);
	return io_write_full(k->go_fd, ".", 1) < 0 ? child_failed(k, err) : 0;
}

/* A keeper before us may have been killed; what it kept dies with it, a moment later. */
static int end_previous(struct host_keeper *k, err_t **err)
{
	struct host_run r;

	if (host_run_read(k->dir_fd, &r, NULL) < 0)
		return 0;
	cleanup_close int agent = host_proc_open(&r.agent);
	if (agent < 0)
		return 0;
	(void)syscall(SYS_pidfd_send_signal, agent, SIGKILL, NULL, 0);
	return readable(agent, OLD_MS) ? 0 : err_set(err, ERR_BUSY, "sandbox_runs", "the sandbox's first process does not end");
}

void host_keeper_leave_group(const struct config *c, const char *id)
{
	host_group_remove(CGROUP_ROOT, config_str(c, "container.cgroup_parent"), id);
}

static void end_child(struct host_keeper *k)
{
	if (k->child > 0) {
		(void)kill(k->child, SIGKILL);
		while (waitpid(k->child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	host_net_close(&k->net);
	host_keeper_leave_group(k->config, k->id);
	(void)unlinkat(k->dir_fd, "run", 0);
}

int host_keeper_start(struct host_keeper *k, int root_fd, err_t **err)
{
	k->talk_fd = k->info_fd = k->go_fd = k->words_fd = k->net.hold_fd = -1;
	k->dir_fd = host_layout_open(root_fd, k->id, err);
	if (k->dir_fd < 0)
		return -1;
	k->lock_fd = host_layout_lock(k->dir_fd, err);
	if (k->lock_fd < 0)
		return -1;
	FAULT_POINT(host_keeper_locked);
	if (end_previous(k, err) < 0)
		return -1;
	(void)unlinkat(k->dir_fd, "run", 0);
	if (bring_up(k, err) == 0)
		return 0;
	end_child(k);
	return -1;
}

void host_keeper_stay(struct host_keeper *k)
{
	close(k->talk_fd);
	close(k->info_fd);
	close(k->go_fd);
	while (waitpid(k->child, NULL, 0) < 0 && errno == EINTR)
		;
	k->child = 0;
	end_child(k);
}
