/* The packet filter's text: what it lets through, what it refuses. */
#include "unit.h"

#include <arpa/inet.h>

#include "base/str.h"
#include "provider/netguard_rules.h"

static void has(const struct buf *b, const char *text)
{
	assert_non_null(strstr(buf_str(b), text));
}

static struct netguard_net net_of(const char *addr, const char *mask)
{
	struct in_addr a, m;

	inet_pton(AF_INET, addr, &a);
	inet_pton(AF_INET, mask, &m);
	return netguard_net_of(a, m);
}

static void fixed_ranges_and_the_nets_of_the_host(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	const struct netguard_net host[2] = { net_of("8.8.4.7", "255.255.255.0"), net_of("9.9.9.9", "255.255.255.255") };

	(void)state;
	assert_int_equal(netguard_rules(&b, host, 2), 0);
	has(&b, "10.0.0.0/8");
	has(&b, "100.64.0.0/10");
	has(&b, "127.0.0.0/8");
	has(&b, "169.254.0.0/16");
	has(&b, "172.16.0.0/12");
	has(&b, "192.168.0.0/16");
	has(&b, "224.0.0.0/3");
	has(&b, ", 8.8.4.0/24, 9.9.9.9/32 }");
	has(&b, "policy drop");
	assert_null(strstr(buf_str(&b), "ip6"));
	/* the resolver comes before the ranges that contain it, and the ranges before all the rest */
	assert_true(strstr(buf_str(&b), "ip daddr 10.0.2.3 udp dport 53 accept") < strstr(buf_str(&b), "ip daddr @denied"));
	assert_true(strstr(buf_str(&b), "ip daddr @denied") < strstr(buf_str(&b), "meta nfproto ipv4 accept"));
}

static void nets_of_interfaces(void **state)
{
	static const struct { const char *addr, *mask, *net; unsigned prefix; } rows[] = {
		{ "8.8.4.7", "255.255.255.0", "8.8.4.0", 24 }, { "8.8.5.7", "255.255.254.0", "8.8.4.0", 23 }, { "8.8.4.7", "255.255.255.255", "8.8.4.7", 32 },
		{ "8.8.4.7", "255.0.0.0", "8.0.0.0", 8 }, { "8.8.4.7", "254.0.0.0", "8.8.4.7", 32 }, { "8.8.4.7", "0.0.0.0", "8.8.4.7", 32 },
		{ "8.8.4.7", "255.0.255.0", "8.8.4.7", 32 },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(rows); i++) {
		struct netguard_net n = net_of(rows[i].addr, rows[i].mask);

		assert_string_equal(inet_ntoa(n.addr), rows[i].net);
		assert_int_equal(n.prefix, rows[i].prefix);
	}
}

static void replaces_in_one_transaction(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(65536);

	(void)state;
	assert_int_equal(netguard_rules(&b, NULL, 0), 0);
	assert_true(str_prefix(buf_str(&b), "table inet paddock\ndelete table inet paddock\ntable inet paddock {"));
}

static void too_many_addresses_do_not_fit(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(1024);
	static struct netguard_net host[200];

	(void)state;
	assert_int_equal(netguard_rules(&b, host, UNIT_LEN(host)), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixed_ranges_and_the_nets_of_the_host),
		cmocka_unit_test(nets_of_interfaces),
		cmocka_unit_test(replaces_in_one_transaction),
		cmocka_unit_test(too_many_addresses_do_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
