/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What functions carry together, where they share ports and PCIe links.
 */
#include <stdio.h>
#include <stdlib.h>

#include "plat/spw_plat.h"
#include "unit_test.h"

#define GEN5_X4 115000u /* Mbit/s, about */

static struct spw_plat *plat;

/* A DGX Spark: functions 0 and 1 of each PCIe link are at ports 0 and 1. */
static int make_spark(void **state SPW_UNUSED)
{
	static const char *const pci[] = {"0000:01:00.0", "0000:01:00.1", "0002:01:00.0",
					  "0002:01:00.1"};

	plat = calloc(1, sizeof(*plat));
	plat->nic_cnt = 4;
	for (int32_t i = 0; i < 4; i++) {
		struct spw_plat_nic *nic = &plat->nic[i];

		snprintf(nic->rdma, sizeof(nic->rdma), "mlx5_%d", i);
		snprintf(nic->pci, sizeof(nic->pci), "%s", pci[i]);
		nic->half_of = i < 2 ? -1 : i - 2;
		nic->pcie_width = 4;
		nic->pcie_mtps = 32000;
	}
	return 0;
}

static int free_spark(void **state SPW_UNUSED)
{
	free(plat);
	return 0;
}

static void expect(uint32_t mbps, uint32_t cnt, const struct spw_plat_carry *rail)
{
	assert_in_range(spw_plat_carry_mbps(plat, rail, cnt), mbps - mbps / 50, mbps + mbps / 50);
}

static void halves_share_port_and_link(void **state SPW_UNUSED)
{
	static const struct spw_plat_carry all[] = {
		{"mlx5_0", 200000}, {"mlx5_1", 200000}, {"mlx5_2", 200000}, {"mlx5_3", 200000}};
	const struct spw_plat_carry port_0[] = {all[0], all[2]}, link_0[] = {all[0], all[1]};

	expect(GEN5_X4, 1, all);
	expect(GEN5_X4, 2, link_0);
	expect(200000, 2, port_0);
	expect(2 * GEN5_X4, 4, all);
	for (uint32_t i = 0; i < 4; i++)
		plat->nic[i].pcie_width = 0; /* unknown */
	expect(400000, 4, all);
	assert_int_equal(spw_plat_carry_mbps(plat, all, 0), 0);
}

static void others_add_up(void **state SPW_UNUSED)
{
	static const struct spw_plat_carry two[] = {{"mlx5_0", 100000}, {"rxe0", 10000}};

	assert_int_equal(spw_plat_carry_mbps(plat, two, 2), 110000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(halves_share_port_and_link, make_spark, free_spark),
		cmocka_unit_test_setup_teardown(others_add_up, make_spark, free_spark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
