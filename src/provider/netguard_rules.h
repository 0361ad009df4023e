/* netguard_rules.h - the packet filter of a container as nft text. Pure; docs/container.md has the rules in words. */
#ifndef PADDOCK_PROVIDER_NETGUARD_RULES_H
#define PADDOCK_PROVIDER_NETGUARD_RULES_H

#include <netinet/in.h>
#include <stddef.h>

#include "base/buf.h"

struct netguard_net {
	struct in_addr addr;
	unsigned prefix;   /* 1 to 32 */
};

/* The network that an interface with this address and mask is on; the address alone when the mask is odd or says half of the internet. */
struct netguard_net netguard_net_of(struct in_addr addr, struct in_addr mask);
/* Replaces our table in one transaction. host: the networks that this host is on, out of reach besides the fixed ranges. 0, or -1 when it does not fit. */
int netguard_rules(struct buf *b, const struct netguard_net *host, size_t n);

#endif
