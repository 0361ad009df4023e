/* host_net.h - the network of a sandbox on the host: slirp4netns and the packet filter, as containers have them. Blocking, some 10 ms. */
#ifndef PADDOCK_PROVIDER_HOST_NET_H
#define PADDOCK_PROVIDER_HOST_NET_H

#include <sys/types.h>

#include "base/err.h"

#define HOST_NET_RESOLVER "nameserver 10.0.2.3\n"   /* slirp4netns' own, as the text of a resolv.conf */

struct host_net {
	pid_t slirp;             /* 0: none */
	int hold_fd;             /* slirp4netns ends when it is closed, also by our death; -1: none */
};

/* In the child: a network namespace of its own with nothing but loopback. -1 with errno. */
int host_net_cut(void);
/* From the parent: joins the child's namespace to the outside and closes what must be out of reach. Not there at all when it fails. */
int host_net_open(struct host_net *n, pid_t child, const char *netguard, err_t **err);
void host_net_close(struct host_net *n);

#endif
