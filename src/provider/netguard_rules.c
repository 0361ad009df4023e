/* netguard_rules.c - see netguard_rules.h. */
#include "provider/netguard_rules.h"

#include <arpa/inet.h>

#define PREFIX_MIN 8   /* a wider mask is a route to elsewhere, not a place nearby */

/* this network · private · CGNAT · loopback · link-local with the metadata address · private · protocol assignments · 6to4 relays ·
 * private · benchmarks · multicast, reserved, broadcast */
static const char ranges[] = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, "
	"192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3";

struct netguard_net netguard_net_of(struct in_addr addr, struct in_addr mask)
{
	uint32_t m = ntohl(mask.s_addr), ones = 0;

	while (ones < 32 && m & (1u << (31 - ones)))
		ones++;
	if (ones < PREFIX_MIN || (ones < 32 && m << ones))
		return (struct netguard_net){ addr, 32 };
	return (struct netguard_net){ { addr.s_addr & mask.s_addr }, ones };
}

int netguard_rules(struct buf *b, const struct netguard_net *host, size_t n)
{
	char text[INET_ADDRSTRLEN];

	/* naming the table first makes the delete succeed when it is not there yet */
	buf_adds(b, "table inet paddock\ndelete table inet paddock\ntable inet paddock {\n"
		"\tset denied { type ipv4_addr; flags interval; auto-merge; elements = { ");
	buf_adds(b, ranges);
	for (size_t i = 0; i < n; i++)
		buf_addf(b, ", %s/%u", inet_ntop(AF_INET, &host[i].addr, text, sizeof(text)), host[i].prefix);
	buf_adds(b, " } }\n"
		"\tchain out {\n"
		"\t\ttype filter hook output priority 0; policy drop;\n"
		"\t\toifname \"lo\" accept\n"
		"\t\tip daddr 10.0.2.3 udp dport 53 accept\n"
		"\t\tip daddr 10.0.2.3 tcp dport 53 accept\n"
		"\t\tip daddr @denied reject with icmp type admin-prohibited\n"
		"\t\tmeta nfproto ipv4 accept\n"
		"\t}\n"
		"}\n");
	return buf_failed(b) ? -1 : 0;
}
