/* netguard_main.c - paddock-netguard PID: puts the packet filter into the network namespace of a container's first process.
 *
 * Runs as the account that owns the containers, without any right on the host: owning the user namespace that holds the network
 * namespace gives it the rights it needs in there. Exit 0: the rules are in force. Anything else: they are not, a line on standard error says why. */
#include <fcntl.h>
#include <grp.h>
#include <ifaddrs.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "provider/netguard_rules.h"

#define HOST_NETS 1024
#define RULES_MAX (64u << 10)

static int fail(const char *what)
{
	dprintf(2, "paddock-netguard: %s: %s\n", what, strerror(errno));
	return 1;
}

static struct in_addr in_addr_of(const struct sockaddr *a)
{
	return ((const struct sockaddr_in *)(const void *)a)->sin_addr;
}

/* The networks that this host is on, read before we leave its network namespace. */
static int host_nets(struct netguard_net *to, size_t *n)
{
	struct ifaddrs *list = NULL;
	const struct in_addr alone = { INADDR_NONE };

	*n = 0;
	if (getifaddrs(&list) < 0)
		return -1;
	for (struct ifaddrs *i = list; i && *n < HOST_NETS; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET)
			to[(*n)++] = netguard_net_of(in_addr_of(i->ifa_addr), i->ifa_netmask ? in_addr_of(i->ifa_netmask) : alone);
	freeifaddrs(list);
	if (*n == HOST_NETS) {
		errno = E2BIG;
		return -1;
	}
	return 0;
}

/* Joins the network namespace of pid by way of the user namespace that owns it, as its root. */
static int enter(int64_t pid)
{
	char path[64];
	struct stat ours, theirs;
	cleanup_close int net = -1;
	cleanup_close int user = -1;

	if (str_fmt(path, sizeof(path), "/proc/%lld/ns/net", (long long)pid) < 0)
		return fail("pid");
	net = open(path, O_RDONLY | O_CLOEXEC);
	if (net < 0 || fstat(net, &theirs) < 0 || stat("/proc/self/ns/net", &ours) < 0)
		return fail("the container's network namespace");
	if (ours.st_ino == theirs.st_ino) {
		errno = EINVAL;
		return fail("the process is in the host's network namespace");
	}
	user = ioctl(net, NS_GET_USERNS);
	if (user < 0)
		return fail("the owner of the network namespace");
	/* a rootful engine's network belongs to the user namespace we are in already: EINVAL, and nothing to join */
	if (setns(user, CLONE_NEWUSER) < 0 && errno != EINVAL)
		return fail("joining the user namespace");
	if (setns(net, CLONE_NEWNET) < 0)
		return fail("joining the network namespace");
	/* nft wants to be root, and an exec keeps the capabilities of root only */
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return fail("becoming root of the user namespace");
	return 0;
}

static int rules_on_stdin(const struct netguard_net *host, size_t n)
{
	cleanup_buf struct buf b = BUF_INIT(RULES_MAX);
	cleanup_close int fd = memfd_create("rules", MFD_CLOEXEC);

	if (netguard_rules(&b, host, n) < 0) {
		errno = E2BIG;
		return fail("rules");
	}
	if (fd < 0 || io_write_full(fd, buf_str(&b), b.len) < 0 || lseek(fd, 0, SEEK_SET) < 0 || dup2(fd, 0) < 0)
		return fail("rules");
	return 0;
}

int main(int argc, char **argv)
{
	static struct netguard_net host[HOST_NETS];
	char *const env[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" }, NULL };
	char *const nft[] = { (char[]){ "nft" }, (char[]){ "-f" }, (char[]){ "-" }, NULL };
	int64_t pid = 0;
	size_t n = 0;

	io_std_fds();
	if (argc != 2 || num_i64(argv[1], 2, INT_MAX, &pid) < 0) {
		dprintf(2, "usage: paddock-netguard PID\n");
		return 2;
	}
	if (host_nets(host, &n) < 0)
		return fail("networks of this host");
	if (enter(pid) != 0 || rules_on_stdin(host, n) != 0)
		return 1;
	execvpe("/usr/sbin/nft", nft, env);
	execvpe("nft", nft, env);
	return fail("nft");
}
