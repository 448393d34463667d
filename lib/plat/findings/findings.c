/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings: what the facts mean for a data plane that spins, and what to do about it. findings.h
 * has them all; the judges here and beside say when. An unknown fact is never a finding. This file:
 * cores and memory.
 *
 * A finding is made by one judge from facts alone, never from the machine: a saved tree gives the
 * same findings as the machine that it was recorded on.
 *
 *   cores, nodes, memory   findings.c      plat.c calls the judges (plat_impl.h) once all facts are
 *   drivers, rights        host.c          read; ../pairs.c judges what --measure adds
 *   NICs, links, GIDs      nic.c
 *   GPUs, NCCL             gpu.c, nccl.c
 *
 * A new finding is a row of findings.h, one plat_find, and a machine that has it in
 * tests/unit/plat/variants.json. A fact that it needs is read by its reader in lib/plat first.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plat/findings.h"

#define MEMLOCK_WANTED (64ull << 20)
#define IDLE_US_MAX    100 /* an exit latency that a microsecond tail would show */
#define CAP_IPC_LOCK   14

/* When the table is full the finding goes into a spill entry, so that no caller has to check. */
struct spw_plat_finding *plat_finding_add(struct spw_plat *plat, enum spw_plat_severity severity,
					  const char *code, const char *fmt, ...)
{
	static struct spw_plat_finding spill;
	struct spw_plat_finding *f = &spill;
	char text[sizeof(f->what) + sizeof(f->todo)], *todo;
	va_list ap;

	if (plat->finding_cnt < SPW_PLAT_FINDING_MAX)
		f = &plat->finding[plat->finding_cnt++];
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	todo = strchrnul(text, '\n');
	f->severity = severity;
	f->code = code;
	snprintf(f->what, sizeof(f->what), "%.*s", (int)(todo - text), text);
	snprintf(f->todo, sizeof(f->todo), "%s", *todo ? todo + 1 : "");
	return f;
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
	plat_finding_add(plat, SPW_PLAT_WARN, code, FIND_CORES_OUTSIDE_TEXT, own, what, best, best);
}

static void shared_find(struct spw_plat *plat, const char *fast)
{
	plat_find(plat, CORES_SHARED, fast);
	if (plat->autogroup)
		plat_find(plat, CORES_AUTOGROUP);
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
		reach_find(plat, FIND_CORES_SLOW_CODE, "all of the slower kind");
	else if (elsewhere[0])
		reach_find(plat, FIND_CORES_OUTSIDE_CODE, "none of which is fast and isolated");
	else if (isolated[0])
		plat_find(plat, CORES_SLOW, isolated, fast, fast, isolated);
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
			plat_find(plat, CORES_FAR, plat->nic[i].rdma, plat->nic[i].node, isolated,
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
		plat_find(plat, HUGEPAGES_NONE);
	if (plat->memlock_bytes < MEMLOCK_WANTED && !may_lock)
		plat_find(plat, MEMLOCK_LOW, plat->memlock_bytes >> 10);
	if (plat_cma_is_lost(plat))
		plat_find(plat, CMA_LOST, plat->cma_free_bytes >> 10, plat->cma_total_bytes >> 10);
}

/* Lists name the cores, so that the remedy can be pasted. */
void plat_cores_judge(struct spw_plat *plat)
{
	char text[96];

	if (plat->allowed_cnt < 2)
		plat_find(plat, CORES_FEW, plat->allowed_cnt ? "one" : "no online");
	find_core_list(plat, core_saves_power, text, sizeof(text));
	if (text[0])
		plat_find(plat, CORES_GOVERNOR, text, text);
	isolation_judge(plat);
	find_core_list(plat, core_is_ticking, text, sizeof(text));
	if (text[0])
		plat_find(plat, CORES_TICKS, text, text, text);
	find_core_list(plat, core_sleeps_deep, text, sizeof(text));
	if (text[0])
		plat_find(plat, CORES_IDLE, text, IDLE_US_MAX, text);
	nodes_distance_judge(plat);
	memory_judge(plat);
}
