/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Cores, their kinds and caches. The core numbers of big.LITTLE machines follow no rule, so kinds
 * are derived from MIDR_EL1 and cpu_capacity, where the kernel exposes them. Source: Linux
 * Documentation/ABI/testing/sysfs-devices-system-cpu.
 *
 * What decides where lcores run: the kind (big or little), the node, the L3 it shares, whether this
 * process may use it (cores_allowed_read), whether the scheduler keeps others away (isolcpus), and
 * the frequency governor.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "plat/plat_impl.h"

#define CPU        "sys/devices/system/cpu/cpu%u/"
#define LIST_BYTES (6 * SPW_PLAT_CORE_MAX) /* every number and its comma */

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
static void cores_model_set(struct spw_plat_core *core)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(arm_model); i++)
		if (arm_model[i].implementer == midr_implementer(core->midr) &&
		    arm_model[i].part == midr_part(core->midr))
			plat_copy(core->model, sizeof(core->model), arm_model[i].name);
}

/* "32768K" or "16M" as bytes. */
static uint32_t cores_cache_bytes(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	return (uint32_t)(*end == 'M' ? value << 20 : *end == 'K' ? value << 10 : value);
}

/* The first number of "3,7-8". */
static uint32_t cores_lowest(const char *list, uint32_t dflt)
{
	char *end;
	unsigned long first = strtoul(list, &end, 10);

	return end == list ? dflt : (uint32_t)first;
}

/* The id of an L3 is the lowest core that shares it. */
static void cores_l3_read(struct plat_read *r, struct spw_plat_core *core)
{
	char text[512];

	core->l3_id = -1;
	for (uint32_t i = 0; i < 8; i++) {
		if (plat_number(r, "", 0, CPU "cache/index%u/level", core->cpu, i) != 3)
			continue;
		plat_text(r, "l3_size", text, sizeof(text), CPU "cache/index%u/size", core->cpu, i);
		core->l3_bytes = cores_cache_bytes(text);
		plat_text(r, "l3_shared", text, sizeof(text), CPU "cache/index%u/shared_cpu_list",
			  core->cpu, i);
		core->l3_id = (int32_t)cores_lowest(text, core->cpu);
	}
}

/* The word after a name in hwloc's answer: "package 0 core 3 l3 0-7", "l3". Returns: false, and out
 * is "", if it is unknown. */
static bool cores_hwloc_word(const char *text, const char *name, char *out, size_t bytes)
{
	const char *at = strstr(text, name);

	plat_copy(out, bytes, "");
	if (!at || at[strlen(name)] != ' ')
		return false;
	at += strlen(name) + 1;
	if (*at != '-')
		plat_copy(out, SPW_MIN(bytes, strcspn(at, " ") + 1), at);
	return out[0] != '\0';
}

/* hwloc's answers take the place of what sysfs did not say. */
static void cores_hwloc_read(struct plat_read *r, struct spw_plat_core *core)
{
	char text[256], word[96];

	plat_text(r, "hwloc", text, sizeof(text), "hwloc/cpu/%u", core->cpu);
	if (core->package < 0 && cores_hwloc_word(text, "package", word, sizeof(word)))
		core->package = (int32_t)cores_lowest(word, 0);
	if (core->core_id < 0 && cores_hwloc_word(text, "core", word, sizeof(word)))
		core->core_id = (int32_t)cores_lowest(word, 0);
	if (core->l3_id < 0 && cores_hwloc_word(text, "l3", word, sizeof(word)))
		core->l3_id = (int32_t)cores_lowest(word, core->cpu);
}

/* The exit latency of the deepest idle state that is not disabled. */
static void cores_idle_read(struct plat_read *r, struct spw_plat_core *core)
{
	char text[16];

	core->idle_us = -1;
	/* States are numbered without a gap; the kernel has at most ten. */
	for (uint32_t i = 0; i < 10; i++) {
		int64_t us = plat_number(r, "", -1, CPU "cpuidle/state%u/latency", core->cpu, i);

		if (us < 0)
			break;
		if (plat_number(r, "", 0, CPU "cpuidle/state%u/disable", core->cpu, i) == 0)
			core->idle_us = SPW_MAX(core->idle_us, (int32_t)SPW_MIN(us, 1000000));
	}
	snprintf(text, sizeof(text), "%d", core->idle_us);
	plat_note(r, "idle_latency_us", core->idle_us < 0 ? "" : text,
		  "/sys/devices/system/cpu/cpu*/cpuidle/state*/{latency,disable}",
		  core->idle_us < 0 ? "absent" : NULL);
}

/* Fills one core; a file that is missing leaves the "unknown" of spw_plat.h. */
static void cores_core_read(struct plat_read *r, struct spw_plat_core *core)
{
	uint32_t cpu = core->cpu;
	char text[512];

	plat_of(r, "core %u", cpu);
	core->node = -1;
	core->capacity = (uint32_t)plat_number(r, "capacity", 0, CPU "cpu_capacity", cpu);
	core->max_khz = (uint32_t)plat_number(r, "max_khz", 0, CPU "cpufreq/cpuinfo_max_freq", cpu);
	plat_text(r, "governor", core->governor, sizeof(core->governor),
		  CPU "cpufreq/scaling_governor", cpu);
	core->midr = (uint32_t)plat_number(r, "midr", 0, CPU "regs/identification/midr_el1", cpu);
	core->package =
		(int32_t)plat_number(r, "package", -1, CPU "topology/physical_package_id", cpu);
	core->core_id = (int32_t)plat_number(r, "core_id", -1, CPU "topology/core_id", cpu);
	plat_text(r, "siblings", text, sizeof(text), CPU "topology/thread_siblings_list", cpu);
	core->sibling = cores_lowest(text, cpu);
	cores_model_set(core);
	cores_l3_read(r, core);
	cores_hwloc_read(r, core);
	cores_idle_read(r, core);
}

/* Big cores are those of the fastest core's model or, where models are unknown, those with at least
 * 90 % of its capacity. */
static void cores_kinds_set(struct spw_plat *plat)
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

/* The cores that a file lists. Returns: false if it cannot be read. */
static bool cores_set_read(struct plat_read *r, const char *name, bool *set, const char *path)
{
	char text[LIST_BYTES];
	bool there = plat_text(r, name, text, sizeof(text), "%s", path);

	spw_plat_list_parse(text, set, SPW_PLAT_CORE_MAX);
	return there;
}

/* One folder node<N>: its cpulist names the cores. */
static bool cores_node_read(const char *name, void *arg)
{
	struct plat_read *r = arg;
	bool set[SPW_PLAT_CORE_MAX] = {false};
	char path[64];

	if (strncmp(name, "node", 4) || name[4] < '0' || name[4] > '9')
		return true;
	plat_of(r, "node %s", name + 4);
	snprintf(path, sizeof(path), "sys/devices/system/node/%.16s/cpulist", name);
	cores_set_read(r, "cores", set, path);
	for (uint32_t i = 0; i < r->plat->core_cnt; i++)
		if (set[r->plat->core[i].cpu])
			r->plat->core[i].node = atoi(name + 4);
	return true;
}

/* The value of a parameter of the kernel command line; "" if it is not given. */
static void cores_command_line(struct plat_read *r, const char *key, char *out, size_t bytes)
{
	const char *text, *at;
	int error = plat_tree_read(r->tree, "proc/cmdline", &text);
	size_t len = strlen(key);

	out[0] = '\0';
	for (at = text; error == 0 && *at; at += strspn(at, " \n")) {
		size_t n = strcspn(at, " \n");

		if (n > len && !strncmp(at, key, len) && at[len] == '=')
			plat_copy(out, SPW_MIN(bytes, n - len), at + len + 1);
		at += n;
	}
	plat_note(r, key, out, "/proc/cmdline", error ? "absent" : NULL);
}

/* The cores that this process may use.
 *
 * isolcpus= takes the isolated cores out of the affinity mask of every process, and any process may
 * put them back: a mask that is the cpuset without them is the one that booting gave, and nobody
 * chose it. Every other mask was chosen (taskset, CPUAffinity= of a unit) and counts. The cpuset
 * is what the control group lists and sched_setaffinity(2) accepts. */
static void cores_allowed_read(struct plat_read *r, const bool *isolated, bool *allowed)
{
	bool group[SPW_PLAT_CORE_MAX] = {false}, accepted[SPW_PLAT_CORE_MAX] = {false};
	bool has_group = plat_cgroup_cores(r, group);
	bool is_told = cores_set_read(r, "cores_accepted", accepted, "sysconf/cores");
	bool as_booted = has_group || is_told;
	char text[LIST_BYTES];

	plat_label_text(r, "cores_affinity", text, sizeof(text), "proc/self/status",
			"Cpus_allowed_list:");
	spw_plat_list_parse(text, allowed, SPW_PLAT_CORE_MAX);
	for (uint32_t i = 0; i < r->plat->core_cnt; i++) {
		uint32_t cpu = r->plat->core[i].cpu;

		group[cpu] = (group[cpu] || !has_group) && (accepted[cpu] || !is_told);
		as_booted = as_booted && allowed[cpu] == (group[cpu] && !isolated[cpu]);
	}
	for (uint32_t i = 0; i < r->plat->core_cnt && as_booted; i++)
		allowed[r->plat->core[i].cpu] = group[r->plat->core[i].cpu];
}

/* Online cores only: others have no topology in sysfs. Errors: a tree without cores is not a
 * machine's. */
static int cores_find(struct plat_read *r)
{
	bool online[SPW_PLAT_CORE_MAX] = {false};
	struct spw_plat *plat = r->plat;

	cores_set_read(r, "cores_online", online, "sys/devices/system/cpu/online");
	for (uint32_t cpu = 0; cpu < SPW_PLAT_CORE_MAX; cpu++)
		plat->core_cnt += online[cpu];
	if (plat->core_cnt == 0)
		return spw_err(ENOENT, "sys/devices/system/cpu/online lists no core: this is no "
				       "machine's sysfs");
	plat->core = calloc(plat->core_cnt, sizeof(plat->core[0]));
	if (!plat->core)
		return spw_err(ENOMEM, "no memory for the facts of %u cores", plat->core_cnt);
	for (uint32_t cpu = 0, i = 0; cpu < SPW_PLAT_CORE_MAX; cpu++)
		if (online[cpu])
			plat->core[i++].cpu = cpu;
	return 0;
}

/* The sets of the whole machine first; then each core's own files; nodes last, since they refer to
 * cores. */
int plat_cores_read(struct plat_read *r)
{
	bool allowed[SPW_PLAT_CORE_MAX] = {false}, isolated[SPW_PLAT_CORE_MAX] = {false};
	bool tickless[SPW_PLAT_CORE_MAX] = {false}, rcu_free[SPW_PLAT_CORE_MAX] = {false};
	struct spw_plat *plat = r->plat;
	char text[LIST_BYTES];
	int rc;

	plat_of(r, "host");
	if ((rc = cores_find(r)) < 0)
		return rc;
	cores_set_read(r, "cores_isolated", isolated, "sys/devices/system/cpu/isolated");
	cores_set_read(r, "cores_tickless", tickless, "sys/devices/system/cpu/nohz_full");
	cores_command_line(r, "rcu_nocbs", text, sizeof(text));
	spw_plat_list_parse(text, rcu_free, SPW_PLAT_CORE_MAX);
	cores_allowed_read(r, isolated, allowed);
	plat->autogroup =
		plat_number(r, "autogroup", 0, "proc/sys/kernel/sched_autogroup_enabled") == 1;
	for (uint32_t i = 0; i < plat->core_cnt; i++) {
		struct spw_plat_core *core = &plat->core[i];

		core->allowed = allowed[core->cpu];
		core->isolated = isolated[core->cpu];
		core->tickless = tickless[core->cpu];
		core->rcu_free = rcu_free[core->cpu];
		plat->allowed_cnt += core->allowed;
		cores_core_read(r, core);
	}
	cores_kinds_set(plat);
	plat_tree_each(r->tree, "sys/devices/system/node", cores_node_read, r);
	return 0;
}
