/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Cores, their kinds and caches. The core numbers of big.LITTLE machines follow no rule, so kinds
 * are derived from MIDR_EL1 and cpu_capacity, where the kernel exposes them. Source: Linux
 * Documentation/ABI/testing/sysfs-devices-system-cpu.
 *
 * What decides where lcores run: the kind (big or little), the node, the L3 it shares, whether this
 * process may use it, whether the scheduler keeps others away (isolcpus), and the frequency
 * governor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "plat/plat_impl.h"

#define CPU "devices/system/cpu/cpu%u/"

/* Implementer and part number of MIDR_EL1. Source: Linux arch/arm64/include/asm/cputype.h */
static const struct {
	uint32_t implementer, part;
	const char *name;
} arm_model[] = {
	{0x41, 0xd08, "Cortex-A72"},  {0x41, 0xd0c, "Neoverse-N1"}, {0x41, 0xd40, "Neoverse-V1"},
	{0x41, 0xd41, "Cortex-A78"},  {0x41, 0xd49, "Neoverse-N2"}, {0x41, 0xd4f, "Neoverse-V2"},
	{0x41, 0xd81, "Cortex-A720"}, {0x41, 0xd82, "Cortex-X4"},   {0x41, 0xd84, "Neoverse-V3"},
	{0x41, 0xd85, "Cortex-X925"}, {0x41, 0xd87, "Cortex-A725"},
};

/* MIDR_EL1: implementer in bits 31 .. 24, part number in bits 15 .. 4. */
static uint32_t midr_implementer(uint32_t midr)
{
	return midr >> 24;
}

static uint32_t midr_part(uint32_t midr)
{
	return (midr >> 4) & 0xfff;
}

/* The name by MIDR; "" for a model that is not in the table, which changes no decision. */
static void model_set(struct spw_plat_core *core)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(arm_model); i++)
		if (arm_model[i].implementer == midr_implementer(core->midr) &&
		    arm_model[i].part == midr_part(core->midr))
			plat_copy(core->model, sizeof(core->model), arm_model[i].name);
}

/* "32768K" or "16M" as bytes. */
static uint32_t cache_bytes(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	return (uint32_t)(*end == 'M' ? value << 20 : *end == 'K' ? value << 10 : value);
}

/* The first number of "3,7-8". */
static uint32_t lowest_of(const char *list, uint32_t dflt)
{
	char *end;
	unsigned long first = strtoul(list, &end, 10);

	return end == list ? dflt : (uint32_t)first;
}

/* The id of an L3 is the lowest core that shares it. */
static void l3_read(const struct plat_root *root, struct spw_plat_core *core)
{
	char text[512];

	core->l3_id = -1;
	for (uint32_t i = 0; i < 8; i++) {
		if (plat_number(0, root->sys, CPU "cache/index%u/level", core->cpu, i) != 3)
			continue;
		plat_text(text, sizeof(text), root->sys, CPU "cache/index%u/size", core->cpu, i);
		core->l3_bytes = cache_bytes(text);
		plat_text(text, sizeof(text), root->sys, CPU "cache/index%u/shared_cpu_list",
			  core->cpu, i);
		core->l3_id = (int32_t)lowest_of(text, core->cpu);
	}
}

/* Fills one core; a file that is missing leaves the "unknown" of spw_plat.h. */
static void core_read(const struct plat_root *root, struct spw_plat_core *core)
{
	uint32_t cpu = core->cpu;
	char text[512];

	core->node = -1;
	core->capacity = (uint32_t)plat_number(0, root->sys, CPU "cpu_capacity", cpu);
	core->max_khz = (uint32_t)plat_number(0, root->sys, CPU "cpufreq/cpuinfo_max_freq", cpu);
	plat_text(core->governor, sizeof(core->governor), root->sys, CPU "cpufreq/scaling_governor",
		  cpu);
	core->midr = (uint32_t)plat_number(0, root->sys, CPU "regs/identification/midr_el1", cpu);
	core->package =
		(int32_t)plat_number(-1, root->sys, CPU "topology/physical_package_id", cpu);
	core->core_id = (int32_t)plat_number(-1, root->sys, CPU "topology/core_id", cpu);
	plat_text(text, sizeof(text), root->sys, CPU "topology/thread_siblings_list", cpu);
	core->sibling = lowest_of(text, cpu);
	model_set(core);
	l3_read(root, core);
}

/* Big cores are those of the fastest core's model or, where models are unknown, those with at least
 * 90 % of its capacity. */
static void kinds_set(struct spw_plat *plat)
{
	const struct spw_plat_core *best = plat->core;
	bool mixed = false;

	for (uint32_t i = 1; i < plat->core_cnt; i++)
		if (plat->core[i].capacity > best->capacity)
			best = &plat->core[i];
	for (uint32_t i = 0; i < plat->core_cnt; i++) {
		struct spw_plat_core *core = &plat->core[i];
		bool big = best->midr ? midr_part(core->midr) == midr_part(best->midr)
				      : core->capacity * 10 >= best->capacity * 9;

		core->kind = big ? SPW_PLAT_CORE_BIG : SPW_PLAT_CORE_LITTLE;
		mixed = mixed || !big;
	}
	for (uint32_t i = 0; i < plat->core_cnt && !mixed; i++)
		plat->core[i].kind = SPW_PLAT_CORE_ONLY;
}

struct node_walk {
	const struct plat_root *root;
	struct spw_plat *plat;
};

/* One folder node<N>: its cpulist names the cores. */
static bool node_cores(const char *name, void *arg)
{
	struct node_walk *walk = arg;
	bool set[SPW_PLAT_CORE_MAX] = {false};
	char text[1024];

	if (strncmp(name, "node", 4) || name[4] < '0' || name[4] > '9')
		return true;
	plat_text(text, sizeof(text), walk->root->sys, "devices/system/node/%s/cpulist", name);
	plat_list(text, set, SPW_PLAT_CORE_MAX);
	for (uint32_t i = 0; i < walk->plat->core_cnt; i++)
		if (set[walk->plat->core[i].cpu])
			walk->plat->core[i].node = atoi(name + 4);
	return true;
}

int plat_cores_read(const struct plat_root *root, struct spw_plat *plat)
{
	bool online[SPW_PLAT_CORE_MAX] = {false}, allowed[SPW_PLAT_CORE_MAX] = {false};
	bool isolated[SPW_PLAT_CORE_MAX] = {false};
	struct node_walk walk = {root, plat};
	char text[1024];

	if (!plat_text(text, sizeof(text), root->sys, "devices/system/cpu/online"))
		return spw_err(ENOENT,
			       "%s/devices/system/cpu/online cannot be read; is %s a sysfs tree",
			       root->sys, root->sys);
	plat->core_cnt = plat_list(text, online, SPW_PLAT_CORE_MAX);
	plat->core = calloc(SPW_MAX(plat->core_cnt, 1u), sizeof(plat->core[0]));
	if (!plat->core)
		return spw_err(ENOMEM, "no memory for the facts of %u cores", plat->core_cnt);
	plat_label_text(text, sizeof(text), root->proc, "self/status", "Cpus_allowed_list:");
	plat_list(text, allowed, SPW_PLAT_CORE_MAX);
	plat_text(text, sizeof(text), root->sys, "devices/system/cpu/isolated");
	plat_list(text, isolated, SPW_PLAT_CORE_MAX);
	for (uint32_t cpu = 0, i = 0; cpu < SPW_PLAT_CORE_MAX; cpu++) {
		if (!online[cpu])
			continue;
		plat->core[i].cpu = cpu;
		plat->core[i].allowed = allowed[cpu];
		plat->core[i].isolated = isolated[cpu];
		plat->allowed_cnt += allowed[cpu];
		core_read(root, &plat->core[i++]);
	}
	plat->autogroup = plat_number(0, root->proc, "sys/kernel/sched_autogroup_enabled") == 1;
	kinds_set(plat);
	plat_each(root->sys, "devices/system/node", node_cores, &walk);
	return 0;
}
