/* host_bwrap.c - the file system of a sandbox under bubblewrap, as its arguments: what is not named here is not there. */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "provider/host_inside.h"

#define ARGS_MAX (64u << 10)
#define RUN_BYTES "1048576"

static const char passwd[] = "root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:1000:1000:user:/home/user:/bin/bash\n"
	"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char group[] = "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n";
static const char hosts[] = "127.0.0.1\tlocalhost\n127.0.1.1\tsandbox\n";
static const char nsswitch[] = "passwd: files\ngroup: files\nhosts: files dns\n";

/* What programs of /usr look for in /etc; nothing of it is particular to this machine. */
static const char *const etc[] = { "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
	"/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/localtime", "/etc/mime.types", "/etc/services", "/etc/protocols", "/etc/debian_version",
	"/etc/os-release", "/etc/python3", "/etc/python3.11", "/etc/magic", "/etc/fonts" };
static const char *const roots[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

__attribute__((sentinel)) static void add(struct buf *b, const char *first, ...)
{
	va_list ap;

	va_start(ap, first);
	for (const char *s = first; s; s = va_arg(ap, const char *))
		buf_add(b, s, strlen(s) + 1);
	va_end(ap);
}

static void add_number(struct buf *b, int64_t n)
{
	buf_addf(b, "%lld", (long long)n);
	buf_addc(b, '\0');
}

/* A descriptor that the program inherits, at the beginning of the bytes. */
static int memory_file(const void *p, size_t n)
{
	int fd = memfd_create("bwrap", 0);

	if (fd < 0 || io_write_full(fd, p, n) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		host_inside_fail("memory file");
	return fd;
}

static void add_file(struct buf *b, const char *path, const char *text)
{
	add(b, "--perms", "0444", "--ro-bind-data", NULL);
	add_number(b, memory_file(text, strlen(text)));
	add(b, path, NULL);
}

static void add_tmpfs(struct buf *b, const char *path, const char *perms, int64_t bytes)
{
	add(b, "--perms", perms, "--size", NULL);
	add_number(b, bytes);
	add(b, "--tmpfs", path, NULL);
}

/* /bin and the like: links into /usr on a merged system, else directories of their own. */
static void add_roots(struct buf *b)
{
	char path[32], target[PATH_MAX];

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		str_fmt(path, sizeof(path), "/%s", roots[i]);
		ssize_t n = readlink(path, target, sizeof(target) - 1);
		if (n > 0) {
			target[n] = '\0';
			add(b, "--symlink", target, path, NULL);
		} else {
			add(b, "--ro-bind-try", path, path, NULL);
		}
	}
}

static void add_system(struct buf *b, const struct host_inside *in)
{
	add(b, "--ro-bind", "/usr", "/usr", "--perms", "0755", "--dir", "/etc", "--perms", "0755", "--dir", "/home", NULL);
	add_roots(b);
	for (size_t i = 0; i < sizeof(etc) / sizeof(etc[0]); i++)
		add(b, "--ro-bind-try", etc[i], etc[i], NULL);
	add_file(b, "/etc/passwd", passwd);
	add_file(b, "/etc/group", group);
	add_file(b, "/etc/hosts", hosts);
	add_file(b, "/etc/nsswitch.conf", nsswitch);
	add_file(b, "/etc/resolv.conf", in->resolver);
	add(b, "--proc", "/proc", "--dev", "/dev", NULL);
	add_tmpfs(b, "/dev/shm", "1777", in->shm_bytes);
	add_tmpfs(b, "/tmp", "1777", in->tmp_bytes);
	add_tmpfs(b, "/var/tmp", "1777", in->tmp_bytes);
	add(b, "--perms", "0755", "--size", RUN_BYTES, "--tmpfs", "/run", NULL);
}

static void add_own(struct buf *b, const struct host_inside *in)
{
	char home[PATH_MAX], workspace[PATH_MAX], run[PATH_MAX];

	if (str_fmt(home, sizeof(home), "%s/home", in->dir) < 0 || str_fmt(workspace, sizeof(workspace), "%s/workspace", in->dir) < 0 ||
	    str_fmt(run, sizeof(run), "%s/%s", in->agent_dir, in->instance) < 0)
		host_inside_fail("path");
	add(b, "--bind", home, "/home/user", "--bind", workspace, "/home/user/workspace", NULL);
	add(b, "--perms", "0700", "--dir", "/paddock", "--ro-bind", in->agent, "/paddock/agent", "--ro-bind", run, "/paddock/run", NULL);
	add(b, "--remount-ro", "/", NULL);
}

static void add_process(struct buf *b, const struct host_inside *in)
{
	add(b, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1", "--die-with-parent", "--hostname", "sandbox", NULL);
	/* what the agent needs as process 1; commands get none of it */
	add(b, "--cap-drop", "ALL", "--cap-add", "CAP_CHOWN", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP", "--cap-add", "CAP_KILL",
		NULL);
	add(b, "--info-fd", NULL);
	add_number(b, in->info_fd);
	add(b, "--block-fd", NULL);
	add_number(b, in->go_fd);
	add(b, "--chdir", "/", "--clearenv", "--setenv", "PADDOCK_AGENT_TOKEN", in->token, NULL);
}

/* The arguments go through a file: a command line is for everybody to read, and the token is among them. */
_Noreturn void host_bwrap_exec(const struct host_inside *in)
{
	struct buf b = BUF_INIT(ARGS_MAX);
	char fd[16];
	char *const argv[] = { (char[]){ "bwrap" }, (char[]){ "--args" }, fd, (char[]){ "--" }, (char[]){ "/paddock/agent" }, NULL };
	char *const env[] = { NULL };

	add_process(&b, in);
	add_system(&b, in);
	add_own(&b, in);
	if (buf_failed(&b))
		host_inside_fail("arguments");
	str_fmt(fd, sizeof(fd), "%d", memory_file(b.data, b.len));
	explicit_bzero(b.data, b.len);
	buf_free(&b);
	execve(in->bwrap, argv, env);
	host_inside_fail(in->bwrap);
}
