/* netguard_rules.c - see netguard_rules.h. */
#include "provider/netguard_rules.h"

#include <arpa/inet.h>

/* this network · private · CGNAT · loopback · link-local with the metadata address · private · protocol assignments · 6to4 relays ·
 * private · benchmarks · multicast, reserved, broadcast */
static const char ranges[] = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, "
	"192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3";

int netguard_rules(struct buf *b, const struct in_addr *host, size_t n)
{
	char text[INET_ADDRSTRLEN];

	/* naming the table first makes the delete succeed when it is not there yet */
	buf_adds(b, "table inet paddock\ndelete table inet paddock\ntable inet paddock {\n"
		"\tset denied { type ipv4_addr; flags interval; auto-merge; elements = { ");
	buf_adds(b, ranges);
	for (size_t i = 0; i < n; i++)
		buf_addf(b, ", %s", inet_ntop(AF_INET, &host[i], text, sizeof(text)));
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
