/* netguard_rules.h - the packet filter of a container as nft text. Pure; docs/container.md has the rules in words. */
#ifndef PADDOCK_PROVIDER_NETGUARD_RULES_H
#define PADDOCK_PROVIDER_NETGUARD_RULES_H

#include <netinet/in.h>
#include <stddef.h>

#include "base/buf.h"

/* Replaces our table in one transaction. host: this host's own IPv4 addresses, out of reach besides the fixed ranges. 0, or -1 when it does not fit. */
int netguard_rules(struct buf *b, const struct in_addr *host, size_t n);

#endif
