/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "--lcores auto" on recorded machines: which cores, and what EAL gets.
 * Usage: app_lcores_test PLATFORMS
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "app_lcores.h"
#include "unit_machine.h"

static struct spw_plat *machine(const char *name, const char *changes)
{
	struct spw_plat *plat;

	assert_int_equal(unit_machine(name, changes, (struct spw_plat_from){0}, &plat), 0);
	return plat;
}

/* What "main:workers" is picked. */
static void picks(const char *name, const char *changes, const char *nic, uint32_t cnt,
		  const char *wanted)
{
	struct spw_plat *plat = machine(name, changes);
	uint32_t cpu[16];
	char text[64];
	size_t used;

	assert_int_equal(spw_plat_pick(plat, &(struct spw_plat_pick){cnt, nic}, cpu), 0);
	used = (size_t)snprintf(text, sizeof(text), "%u:", cpu[0]);
	for (uint32_t i = 1; i < cnt; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u", i > 1 ? "," : "",
					 cpu[i]);
	assert_string_equal(text, wanted);
	spw_plat_free(plat);
}

/* What Linux shows for a mask that booting or taskset gave. */
#define MASK(list)     "'proc/self/status': 'Cpus_allowed_list:\\t" list "',"
#define ISOLATED(list) "'sys/devices/system/cpu/isolated': '" list "',"

static void workers_get_fast_isolated_cores(void **state)
{
	(void)state;
	picks("dgx-spark", "", "rocep1s0f0", 3, "0:16,17");
	picks("dgx-spark", "", "rocep1s0f0", 6, "0:16,17,18,19,15");
	/* nothing is isolated: fast ones, in the cluster with the larger cache */
	picks("dgx-spark", ISOLATED("") MASK("0-19"), NULL, 4, "0:15,16,17");
	/* slow cores are taken last, isolated or not */
	picks("dgx-spark", ISOLATED("0-4") MASK("5-19"), NULL, 3, "10:15,16");
	picks("bare-vm", "", "ens3", 3, "0:2,3");
	picks("bare-vm", "", NULL, 1, "0:");
}

/* isolcpus= takes cores out of the mask of every process; the cpuset still has them. */
static void isolated_cores_are_used_unless_the_mask_was_chosen(void **state)
{
	static const char v1[] =
		"'sys/fs/cgroup/cpuset.cpus.effective': {'!': 'ENOENT'},"
		"'sysconf/cores': {'!': 'ENOENT'},"
		"'proc/self/cgroup': '3:cpu,cpuset:/job\\n1:name=systemd:/\\n0::/',"
		"'sys/fs/cgroup/cpuset/job/cpuset.effective_cpus': '0-3,16-17',"
		"'sys/fs/cgroup/cpuset/cpuset.effective_cpus': '0-19'," MASK("0-3");
	static const char container[] =
		"'proc/self/cgroup': '0::/system.slice/docker-7.scope'," /* on the host */
		"'sys/fs/cgroup/cpuset.cpus.effective': '0-1,18',"
		"'sysconf/cores': '0-1,18'," MASK("0-1");

	(void)state;
	picks("dgx-spark", MASK("0-3"), NULL, 3, "0:1,2");
	picks("dgx-spark", MASK("0,18-19"), NULL, 3, "0:18,19");
	picks("dgx-spark", v1, NULL, 3, "0:16,17");
	picks("dgx-spark", container, NULL, 2, "0:18");
	/* either source is enough; Linux lists cores that could be plugged in, too */
	picks("dgx-spark", "'sysconf/cores': {'!': 'ENOENT'}," MASK("0-15,20-63"), NULL, 2, "0:16");
	picks("dgx-spark", "'sys/fs/cgroup': {'!': 'ENOENT'},", NULL, 2, "0:16");
	picks("dgx-spark", "'sys/fs/cgroup': {'!': 'ENOENT'},'sysconf/cores': {'!': 'ENOENT'},",
	      NULL, 2, "0:15");
}

static void workers_are_near_their_nic(void **state)
{
	static const char two_nodes[] =
		"'sys/devices/system/node/node0/cpulist': '0-3,8-11',"
		"'sys/devices/system/node/node1/cpulist': '4-7,12-15',"
		"'sys/devices/pci0000:40/0000:40:03.1/0000:41:00.1/numa_node': '1',";

	(void)state;
	picks("x86-connectx5", two_nodes, "mlx5_0", 3, "12:2,3");
	picks("x86-connectx5", two_nodes, "mlx5_1", 3, "0:4,5");
	picks("x86-connectx5", two_nodes, "enp65s0f1np1", 3, "0:4,5");
	picks("x86-connectx5", two_nodes, "0000:41:00.1", 3, "0:4,5");
}

static void physical_cores_come_first(void **state)
{
	static const char all[] = ISOLATED("2-15") MASK("0-1");

	(void)state;
	picks("x86-connectx5", all, NULL, 7, "0:2,3,4,5,6,7");
	/* and a thread beside a worker's is the last choice for the main lcore */
	picks("x86-connectx5", "", NULL, 3, "0:2,3");
	picks("x86-connectx5", MASK("2,3,10"), NULL, 3, "10:2,3");
}

static void too_few_cores_are_refused(void **state)
{
	struct spw_plat *plat = machine("bare-vm", "");
	uint32_t cpu[8];

	(void)state;
	assert_int_equal(spw_plat_pick(plat, &(struct spw_plat_pick){.cnt = 5}, cpu), -ENOENT);
	assert_non_null(strstr(spw_err_text(), "5 cores are wanted, and this process may use 4"));
	spw_plat_free(plat);
}

static void eal_gets(char **argv, const char *list, const char *main_lcore)
{
	struct spw_plat *plat = machine("dgx-spark", "");
	struct app_eal eal = {.argc = 0};

	for (; argv[eal.argc]; eal.argc++)
		eal.argv[eal.argc] = argv[eal.argc];
	assert_true(app_lcores_are_auto(&eal));
	assert_int_equal(app_lcores_choose(&eal, plat, 2, "rocep1s0f0"), 0);
	assert_false(app_lcores_are_auto(&eal));
	assert_string_equal(eal.argv[eal.argc - 2], list);
	assert_string_equal(eal.argv[eal.argc - 1], main_lcore);
	spw_plat_free(plat);
}

static void every_way_to_say_auto(void **state)
{
	static char prog[] = "spinwire", l[] = "-l", lcores[] = "--lcores", value[] = "auto",
		    joined[] = "-lauto", equal[] = "--lcores=auto";
	struct app_eal none = {.argv = {prog, l, lcores}, .argc = 2};

	(void)state;
	eal_gets((char *[]){prog, l, value, NULL}, "0,16,17", "--main-lcore=0");
	eal_gets((char *[]){prog, lcores, value, NULL}, "0,16,17", "--main-lcore=0");
	eal_gets((char *[]){prog, joined, NULL}, "-l0,16,17", "--main-lcore=0");
	eal_gets((char *[]){prog, equal, NULL}, "--lcores=0,16,17", "--main-lcore=0");
	assert_false(app_lcores_are_auto(&none));
}

/* Cores above RTE_MAX_LCORE are named by "@". */
static void high_cores_get_low_lcores(void **state)
{
	static char prog[] = "spinwire", l[] = "-l", value[] = "auto", joined[] = "-lauto";
	static const char high[] = "'sys/devices/system/cpu/online': '0-1,900-901',"
				   "'sys/devices/system/cpu/isolated': '900-901',"
				   "'sys/fs/cgroup/cpuset.cpus.effective': '0-1,900-901',"
				   "'sysconf/cores': '0-1,900-901',";
	struct app_eal two = {.argv = {prog, l, value}, .argc = 3};
	struct app_eal one = {.argv = {prog, joined}, .argc = 2};
	struct spw_plat *plat = machine("bare-vm", high);

	(void)state;
	assert_int_equal(app_lcores_choose(&two, plat, 2, NULL), 0);
	assert_string_equal(two.argv[1], "--lcores");
	assert_string_equal(two.argv[2], "0@0,1@900,2@901");
	assert_string_equal(two.argv[3], "--main-lcore=0");
	assert_int_equal(app_lcores_choose(&one, plat, 1, NULL), 0);
	assert_string_equal(one.argv[1], "--lcores=0@0,1@900");
	spw_plat_free(plat);
}

static void blame_names_slow_and_shared_cores(void **state)
{
	struct spw_plat *plat = machine("dgx-spark", ISOLATED("0,16") MASK("1-15,17-19"));
	char text[96];

	(void)state;
	assert_false(spw_plat_core_blame(plat, 16, text, sizeof(text)));
	assert_string_equal(text, "");
	assert_true(spw_plat_core_blame(plat, 0, text, sizeof(text)));
	assert_string_equal(text, "core 0 is of the slower kind (Cortex-A725)");
	assert_true(spw_plat_core_blame(plat, 17, text, sizeof(text)));
	assert_string_equal(text, "core 17 is not isolated");
	assert_true(spw_plat_core_blame(plat, 1, text, sizeof(text)));
	assert_non_null(strstr(text, "slower kind (Cortex-A725) and not isolated"));
	spw_plat_free(plat);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(workers_get_fast_isolated_cores),
		cmocka_unit_test(isolated_cores_are_used_unless_the_mask_was_chosen),
		cmocka_unit_test(workers_are_near_their_nic),
		cmocka_unit_test(physical_cores_come_first),
		cmocka_unit_test(too_few_cores_are_refused),
		cmocka_unit_test(every_way_to_say_auto),
		cmocka_unit_test(high_cores_get_low_lcores),
		cmocka_unit_test(blame_names_slow_and_shared_cores),
	};

	if (argc != 2)
		return 1;
	platforms = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
