/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-perf on machines with RDMA devices that are no NIC: each is named, with the reason why
 * it is not taken, and the NICs beside it are what they are without it.
 * Usage: perf_other_test PLATFORMS
 */
#include <errno.h>

#include "base/spw_err.h"
#include "perf_kit.h"

#define RXE(device)                                            \
	"'sys/class/infiniband/rxe0/node_desc': 'rxe'," device \
	"'sys/class/infiniband/rxe0/ports/1/state': '4: ACTIVE',"

/* A virtual machine with the two that its kernel can make; neither has a device link today. */
static void software_of_the_kernel_is_named_and_not_taken(void **state)
{
	static const char kernels[] = RXE(
		"'sys/class/infiniband/rxe0/parent': 'ens3',") "'sys/class/infiniband/siw0/"
							       "node_desc': 'Software iWARP stack',"
							       "'sys/class/infiniband/siw0/ports/1/"
							       "gid_attrs/ndevs/0': 'lo',";
	static struct perf_end own;
	struct perf_rails rails;
	char text[PERF_TEXT_BYTES];

	(void)state;
	machine_with("bare-vm", kernels, &own);
	assert_int_equal(own.nic_cnt, 0);
	assert_int_equal(own.other_cnt, 2);
	perf_other_text(&own.other[0], text, sizeof(text));
	assert_non_null(strstr(text, "rxe0 (rxe over ens3) is software of the kernel"));
	perf_other_text(&own.other[1], text, sizeof(text));
	assert_non_null(strstr(text, "siw0 (Software iWARP stack over lo) is software"));
	assert_int_equal(perf_pair(&own, &own, NULL, NULL, &rails), 0);
	assert_int_equal(rails.cnt, 0);
	assert_int_equal(rails.fault_cnt, 1);
	assert_non_null(strstr(rails.fault[0], "has no RDMA device that is a NIC"));
	assert_int_equal(perf_pair(&own, &own, "rxe0", NULL, &rails), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "rxe0 (rxe over ens3) is software"));
}

/* Older kernels link rxe to the function of its interface: that remains the card's. */
static void software_beside_a_card_leaves_its_name(void **state)
{
	static const char beside[] =
		RXE("'sys/class/infiniband/rxe0/device': "
		    "{'->': '/sys/devices/pci0000:40/0000:40:03.1/0000:41:00.0'},");
	static struct perf_end with, without;
	struct perf_rails rails;

	(void)state;
	machine_with("x86-connectx5", beside, &with);
	machine("x86-connectx5", &without);
	assert_int_equal(with.other_cnt, 1);
	assert_true(with.other[0].software);
	assert_int_equal(with.nic_cnt, without.nic_cnt);
	assert_memory_equal(with.nic, without.nic, sizeof(with.nic));
	another(&without);
	assert_int_equal(perf_pair(&with, &without, NULL, NULL, &rails), 0);
	assert_int_equal(rails.fault_cnt, 0);
}

/* Of another bus, as in some systems on a chip. */
static void a_device_without_pci_is_named(void **state)
{
	static const char hns[] =
		"'sys/class/infiniband/hns_0/device': {'->': '/sys/devices/platform/HISI00D1:00'},"
		"'sys/class/infiniband/hns_0/node_desc': 'hns_0',";
	static struct perf_end own;
	char text[PERF_TEXT_BYTES];

	(void)state;
	machine_with("bare-vm", hns, &own);
	assert_int_equal(own.other_cnt, 1);
	perf_other_text(&own.other[0], text, sizeof(text));
	assert_non_null(strstr(text, "is no PCI function"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(software_of_the_kernel_is_named_and_not_taken),
		cmocka_unit_test(software_beside_a_card_leaves_its_name),
		cmocka_unit_test(a_device_without_pci_is_named),
	};

	if (argc != 2)
		return 2;
	platforms = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
