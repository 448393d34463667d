/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings: what the facts mean for a data plane that spins, and what to do about it. Each has a
 * stable code; docs and scripts refer to it. Texts end without a full stop; what to do begins with
 * the command. An unknown fact is never a finding. This file: cores and memory.
 *
 * A finding is made by one judge from facts alone, never from the machine: a saved tree gives the
 * same findings as the machine that it was recorded on.
 *
 *   cores, nodes, memory   findings.c      plat.c calls the judges (plat_impl.h) once all facts are
 *   drivers, rights        host.c          read; ../pairs.c judges what --measure adds
 *   NICs, links, GIDs      nic.c
 *   GPUs                   gpu.c
 *
 * A new finding is one plat_find with its plat_advise, and a machine that has it in
 * tests/unit/plat/variants.json. A fact that it needs is read by its reader in lib/plat first.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plat/plat_impl.h"

#define MEMLOCK_WANTED (64ull << 20)
#define IDLE_US_MAX    100 /* an exit latency that a microsecond tail would show */
#define CAP_IPC_LOCK   14

/* When the table is full the finding goes into a spill entry, so that no caller has to check. */
struct spw_plat_finding *plat_find(struct spw_plat *plat, enum spw_plat_severity severity,
				   const char *code, const char *fmt, ...)
{
	static struct spw_plat_finding spill;
	struct spw_plat_finding *f = &spill;
	va_list ap;

	if (plat->finding_cnt < SPW_PLAT_FINDING_MAX)
		f = &plat->finding[plat->finding_cnt++];
	f->severity = severity;
	f->code = code;
	f->todo[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(f->what, sizeof(f->what), fmt, ap);
	va_end(ap);
	return f;
}

void plat_advise(struct spw_plat_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->todo, sizeof(f->todo), fmt, ap);
	va_end(ap);
}

/* ---- cores ---- */

/* all: of the machine; else of the cores that this process may use. */
static void find_set_list(const struct spw_plat *plat,
			  bool (*fits)(const struct spw_plat_core *core), bool all, char *out,
			  size_t bytes)
{
	bool set[SPW_PLAT_CORE_MAX] = {false};

	for (uint32_t i = 0; i < plat->core_cnt; i++)
		set[plat->core[i].cpu] = (all || plat->core[i].allowed) && fits(&plat->core[i]);
	spw_plat_list_text(set, SPW_PLAT_CORE_MAX, out, bytes);
}

/* The list of the allowed cores that fit; "" if there is none. */
static void find_core_list(const struct spw_plat *plat,
			   bool (*fits)(const struct spw_plat_core *core), char *out, size_t bytes)
{
	find_set_list(plat, fits, false, out, bytes);
}

static bool core_is_any(const struct spw_plat_core *core)
{
	return core != NULL;
}

static bool core_is_fast(const struct spw_plat_core *core)
{
	return core->kind != SPW_PLAT_CORE_LITTLE;
}

static bool core_is_isolated(const struct spw_plat_core *core)
{
	return core->isolated;
}

/* What an lcore should have: fast, and nobody else on it. */
static bool core_is_data(const struct spw_plat_core *core)
{
	return core->isolated && core_is_fast(core);
}

/* An unknown governor is no finding. */
static bool core_saves_power(const struct spw_plat_core *core)
{
	return core->governor[0] && strcmp(core->governor, "performance");
}

/* nohz_full without rcu_nocbs, or the reverse, leaves one of the two kinds of interruption. */
static bool core_is_ticking(const struct spw_plat_core *core)
{
	return core->isolated && !(core->tickless && core->rcu_free);
}

/* Only isolated cores count: they are those that lcores should have. */
static bool core_sleeps_deep(const struct spw_plat_core *core)
{
	return core->isolated && core->idle_us >= IDLE_US_MAX;
}

/* The best cores of the machine are out of this process's reach. what: what it may use is lacking.
 */
static void reach_find(struct spw_plat *plat, const char *code, const char *what)
{
	char own[64], best[64];

	find_core_list(plat, core_is_any, own, sizeof(own));
	find_set_list(plat, core_is_data, true, best, sizeof(best));
	if (!best[0])
		find_set_list(plat, core_is_fast, true, best, sizeof(best));
	plat_advise(plat_find(plat, SPW_PLAT_WARN, code,
			      "this process may use the cores %s, %s; better ones are %s", own,
			      what, best),
		    "taskset -c %s COMMAND, if it was started under a mask; else its cpuset: "
		    "cpuset.cpus of its control group, --cpuset-cpus of a container, AllowedCPUs= "
		    "of a unit",
		    best);
}

static void shared_find(struct spw_plat *plat, const char *fast)
{
	plat_advise(plat_find(plat, SPW_PLAT_NOTE, "cores-shared",
			      "no core is isolated: %s are shared with everything else", fast),
		    "isolcpus=LIST nohz_full=LIST rcu_nocbs=LIST on the kernel command line, with "
		    "the lcores' numbers, keep other threads and most timer interrupts away");
	if (plat->autogroup)
		plat_advise(
			plat_find(plat, SPW_PLAT_NOTE, "cores-autogroup",
				  "the scheduler groups tasks by session, and on a core that an "
				  "lcore shares, one session can keep another's threads waiting "
				  "for seconds (observed on Linux 6.18)"),
			"sysctl kernel.sched_autogroup_enabled=0, or no other session on the "
			"lcores' cores");
}

/* Whether any core may be isolated and fast, and which are or could be. */
static void isolation_judge(struct spw_plat *plat)
{
	char isolated[96], data[96], fast[96], elsewhere[96];

	find_core_list(plat, core_is_isolated, isolated, sizeof(isolated));
	find_core_list(plat, core_is_data, data, sizeof(data));
	find_core_list(plat, core_is_fast, fast, sizeof(fast));
	find_set_list(plat, core_is_data, true, elsewhere, sizeof(elsewhere));
	if (data[0] || !plat->allowed_cnt)
		return;
	if (!fast[0])
		reach_find(plat, "cores-slow", "all of the slower kind");
	else if (elsewhere[0])
		reach_find(plat, "cores-outside", "none of which is fast and isolated");
	else if (isolated[0])
		plat_advise(plat_find(plat, SPW_PLAT_WARN, "cores-slow",
				      "the isolated cores %s are of the slower kind; %s are fast",
				      isolated, fast),
			    "isolcpus=, nohz_full= and rcu_nocbs= of the kernel command line with "
			    "some of %s in place of %s",
			    fast, isolated);
	else
		shared_find(plat, fast);
}

/* A core that this process may not use does not count. */
static bool node_has_isolated(const struct spw_plat *plat, int32_t node)
{
	for (uint32_t i = 0; i < plat->core_cnt; i++)
		if (plat->core[i].allowed && plat->core[i].isolated && plat->core[i].node == node)
			return true;
	return false;
}

/* Only where there is a choice: several nodes, and somebody has isolated cores. NICs without an
 * RDMA device are left out. */
static void nodes_distance_judge(struct spw_plat *plat)
{
	char isolated[96];

	find_core_list(plat, core_is_isolated, isolated, sizeof(isolated));
	for (uint32_t i = 0; i < plat->nic_cnt && isolated[0] && plat->node_cnt > 1; i++)
		if (plat->nic[i].rdma[0] && plat->nic[i].node >= 0 &&
		    !node_has_isolated(plat, plat->nic[i].node))
			plat_advise(
				plat_find(plat, SPW_PLAT_WARN, "cores-far",
					  "%s is on NUMA node %d, and none of the isolated cores "
					  "%s is",
					  plat->nic[i].rdma, plat->nic[i].node, isolated),
				"cat /sys/devices/system/node/node%d/cpulist: isolate cores of "
				"that list instead",
				plat->nic[i].node);
}

/* CAP_IPC_LOCK lifts the limit, so a low one is harmless then. If the capabilities are unknown, the
 * limit decides. */
static void memory_judge(struct spw_plat *plat)
{
	bool may_lock = plat->cap_known && plat->cap >> CAP_IPC_LOCK & 1;
	uint64_t free_bytes = 0;

	for (uint32_t n = 0; n < plat->node_cnt; n++)
		for (uint32_t h = 0; h < plat->node[n].huge_cnt; h++)
			free_bytes +=
				plat->node[n].huge[h].free_cnt * plat->node[n].huge[h].page_bytes;
	if (free_bytes == 0)
		plat_advise(plat_find(plat, SPW_PLAT_WARN, "hugepages-none", "no free hugepages"),
			    "echo 512 > /proc/sys/vm/nr_hugepages; plain pages cost TLB misses");
	if (plat->memlock_bytes < MEMLOCK_WANTED && !may_lock)
		plat_advise(plat_find(plat, SPW_PLAT_ERROR, "memlock-low",
				      "this process may lock %" PRIu64
				      " KiB and has no CAP_IPC_LOCK",
				      plat->memlock_bytes >> 10),
			    "ulimit -l unlimited (LimitMEMLOCK=infinity in a unit, --ulimit "
			    "memlock=-1 for a container): memory registration fails without it");
	if (plat_cma_is_lost(plat))
		plat_advise(
			plat_find(plat, SPW_PLAT_WARN, "cma-lost",
				  "CmaFree (%" PRIu64 " KiB) is above CmaTotal (%" PRIu64
				  " KiB): registering memory with a device fails with ENOMEM, "
				  "whatever the limits are (known of kexec handover, KHO, on "
				  "DGX Sparks)",
				  plat->cma_free_bytes >> 10, plat->cma_total_bytes >> 10),
			"kho=off on the kernel command line, if /sys/kernel/kexec_crash_size is "
			"0 (no crash kernel is loaded), and a reboot");
}

/* Lists name the cores, so that the remedy can be pasted. */
void plat_cores_judge(struct spw_plat *plat)
{
	char text[96];

	if (plat->allowed_cnt < 2)
		plat_advise(plat_find(plat, SPW_PLAT_WARN, "cores-few",
				      plat->allowed_cnt
					      ? "one core may be used by this process"
					      : "no online core may be used by this process"),
			    "taskset, cpuset: give it more; with one core everything runs inline "
			    "and shares it");
	find_core_list(plat, core_saves_power, text, sizeof(text));
	if (text[0])
		plat_advise(plat_find(plat, SPW_PLAT_WARN, "cores-governor",
				      "cores %s run under a frequency governor other than "
				      "performance",
				      text),
			    "cpupower -c %s frequency-set -g performance: a core that changes its "
			    "frequency adds to the tail",
			    text);
	isolation_judge(plat);
	find_core_list(plat, core_is_ticking, text, sizeof(text));
	if (text[0])
		plat_advise(
			plat_find(plat, SPW_PLAT_NOTE, "cores-ticks",
				  "the isolated cores %s still take timer ticks or RCU callbacks",
				  text),
			"nohz_full=%s rcu_nocbs=%s on the kernel command line", text, text);
	find_core_list(plat, core_sleeps_deep, text, sizeof(text));
	if (text[0])
		plat_advise(
			plat_find(plat, SPW_PLAT_NOTE, "cores-idle",
				  "the isolated cores %s may enter idle states that take %u us or "
				  "more to leave",
				  text, IDLE_US_MAX),
			"cpupower -c %s idle-set -D 50", text);
	nodes_distance_judge(plat);
	memory_judge(plat);
}
