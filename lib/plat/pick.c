/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which cores lcores should run on (spw_plat.h). Every allowed core gets marks; the best core is
 * taken first, and cores that share its L3 are preferred for the rest, because their rings then
 * stay in that cache. Called by the programs for --lcores auto.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "plat/plat_impl.h"

/* Marks of a worker's core, each more than all below it together. Core 0 serves timers and
 * interrupts that nothing moves away. */
enum {
	IS_FAST = 64,
	IS_ISOLATED = 32,
	IS_NEAR = 16,
	IS_ALONE = 8,       /* no lcore on another thread of its physical core */
	IS_UNDISTURBED = 4, /* and nothing else there either */
	IS_SAME_L3 = 2,
	IS_NOT_0 = 1
};

struct picking {
	const struct spw_plat *plat;
	const struct spw_plat_nic *nic; /* NULL: any */
	bool taken[SPW_PLAT_CORE_MAX];
	int32_t l3_id; /* of the first worker; -1: none yet */
};

static const struct spw_plat_nic *nic_named(const struct spw_plat *plat, const char *name)
{
	for (uint32_t i = 0; name && i < plat->nic_cnt; i++)
		if (!strcmp(plat->nic[i].rdma, name) || !strcmp(plat->nic[i].netdev, name) ||
		    !strcmp(plat->nic[i].pci, name))
			return &plat->nic[i];
	return NULL;
}

/* Another thread of the same physical core has an lcore already. */
static bool pick_sibling_taken(const struct picking *p, const struct spw_plat_core *core)
{
	for (uint32_t i = 0; i < p->plat->core_cnt; i++)
		if (p->taken[p->plat->core[i].cpu] && p->plat->core[i].sibling == core->sibling)
			return true;
	return false;
}

/* A sibling that is not isolated may run anything, and takes half of the core then. */
static bool pick_sibling_is_shared(const struct picking *p, const struct spw_plat_core *core)
{
	for (uint32_t i = 0; i < p->plat->core_cnt; i++)
		if (p->plat->core[i].cpu != core->cpu && !p->plat->core[i].isolated &&
		    p->plat->core[i].sibling == core->sibling)
			return true;
	return false;
}

static uint32_t pick_marks(const struct picking *p, const struct spw_plat_core *core)
{
	uint32_t marks = 0;

	if (core->kind != SPW_PLAT_CORE_LITTLE)
		marks += IS_FAST;
	if (core->isolated)
		marks += IS_ISOLATED;
	if (!p->nic || p->nic->node < 0 || core->node < 0 || core->node == p->nic->node)
		marks += IS_NEAR;
	if (!pick_sibling_taken(p, core))
		marks += IS_ALONE;
	if (!pick_sibling_is_shared(p, core))
		marks += IS_UNDISTURBED;
	if (p->l3_id >= 0 && core->l3_id == p->l3_id)
		marks += IS_SAME_L3;
	return marks + (core->cpu ? IS_NOT_0 : 0);
}

/* The bytes of L3 that are in a core's reach decide between equal marks: its ring fits better. */
static bool pick_is_better(const struct picking *p, const struct spw_plat_core *a,
			   const struct spw_plat_core *b)
{
	uint32_t x = pick_marks(p, a), y = pick_marks(p, b);

	return x != y ? x > y : a->l3_bytes > b->l3_bytes;
}

static uint32_t pick_worker(struct picking *p)
{
	const struct spw_plat_core *best = NULL;

	for (uint32_t i = 0; i < p->plat->core_cnt; i++) {
		const struct spw_plat_core *core = &p->plat->core[i];

		if (core->allowed && !p->taken[core->cpu] &&
		    (!best || pick_is_better(p, core, best)))
			best = core;
	}
	p->taken[best->cpu] = true;
	p->l3_id = p->l3_id < 0 ? best->l3_id : p->l3_id;
	return best->cpu;
}

/* The main lcore sleeps most of the time: the worst of what is left, by a worker's marks. A thread
 * that shares a worker's physical core would disturb it, so it is the last choice. */
static uint32_t pick_main(struct picking *p)
{
	const struct spw_plat_core *worst = NULL;

	for (uint32_t i = 0; i < p->plat->core_cnt; i++) {
		const struct spw_plat_core *core = &p->plat->core[i];
		bool quiet = !pick_sibling_taken(p, core),
		     worst_quiet = worst && !pick_sibling_taken(p, worst);

		if (!core->allowed || p->taken[core->cpu])
			continue;
		if (!worst || quiet > worst_quiet ||
		    (quiet == worst_quiet && pick_is_better(p, worst, core)))
			worst = core;
	}
	return worst->cpu;
}

/* Workers choose first: the main lcore takes what they leave. */
int spw_plat_pick(const struct spw_plat *plat, const struct spw_plat_pick *pick, uint32_t *cpu_out)
{
	struct picking p = {.plat = plat, .nic = nic_named(plat, pick->nic), .l3_id = -1};

	if (pick->cnt == 0 || pick->cnt > plat->allowed_cnt)
		return spw_err(
			ENOENT,
			"%u cores are wanted, and this process may use %u; name fewer queues, "
			"or give it more cores (taskset, cpuset)",
			pick->cnt, plat->allowed_cnt);
	for (uint32_t i = 1; i < pick->cnt; i++)
		cpu_out[i] = pick_worker(&p);
	cpu_out[0] = pick_main(&p);
	return 0;
}

/* A CPU quota pays for fewer cores than the cpuset has: more threads that spin would be stopped. */
uint32_t spw_plat_core_cnt(const struct spw_plat *plat)
{
	uint32_t paid = plat->quota_us ? plat->quota_us / plat->period_us : UINT32_MAX;

	return SPW_MIN(plat->allowed_cnt, SPW_MAX(paid, 1u));
}

bool spw_plat_core_blame(const struct spw_plat *plat, uint32_t cpu, char *out, size_t bytes)
{
	const struct spw_plat_core *core = spw_plat_core_by_cpu(plat, cpu);
	bool slow = core && core->kind == SPW_PLAT_CORE_LITTLE;
	bool shared = core && !core->isolated;

	out[0] = '\0';
	if (slow)
		snprintf(out, bytes, "core %u is of the slower kind (%s)%s", cpu,
			 core->model[0] ? core->model : "cpu_capacity",
			 shared ? " and not isolated" : "");
	else if (shared)
		snprintf(out, bytes, "core %u is not isolated", cpu);
	return slow || shared;
}
