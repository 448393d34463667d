/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which MAC addresses spinwire-gen's frames get.
 */
#include <string.h>

#include "address.h"
#include "unit_test.h"

static char table[] =
	"IP address       HW type     Flags       HW address            Mask     Device\n"
	"198.18.0.20      0x1         0x2         02:00:00:00:00:aa     *        eth0\n"
	"198.18.0.2       0x1         0x0         00:00:00:00:00:00     *        eth0\n"
	"198.18.0.2       0x1         0x2         02:00:00:00:00:bb     *        eth1\n";

/* 198.18.0.2, 198.18.0.3. */
static void test_neighbour(void **state)
{
	FILE *arp = fmemopen(table, sizeof(table) - 1, "r");
	uint8_t mac[ETH_ALEN] = {0};

	(void)state;
	assert_true(gen_address_neighbour(arp, 0xc6120002, mac));
	assert_int_equal(mac[5], 0xbb);
	rewind(arp);
	assert_false(gen_address_neighbour(arp, 0xc6120003, mac));
	fclose(arp);
}

static void test_fill(void **state)
{
	struct spw_port port = {.caps.mac = {2, 0, 0, 0, 0, 0xcc}}, bare = {.caps.mtu = 0};
	struct gen_frame_conf frame = {.dst_ip = 0xc6124d02}, named = {0}, none = {0};

	(void)state;
	gen_address_fill(&frame, &port);
	assert_int_equal(frame.src_mac[5], 0xcc);
	assert_int_equal(frame.dst_mac[5], 2);
	named.src_mac[0] = named.dst_mac[0] = 6;
	gen_address_fill(&named, &port);
	assert_int_equal(named.src_mac[0], 6);
	assert_int_equal(named.dst_mac[0], 6);
	gen_address_fill(&none, &bare);
	assert_int_equal(none.src_mac[5], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_neighbour),
		cmocka_unit_test(test_fill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
