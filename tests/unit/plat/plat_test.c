/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The facts of a DGX Spark, from config/platforms and a fake CUDA driver, and of this machine;
 * trees that are saved and loaded again; and hostile ones. Usage: plat_test PLATFORMS
 * FAKE_CUDA_LIBRARY
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "plat/plat_impl.h"
#include "plat_kit.h"

static const char *cuda_lib, *nvml_lib;

static struct spw_plat *spark(void)
{
	static const char changes[] =
		"'sys/devices/system/cpu/isolated': '15-19',"
		"'sys/devices/system/cpu/cpu0/cpufreq/scaling_governor': 'powersave',"
		"'proc/self/status': 'Cpus_allowed_list:\\t0-9,15-19',"
		"'proc/self/limits': 'Max locked memory  8388608  8388608  bytes',"
		"'sys/class/net/enP2p1s0f0np0/mtu': '1500',"
		"'sys/devices/pci0002:00/0002:00:00.0/0002:01:00.1/current_link_width': '2',"
		"'cuda': {'!': 'ENOENT'},";
	struct spw_plat *plat;

	assert_int_equal(changed("dgx-spark", changes, cuda_lib, &plat), 0);
	return plat;
}

static void spark_cores(void **state)
{
	struct spw_plat *plat = spark();
	const struct spw_plat_core *core;

	(void)state;
	assert_int_equal(plat->core_cnt, 20);
	assert_int_equal(plat->allowed_cnt, 15);
	for (uint32_t cpu = 0; cpu < 20; cpu++) {
		bool big = (cpu >= 5 && cpu < 10) || cpu >= 15;

		core = spw_plat_core_by_cpu(plat, cpu);
		assert_non_null(core);
		assert_int_equal(core->kind, big ? SPW_PLAT_CORE_BIG : SPW_PLAT_CORE_LITTLE);
		assert_string_equal(core->model, big ? "Cortex-X925" : "Cortex-A725");
		assert_int_equal(core->isolated, cpu >= 15);
		assert_int_equal(core->allowed, cpu < 10 || cpu >= 15);
		assert_int_equal(core->l3_bytes, cpu < 10 ? 8u << 20 : 16u << 20);
		assert_int_equal(core->l3_id, cpu < 10 ? 0 : 10);
		assert_int_equal(core->node, 0);
		assert_int_equal(core->sibling, cpu);
	}
	assert_null(spw_plat_core_by_cpu(plat, 20));
	assert_null(finding(plat, "cores-few"));
	assert_non_null(strstr(finding(plat, "cores-governor")->what, "cores 0 run"));
	assert_null(finding(plat, "cores-shared"));
	assert_true(plat->autogroup);
	spw_plat_free(plat);
}

static void spark_memory_and_names(void **state)
{
	struct spw_plat *plat = spark();
	const struct spw_plat_node *node = &plat->node[0];

	(void)state;
	assert_string_equal(plat->machine, "NVIDIA_DGX_Spark");
	assert_string_equal(plat->arch, "aarch64");
	assert_string_equal(plat->kernel, "6.11.0-1016-nvidia");
	assert_int_equal(plat->node_cnt, 1);
	assert_int_equal(node->node, 0);
	assert_true(node->mem_bytes == 125516800ull << 10);
	assert_int_equal(node->huge_cnt, 1);
	for (uint32_t i = 0; i < node->huge_cnt; i++)
		if (node->huge[i].page_bytes == 2u << 20)
			assert_int_equal(node->huge[i].free_cnt, 500);
	assert_int_equal(plat->memlock_bytes, 8388608);
	assert_non_null(finding(plat, "memlock-low"));
	assert_null(finding(plat, "hugepages-none"));
	spw_plat_free(plat);
}

static void spark_ports_and_their_halves(void **state)
{
	struct spw_plat *plat = spark();
	const struct spw_plat_nic *first = nic(plat, "enp1s0f0np0"),
				  *second = nic(plat, "enP2p1s0f0np0");
	const struct spw_plat_nic *narrow = nic(plat, "enP2p1s0f1np1");

	(void)state;
	assert_int_equal(plat->nic_cnt, 5);
	assert_string_equal(nic(plat, "enP7s7")->pci, "0007:01:00.0");
	assert_true(nic(plat, "enP7s7")->default_route);
	assert_int_equal(nic(plat, "enP7s7")->half_of, -1);
	assert_string_equal(first->pci, "0000:01:00.0");
	assert_string_equal(first->rdma, "rocep1s0f0");
	assert_string_equal(first->driver, "mlx5_core");
	assert_int_equal(first->vendor, 0x15b3);
	assert_int_equal(first->speed_mbit, 200000);
	assert_int_equal(first->carrier, 1);
	assert_int_equal(first->pcie_width, 4);
	assert_int_equal(first->pcie_mtps, 32000);
	assert_int_equal(first->half_of, -1);
	assert_ptr_equal(&plat->nic[second->half_of], first);
	assert_ptr_equal(&plat->nic[narrow->half_of], nic(plat, "enp1s0f1np1"));
	assert_string_equal(
		finding(plat, "nic-halves-differ")->what,
		"enp1s0f0np0 and enP2p1s0f0np0 are halves of one port; MTU 9000 and 1500");
	assert_string_equal(finding(plat, "nic-halves-differ")->todo,
			    "ip link set enP2p1s0f0np0 mtu 9000");
	assert_non_null(strstr(finding(plat, "nic-pcie-narrow")->what,
			       "enP2p1s0f1np1: PCIe runs at x2 32.0"));
	assert_int_equal(finding(plat, "nic-pcie-narrow")->severity, SPW_PLAT_WARN);
	assert_int_equal(first->gid_v2_ipv4, 3);
	assert_string_equal(first->gid_ipv4, "10.10.0.1");
	assert_int_equal(first->path_mtu, 4096);
	assert_int_equal(second->path_mtu, 1024);
	assert_string_equal(first->uverbs, "uverbs0");
	assert_string_equal(first->irq_cpus, "0");
	assert_int_equal(first->relaxed_ordering, -1);
	spw_plat_free(plat);
}

static void spark_gpu(void **state)
{
	struct spw_plat *plat = spark();
	const struct spw_plat_gpu *gpu = &plat->gpu[0];

	(void)state;
	assert_int_equal(plat->gpu_cnt, 1);
	assert_int_equal(plat->cuda_driver, 13000);
	assert_int_equal(plat->cuda_built, 1);
	assert_string_equal(plat->cuda_why, "");
	assert_string_equal(gpu->name, "NVIDIA GB10");
	assert_string_equal(gpu->pci, "000f:01:00.0");
	assert_int_equal(gpu->node, 0);
	assert_int_equal(gpu->attr[SPW_PLAT_GPU_INTEGRATED], 1);
	assert_int_equal(gpu->attr[SPW_PLAT_GPU_GPU_DIRECT_RDMA_SUPPORTED], 0);
	assert_int_equal(gpu->attr[SPW_PLAT_GPU_DMA_BUF_SUPPORTED], -1);
	assert_int_equal(gpu->attr[SPW_PLAT_GPU_COMPUTE_CAPABILITY_MAJOR], 12);
	assert_string_equal(spw_plat_gpu_attr_name(SPW_PLAT_GPU_DMA_BUF_SUPPORTED),
			    "DMA_BUF_SUPPORTED");
	assert_int_equal(gpu->clock_sm_mhz, 2418);
	assert_string_equal(fact(plat, "gpu 0", "clock_mem")->value, "Not Supported");
	spw_plat_free(plat);
}

/* lib/xfer takes a function that has no IPv4 address, but not one that is link-local only. */
static void ipv6_addresses_count(void **state)
{
#define GIDS "sys/class/infiniband/rocep1s0f0/ports/1/gids/"
	static const char change[] = "'" GIDS "2': 'fd00:0001:0000:0000:0000:0000:0000:0001',"
				     "'" GIDS "3': 'fd00:0001:0000:0000:0000:0000:0000:0001'";
	struct spw_plat *plat;

	(void)state;
	assert_int_equal(changed("dgx-spark", change, NULL, &plat), 0);
	assert_int_equal(nic(plat, "enp1s0f0np0")->gid_v2_ipv4, -1);
	assert_true(nic(plat, "enp1s0f0np0")->gid_v2_ipv6);
	assert_false(nic(plat, "enP2p1s0f0np0")->gid_v2_ipv6);
	spw_plat_free(plat);
}

static void a_hot_gpu_is_found_by_nvml(void **state)
{
	struct spw_plat *plat;

	(void)state;
	assert_int_equal(unit_machine("dgx-spark", "'nvml': {'!': 'ENOENT'}",
				      (struct spw_plat_from){.nvml_lib = nvml_lib}, &plat),
			 0);
	assert_int_equal(plat->gpu[0].clock_sm_mhz, 500);
	assert_int_equal(plat->gpu[0].clock_sm_max_mhz, 3003);
	assert_int_equal(plat->gpu[0].pcie_width, -1);
	assert_string_equal(fact(plat, "gpu 0", "clock_mem")->value, "Not Supported");
	assert_string_equal(fact(plat, "gpu 0", "power_mw")->value, "Unknown Error");
	assert_string_equal(fact(plat, "gpu 0", "temperature")->value, "96");
	assert_non_null(finding(plat, "gpu-throttled"));
	assert_int_equal(plat->finding_cnt, 1);
	spw_plat_free(plat);
}

/* What hangs is read while it hangs: load and processes as well. */
static void a_gpu_now(void **state)
{
	struct spw_plat_gpu_now gpu[SPW_PLAT_GPU_MAX];

	(void)state;
	assert_int_equal(spw_plat_gpus_now(nvml_lib, gpu), 1);
	assert_int_equal(gpu[0].busy, 96);
	assert_int_equal(gpu[0].memory_busy, 0);
	assert_int_equal(gpu[0].power_mw, -1);
	assert_int_equal(gpu[0].sm_mhz, 500);
	assert_int_equal(gpu[0].reasons, 0x40);
	assert_int_equal(gpu[0].pid_cnt, 2);
	assert_int_equal(gpu[0].pid[1], 4712);
	assert_int_equal(spw_plat_gpus_now("libm.so.6", gpu), -ENODEV);
}

static void a_machine_without_cuda_has_no_gpu(void **state)
{
	static const char *const libs[] = {"/nonexistent/libcuda.so.1", "libm.so.6", ""};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(libs); i++) {
		struct spw_plat *plat;

		assert_int_equal(changed("dgx-spark", "'cuda': {'!': 'ENOENT'},", libs[i], &plat),
				 0);
		assert_int_equal(plat->gpu_cnt, 0);
		assert_true(strlen(plat->cuda_why) > 0);
		assert_string_equal(fact(plat, "host", "cuda_driver")->why, "absent");
		spw_plat_free(plat);
	}
}

static void a_bare_tree_is_enough(void **state)
{
	json_t *nothing = unit_json("'#': 1");
	json_t *bare = unit_json("'sys/devices/system/cpu/online': '0',"
				 "'proc/self/status': 'Cpus_allowed_list:\\t0'");
	struct spw_plat_from from = {.record = {nothing}};
	struct spw_plat *plat;

	(void)state;
	assert_int_equal(spw_plat_read(&from, &plat), -ENOENT);
	assert_non_null(strstr(spw_err_text(), "no core"));
	from.record[0] = bare;
	assert_int_equal(spw_plat_read(&from, &plat), 0);
	json_decref(nothing);
	json_decref(bare);
	assert_int_equal(plat->core_cnt, 1);
	assert_int_equal(plat->core[0].kind, SPW_PLAT_CORE_ONLY);
	assert_int_equal(plat->core[0].node, -1);
	assert_int_equal(plat->nic_cnt, 0);
	assert_int_equal(plat->node_cnt, 1);
	assert_non_null(finding(plat, "cores-few"));
	assert_non_null(finding(plat, "hugepages-none"));
	spw_plat_free(plat);
}

static void unknown_facts_say_why(void **state)
{
	struct spw_plat *plat;

	(void)state;
	assert_int_equal(changed("dgx-spark",
				 "'sys/class/net/enp1s0f0np0/mtu': '90x',"
				 "'sys/class/net/enp1s0f0np0/carrier': {'!': 'EINVAL'},"
				 "'sys/class/net/enp1s0f0np0/speed': {'!': 'ENOENT'},"
				 "'proc/self/limits': 'Max open files 1024',"
				 "'sys/class/net/enp1s0f0np0/phys_port_name': null,"
				 "'sys/class/net/enp1s0f0np0/address': {'!': 'ENOENT'},"
				 "'sys/class/net/enp1s0f0np0': {'address': null}",
				 NULL, &plat),
			 0);
	assert_string_equal(fact(plat, "nic enp1s0f0np0", "mtu")->why, "not a number");
	assert_int_equal(nic(plat, "enp1s0f0np0")->mtu, 0);
	assert_string_equal(fact(plat, "nic enp1s0f0np0", "carrier")->why, "Invalid argument");
	assert_int_equal(nic(plat, "enp1s0f0np0")->carrier, -1);
	assert_string_equal(fact(plat, "nic enp1s0f0np0", "speed")->why, "absent");
	assert_string_equal(fact(plat, "nic enp1s0f0np0", "speed")->source,
			    "/sys/class/net/enp1s0f0np0/speed");
	assert_string_equal(fact(plat, "host", "memlock")->why, "no such line");
	assert_string_equal(fact(plat, "nic enp1s0f0np0", "port_name")->value, "p0");
	assert_string_equal(fact(plat, "nic enp1s0f0np0", "mac")->why, "not recorded");
	/* what is unknown is no finding */
	assert_int_equal(plat->finding_cnt, 0);
	spw_plat_free(plat);
}

/* The texts of files are strings; all else is refused, by its path. */
static void odd_documents_are_refused(void **state)
{
	static const char *const odd[] = {
		"'a': 1",           "'a': ['b']",     "'a': {'!': 'ENOTHING'}",
		"'a': {'!': null}", "'a': {'->': 1}", "'a{0-3': '1'",
		"'a{x}': '1'",      "'a{3-}': '1'",   "'a{0}/b{0}': '1'",
		"'': '1'",          "'a//b': '1'",    "'a/=': '1'",
	};
	char many[32 * 200], long_path[600];
	json_t *list = json_array();
	struct spw_plat *plat;

	(void)state;
	assert_int_equal(spw_plat_read(&(struct spw_plat_from){.record = {list}}, &plat), -EINVAL);
	json_decref(list);
	for (size_t i = 0; i < SPW_ARRAY_CNT(odd); i++)
		if (changed("bare-vm", odd[i], NULL, &plat) != -EINVAL)
			fail_msg("taken: %s", odd[i]);
	changed("bare-vm", "'a': {'b': {'->': {}}}", NULL, &plat);
	assert_non_null(strstr(spw_err_text(), "changes: a/b: is no text"));
	snprintf(long_path, sizeof(long_path), "'%0510d': '1'", 0);
	assert_int_equal(changed("bare-vm", long_path, NULL, &plat), -EINVAL);
	many[0] = '\0';
	for (int i = 0; i < 150; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "'f{0-1023}/%d': '{}',",
			 i);
	assert_int_equal(changed("bare-vm", many, NULL, &plat), -E2BIG);
}

static void same_facts(const struct spw_plat *a, const struct spw_plat *b)
{
	assert_int_equal(a->fact_cnt, b->fact_cnt);
	for (uint32_t i = 0; i < a->fact_cnt; i++)
		if (strcmp(a->fact[i].name, b->fact[i].name) ||
		    strcmp(a->fact[i].value, b->fact[i].value) ||
		    strcmp(a->fact[i].why, b->fact[i].why) ||
		    strcmp(a->fact[i].source, b->fact[i].source))
			fail_msg("%s %s: \"%s\" (%s) and \"%s\" (%s)", a->fact[i].of,
				 a->fact[i].name, a->fact[i].value, a->fact[i].why,
				 b->fact[i].value, b->fact[i].why);
	assert_int_equal(a->finding_cnt, b->finding_cnt);
	for (uint32_t i = 0; i < a->finding_cnt; i++)
		assert_string_equal(a->finding[i].what, b->finding[i].what);
}

/* Through its text, as a file would be. */
static void replay_is_the_same(const struct spw_plat *plat)
{
	json_t *record = spw_plat_record(plat), *loaded;
	char *text = json_dumps(record, JSON_INDENT(1));
	struct spw_plat *again;

	loaded = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_int_equal(spw_plat_read(&(struct spw_plat_from){.record = {loaded}}, &again), 0);
	same_facts(plat, again);
	spw_plat_free(again);
	json_decref(loaded);
	json_decref(record);
	free(text);
}

static void what_is_saved_replays_alike(void **state)
{
	static const char *const name[] = {"dgx-spark", "grace-hopper", "x86-connectx5", "bare-vm"};
	struct spw_plat_from live = {.sample_ms = 10};
	struct spw_plat *plat;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(name); i++) {
		assert_int_equal(changed(name[i], "", NULL, &plat), 0);
		replay_is_the_same(plat);
		spw_plat_free(plat);
	}
	assert_int_equal(spw_plat_read(&live, &plat), 0);
	replay_is_the_same(plat);
	spw_plat_free(plat);
}

static void this_machine_can_be_read(void **state)
{
	struct spw_plat *plat;

	(void)state;
	assert_int_equal(spw_plat_read(NULL, &plat), 0);
	assert_int_equal(plat->core_cnt, sysconf(_SC_NPROCESSORS_ONLN));
	assert_in_range(plat->allowed_cnt, 1, plat->core_cnt);
	assert_true(plat->node_cnt >= 1 && plat->page_bytes >= 4096);
	spw_plat_free(plat);
	spw_plat_free(NULL);
}

static void lists_go_both_ways(void **state)
{
	static const char *const lists[] = {"0", "0-3", "1,3,5", "0-2,5,7-9", ""};
	char text[64];

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(lists); i++) {
		bool set[16] = {false};

		spw_plat_list_parse(lists[i], set, 16);
		spw_plat_list_text(set, 16, text, sizeof(text));
		assert_string_equal(text, lists[i]);
	}
	/* numbers beyond the set are ignored */
	assert_int_equal(spw_plat_list_parse("14-20", (bool[16]){false}, 16), 2);
	assert_int_equal(spw_plat_list_parse("x", (bool[16]){false}, 16), -EINVAL);
}

/* One cause each, on a Spark whose memory is asked for 1 MiB. */
static void what_cannot_be_pinned_names_its_cause(void **state)
{
#define MEMINFO(rest) "'proc/meminfo': 'MemTotal: 9 kB\\nMemAvailable: " rest "',"
#define LIMIT         "'proc/self/limits': 'Max locked memory  524288  524288  bytes',"
#define NO_CAP        "'proc/self/status': 'CapEff:\\t00\\nCpus_allowed_list:\\t0\\nVmPin:\\t64kB',"
#define CMA           MEMINFO("9999 kB\\nCmaTotal: 128 kB\\nCmaFree: 4096 kB")
	static const struct {
		const char *changes, *words[3];
	} cases[] = {
		{LIMIT NO_CAP, {"memory: 512 KiB, 64 KiB are pinned: ulimit -l", "--slots"}},
		{LIMIT "'proc/self/uid_map': '0 1000 1',", {"memory: 512 KiB, 0 KiB", "ulimit -l"}},
		{LIMIT, {"512 KiB, lifted by CAP_IPC_LOCK", "dmesg"}},
		{CMA, {"CmaFree (4096 KiB)", "CmaTotal (128 KiB)", "kho=off"}},
		{MEMINFO("512 kB"),
		 {"512 KiB of memory are left", "limit of locked memory: unlimited"}},
		{"'sys/fs/cgroup/memory.max': '262144',", {"256 KiB of memory are left"}},
		{MEMINFO("2048 kB\\nCmaTotal: 128 kB\\nCmaFree: 128 kB"),
		 {"neither", "unlimited", "2048 KiB"}},
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++) {
		struct spw_plat *plat;

		assert_int_equal(changed("dgx-spark", cases[i].changes, NULL, &plat), 0);
		spw_plat_pin_blame(plat, 1 << 20, text, sizeof(text));
		for (size_t k = 0; k < 3 && cases[i].words[k]; k++)
			if (!strstr(text, cases[i].words[k]))
				fail_msg("case %zu, no \"%s\": %s", i, cases[i].words[k], text);
		assert_in_range(strlen(text), 1, sizeof(text) - 2);
		spw_plat_free(plat);
	}
}

static void a_counter_is_read_by_name(void **state)
{
	uint64_t value;

	(void)state;
	assert_int_equal(spw_plat_count_read("no-such-if", "rx_packets", &value), -ENOENT);
	assert_int_equal(spw_plat_count_read("lo", "no_such_counter", &value), -ENOENT);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spark_cores),
		cmocka_unit_test(spark_memory_and_names),
		cmocka_unit_test(spark_ports_and_their_halves),
		cmocka_unit_test(spark_gpu),
		cmocka_unit_test(ipv6_addresses_count),
		cmocka_unit_test(a_hot_gpu_is_found_by_nvml),
		cmocka_unit_test(a_gpu_now),
		cmocka_unit_test(a_machine_without_cuda_has_no_gpu),
		cmocka_unit_test(a_bare_tree_is_enough),
		cmocka_unit_test(unknown_facts_say_why),
		cmocka_unit_test(odd_documents_are_refused),
		cmocka_unit_test(what_is_saved_replays_alike),
		cmocka_unit_test(this_machine_can_be_read),
		cmocka_unit_test(lists_go_both_ways),
		cmocka_unit_test(what_cannot_be_pinned_names_its_cause),
		cmocka_unit_test(a_counter_is_read_by_name),
	};

	if (argc != 5)
		return 1;
	platforms = argv[1];
	cuda_lib = argv[2];
	nvml_lib = argv[3];
	setenv("SPW_CUDA_MODULE", argv[4], 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
