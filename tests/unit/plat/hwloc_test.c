/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * hwloc's answers in a recorded machine. Usage: hwloc_test PLATFORMS
 */
#include "plat_kit.h"

/* What hwloc answered stands where sysfs says nothing, and nowhere else; a torn answer is none. */
static void hwloc_fills_what_sysfs_leaves_out(void **state)
{
	static const char changes[] =
		"'sys/devices/system/cpu/cpu3/cache': {'!': 'ENOENT'},"
		"'sys/devices/system/cpu/cpu3/topology': {'!': 'ENOENT'},"
		"'hwloc/cpu/3': 'package 1 core 7 l3 2-4 node 0',"
		"'hwloc/cpu/4': 'package 9 core 9 l3 9 node 9',"
		"'sys/devices/system/cpu/cpu5/topology': {'!': 'ENOENT'},"
		"'hwloc/cpu/5': 'package - core',"
		"'hwloc/node/0': 'cpus 0-19 memory_cache 1073741824',"
		"'sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0/numa_node': '-1',"
		"'hwloc/pci/0000:01:00.0': 'node 0 cpus 0-9',"
		"'hwloc/pci/0000:01:00.1': 'node 99 cpus -',"
		"'hwloc/pci/0002:01:00.0': 'node',";
	struct spw_plat *plat;
	const struct spw_plat_core *core;

	(void)state;
	assert_int_equal(changed("dgx-spark", changes, NULL, &plat), 0);
	core = spw_plat_core_by_cpu(plat, 3);
	assert_int_equal(core->l3_id, 2);
	assert_int_equal(core->package, 1);
	assert_int_equal(core->core_id, 7);
	assert_string_equal(fact(plat, "core 3", "hwloc")->source, "hwloc/cpu/3");
	core = spw_plat_core_by_cpu(plat, 4);
	assert_int_equal(core->l3_id, 0);
	assert_int_not_equal(core->package, 9);
	assert_int_equal(spw_plat_core_by_cpu(plat, 5)->package, -1);
	assert_true(plat->node[0].mem_cache_bytes == 1ull << 30);
	assert_int_equal(nic(plat, "enp1s0f0np0")->node, 0);
	assert_string_equal(nic(plat, "enp1s0f0np0")->near_cpus, "0-9");
	assert_int_equal(nic(plat, "enp1s0f1np1")->node, -1);
	assert_string_equal(nic(plat, "enp1s0f1np1")->near_cpus, "");
	assert_string_equal(nic(plat, "enP2p1s0f0np0")->near_cpus, "");
	spw_plat_free(plat);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(hwloc_fills_what_sysfs_leaves_out)};

	if (argc != 2)
		return 2;
	platforms = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
