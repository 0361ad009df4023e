/* host_plain.c - a sandbox without bubblewrap: namespaces of its own, so that the agent is process 1 and its kills are exact, a home, and temporary
 * files; the rest of the file system is the host's, less the directories of ours that are covered. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "provider/host_inside.h"
#include "provider/host_net.h"

#define KEPT (1u << CAP_CHOWN | 1u << CAP_KILL | 1u << CAP_SETGID | 1u << CAP_SETUID | 1u << CAP_SETPCAP)

static void must(int rc, const char *what)
{
	if (rc < 0)
		host_inside_fail(what);
}

static void tmpfs(const char *at, const char *options)
{
	must(mount("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV, options), at);
}

static void bind(const char *dir, const char *name, const char *to)
{
	char from[PATH_MAX];

	must(str_fmt(from, sizeof(from), "%s/%s", dir, name), "path");
	must(mount(from, to, NULL, MS_BIND | MS_REC, NULL), to);
	must(mount("none", to, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV, NULL), to);
}

static void sized_tmpfs(const char *at, int64_t bytes)
{
	char options[64];

	str_fmt(options, sizeof(options), "mode=1777,size=%lld", (long long)bytes);
	tmpfs(at, options);
}

/* `user` is our account: what that owns anywhere could be changed, and so get out of the sandbox. What is mounted after this is not concerned. */
static void host_read_only(void)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID };

	must(mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)), "read-only");
}

/* The host's own is out of reach. */
static void name_server(void)
{
	static const char path[] = "/home/.paddock/resolv.conf", text[] = HOST_NET_RESOLVER;
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0 || io_write_full(fd, text, sizeof(text) - 1) < 0)
		host_inside_fail(path);
	if (mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
		host_inside_fail("/etc/resolv.conf");
}

/* The socket's directory stays in the agent's reach alone; the others vanish below it. Its own instance's directory is held by a mount elsewhere first. */
static void cover(const struct host_inside *in)
{
	char run[PATH_MAX], program[PATH_MAX], from[PATH_MAX];

	tmpfs("/home", "mode=755");
	must(mkdir("/home/user", 0755), "/home/user");
	bind(in->dir, "home", "/home/user");
	bind(in->dir, "workspace", "/home/user/workspace");
	must(str_fmt(from, sizeof(from), "%s/%s", in->agent_dir, in->instance), "path");
	must(mkdir("/home/.paddock", 0700), "/home/.paddock");
	must(str_fmt(run, sizeof(run), "/home/.paddock/run"), "path");
	must(mkdir(run, 0700), run);
	must(mount(from, run, NULL, MS_BIND, NULL), run);
	must(str_fmt(program, sizeof(program), "/home/.paddock/agent"), "path");
	must(mknod(program, S_IFREG | 0600, 0), program);
	must(mount(in->agent, program, NULL, MS_BIND, NULL), program);
	for (const char *const *h = in->hidden; *h; h++)
		if (mount("tmpfs", *h, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "mode=000,size=4096") < 0 && errno != ENOENT)
			host_inside_fail(*h);
	/* else it could lift its own limits */
	if (mount("tmpfs", "/sys/fs/cgroup", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "mode=000,size=4096") < 0 && errno != ENOENT)
		host_inside_fail("/sys/fs/cgroup");
	if (in->internet)
		name_server();
	must(mount("none", "/home", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL), "/home");
}

static void keep_caps(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = { { .effective = KEPT, .permitted = KEPT, .inheritable = 0 } };

	for (int c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		if (c >= 32 || !(KEPT & 1u << c))
			must(prctl(PR_CAPBSET_DROP, c, 0, 0, 0), "bounding set");
	must((int)syscall(SYS_capset, &h, d), "capabilities");
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
}

static _Noreturn void first_process(const struct host_inside *in)
{
	char token[256], byte;
	char *const argv[] = { (char[]){ "paddock-agent" }, (char[]){ "/home/.paddock/run/s" }, NULL };
	char *const env[] = { token, NULL };

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != 0 || io_read(in->go_fd, &byte, 1) != 1)   /* its parent is outside the namespace */
		_exit(126);
	host_read_only();
	must(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/proc");
	cover(in);
	sized_tmpfs("/tmp", in->tmp_bytes);
	sized_tmpfs("/var/tmp", in->tmp_bytes);
	sized_tmpfs("/dev/shm", in->shm_bytes);
	must(chdir("/"), "/");
	must(str_fmt(token, sizeof(token), "PADDOCK_AGENT_TOKEN=%s", in->token), "token");
	keep_caps();
	execve("/home/.paddock/agent", argv, env);
	host_inside_fail("agent");
}

_Noreturn void host_plain_run(const struct host_inside *in)
{
	int status = 0;
	pid_t pid;

	must(unshare(CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP), "namespaces");
	must(sethostname("sandbox", strlen("sandbox")), "host name");
	pid = fork();
	must(pid, "fork");
	if (pid == 0)
		first_process(in);
	dprintf(in->info_fd, "{\"child-pid\": %d}\n", (int)pid);
	close(in->info_fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 126);
}
