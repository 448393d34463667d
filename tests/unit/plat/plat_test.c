/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The facts of a DGX Spark, read from a recorded tree and a fake CUDA driver, and of this machine.
 * Usage: plat_test SPARK_TREE FAKE_CUDA_LIBRARY
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plat/plat_impl.h"
#include "unit_test.h"

static const char *tree_file, *cuda_lib;
static char root[] = "/tmp/spw-plat-test-XXXXXX", sys_root[64], proc_root[64];

static void folders_make(char *path)
{
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0777);
		*slash = '/';
	}
}

/* "path = content" or "path -> target" */
static int line_make(char *line)
{
	char path[1024], *arrow = strstr(line, " -> "), *equals = strstr(line, " = "),
			 *end = arrow ? arrow : equals;
	FILE *file;

	if (line[0] == '#' || line[0] == '\n')
		return 0;
	line[strcspn(line, "\n")] = '\0';
	if (!end)
		return -1;
	snprintf(path, sizeof(path), "%s/%.*s", root, (int)(end - line), line);
	folders_make(path);
	if (arrow)
		return symlink(arrow + 4, path);
	file = fopen(path, "w");
	if (!file)
		return -1;
	fprintf(file, "%s\n", equals + 3);
	return fclose(file);
}

static int tree_make(void **state)
{
	FILE *file = fopen(tree_file, "r");
	char line[1024];

	(void)state;
	if (!file || !mkdtemp(root))
		return -1;
	snprintf(sys_root, sizeof(sys_root), "%s/sys", root);
	snprintf(proc_root, sizeof(proc_root), "%s/proc", root);
	while (fgets(line, sizeof(line), file))
		if (line_make(line))
			return -1;
	return fclose(file);
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int tree_remove(void **state)
{
	(void)state;
	return nftw(root, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static struct spw_plat *spark(void)
{
	const struct spw_plat_from from = {sys_root, proc_root, cuda_lib};
	struct spw_plat *plat;

	assert_int_equal(spw_plat_read(&from, &plat), 0);
	return plat;
}

static const struct spw_plat_finding *finding(const struct spw_plat *plat, const char *code)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (strcmp(plat->finding[i].code, code) == 0)
			return &plat->finding[i];
	return NULL;
}

static const struct spw_plat_nic *nic(const struct spw_plat *plat, const char *netdev)
{
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		if (strcmp(plat->nic[i].netdev, netdev) == 0)
			return &plat->nic[i];
	fail_msg("no %s", netdev);
	return NULL;
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
	assert_string_equal(finding(plat, "cores-mixed")->what,
			    "fast cores 5-9,15-19, slower cores 0-4,10-14");
	assert_null(finding(plat, "cores-few"));
	assert_string_equal(finding(plat, "cores-governor")->what,
			    "cores 0 run under the frequency governor powersave");
	assert_string_equal(finding(plat, "cores-shared")->what,
			    "cores 0-9 are shared with everything else");
	assert_true(plat->autogroup);
	assert_non_null(finding(plat, "cores-autogroup"));
	spw_plat_free(plat);
}

static void spark_memory_and_names(void **state)
{
	struct spw_plat *plat = spark();
	const struct spw_plat_node *node = spw_plat_node_by_id(plat, 0);

	(void)state;
	assert_string_equal(plat->machine, "NVIDIA_DGX_Spark");
	assert_string_equal(plat->arch, "aarch64");
	assert_string_equal(plat->kernel, "6.11.0-1016-nvidia");
	assert_int_equal(plat->node_cnt, 1);
	assert_true(node->mem_bytes == 125516800ull << 10);
	assert_int_equal(node->huge_cnt, 4);
	for (uint32_t i = 0; i < node->huge_cnt; i++)
		if (node->huge[i].page_bytes == 2u << 20)
			assert_int_equal(node->huge[i].free_cnt, 500);
	assert_int_equal(plat->memlock_bytes, 8388608);
	assert_non_null(finding(plat, "memlock-low"));
	assert_null(finding(plat, "hugepages-none"));
	assert_null(spw_plat_node_by_id(plat, 1));
	spw_plat_free(plat);
}

static void spark_ports_and_their_halves(void **state)
{
	struct spw_plat *plat = spark();
	const struct spw_plat_nic *first = nic(plat, "enp1s0f0np0"),
				  *second = nic(plat, "enP2p1s0f0np0");
	const struct spw_plat_nic *narrow = nic(plat, "enP2p1s0f1np1");

	(void)state;
	/* lo has no device; virtio's PCI function is the folder above its device */
	assert_int_equal(plat->nic_cnt, 5);
	assert_string_equal(nic(plat, "eth0")->pci, "0000:00:03.0");
	assert_int_equal(nic(plat, "eth0")->half_of, -1);
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
		finding(plat, "nic-halves")->what,
		"enp1s0f0np0 and enP2p1s0f0np0 are two PCIe halves of one physical port");
	assert_non_null(
		strstr(finding(plat, "nic-halves-differ")->what, "enP2p1s0f0np0: MTU 1500"));
	assert_non_null(strstr(finding(plat, "nic-pcie-narrow")->what,
			       "enP2p1s0f1np1: PCIe runs at x2 32.0"));
	assert_int_equal(finding(plat, "nic-pcie-narrow")->severity, SPW_PLAT_WARN);
	assert_non_null(finding(plat, "nic-no-link"));
	spw_plat_free(plat);
}

static void spark_gpu(void **state)
{
	struct spw_plat *plat = spark();
	const struct spw_plat_gpu *gpu = &plat->gpu[0];

	(void)state;
	assert_int_equal(plat->gpu_cnt, 1);
	assert_int_equal(plat->cuda_driver, 13000);
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
	assert_non_null(strstr(finding(plat, "gpu-integrated")->todo, "cuda-host"));
	assert_null(finding(plat, "gpu-none"));
	spw_plat_free(plat);
}

static void a_machine_without_cuda_has_no_gpu(void **state)
{
	static const char *const libs[] = {"/nonexistent/libcuda.so.1", "libm.so.6", ""};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(libs); i++) {
		const struct spw_plat_from from = {sys_root, proc_root, libs[i]};
		struct spw_plat *plat;

		assert_int_equal(spw_plat_read(&from, &plat), 0);
		assert_int_equal(plat->gpu_cnt, 0);
		assert_true(strlen(plat->cuda_why) > 0);
		assert_non_null(strstr(finding(plat, "gpu-none")->what, plat->cuda_why));
		spw_plat_free(plat);
	}
}

static void a_bare_tree_is_enough(void **state)
{
	struct spw_plat_from from = {"/nonexistent", "/nonexistent", ""};
	char bare[80], path[128];
	struct spw_plat *plat;

	(void)state;
	assert_int_equal(spw_plat_read(&from, &plat), -ENOENT);
	assert_non_null(strstr(spw_err_text(), "/nonexistent"));
	snprintf(bare, sizeof(bare), "%s/bare", root);
	snprintf(path, sizeof(path), "bare/devices/system/cpu/online = 0\n");
	assert_int_equal(line_make(path), 0);
	from.sys = bare;
	assert_int_equal(spw_plat_read(&from, &plat), 0);
	assert_int_equal(plat->core_cnt, 1);
	assert_int_equal(plat->core[0].kind, SPW_PLAT_CORE_ONLY);
	assert_int_equal(plat->core[0].node, -1);
	assert_int_equal(plat->nic_cnt, 0);
	assert_int_equal(plat->node_cnt, 1);
	assert_non_null(finding(plat, "cores-few"));
	assert_non_null(finding(plat, "hugepages-none"));
	assert_null(finding(plat, "cores-mixed"));
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

		plat_list(lists[i], set, 16);
		plat_list_text(set, 16, text, sizeof(text));
		assert_string_equal(text, lists[i]);
	}
	/* numbers beyond the set are ignored */
	assert_int_equal(plat_list("14-20", (bool[16]){false}, 16), 2);
	assert_int_equal(plat_list("x", (bool[16]){false}, 16), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spark_cores),
		cmocka_unit_test(spark_memory_and_names),
		cmocka_unit_test(spark_ports_and_their_halves),
		cmocka_unit_test(spark_gpu),
		cmocka_unit_test(a_machine_without_cuda_has_no_gpu),
		cmocka_unit_test(a_bare_tree_is_enough),
		cmocka_unit_test(this_machine_can_be_read),
		cmocka_unit_test(lists_go_both_ways),
	};

	if (argc != 3)
		return 1;
	tree_file = argv[1];
	cuda_lib = argv[2];
	return cmocka_run_group_tests(tests, tree_make, tree_remove);
}
