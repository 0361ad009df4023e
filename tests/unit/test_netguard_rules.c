/* The packet filter's text: what it lets through, what it refuses. */
#include "unit.h"

#include <arpa/inet.h>

#include "base/str.h"
#include "provider/netguard_rules.h"

static void has(const struct buf *b, const char *text)
{
	assert_non_null(strstr(buf_str(b), text));
}

static void fixed_ranges_and_host_addresses(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	struct in_addr host[2];

	(void)state;
	inet_pton(AF_INET, "198.51.100.7", &host[0]);
	inet_pton(AF_INET, "203.0.113.9", &host[1]);
	assert_int_equal(netguard_rules(&b, host, 2), 0);
	has(&b, "10.0.0.0/8");
	has(&b, "100.64.0.0/10");
	has(&b, "127.0.0.0/8");
	has(&b, "169.254.0.0/16");
	has(&b, "172.16.0.0/12");
	has(&b, "192.168.0.0/16");
	has(&b, "224.0.0.0/3");
	has(&b, ", 198.51.100.7, 203.0.113.9 }");
	has(&b, "policy drop");
	assert_null(strstr(buf_str(&b), "ip6"));
	/* the resolver comes before the ranges that contain it, and the ranges before all the rest */
	assert_true(strstr(buf_str(&b), "ip daddr 10.0.2.3 udp dport 53 accept") < strstr(buf_str(&b), "ip daddr @denied"));
	assert_true(strstr(buf_str(&b), "ip daddr @denied") < strstr(buf_str(&b), "meta nfproto ipv4 accept"));
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
	static struct in_addr host[200];

	(void)state;
	assert_int_equal(netguard_rules(&b, host, UNIT_LEN(host)), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixed_ranges_and_host_addresses),
		cmocka_unit_test(replaces_in_one_transaction),
		cmocka_unit_test(too_many_addresses_do_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
