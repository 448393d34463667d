/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The memory of a topology: one region per NUMA node that has a lane, cut into one pool per lane.
 * Called by spw_topo_open after the ports are open, because they state what a slot must look like.
 *
 *   region of node 0   | pool of lane 0 | pool of lane 2 |      lanes in their order, back to back
 *   region of node 1   | pool of lane 1 |
 *
 * Descriptors name a region by its id, and the executor finds it in an array by that id: the ids
 * must therefore be 0, 1, ... in this process.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "topo.h"

struct plan {
	int node[SPW_REGION_MAX];
	size_t bytes[SPW_REGION_MAX];
	uint32_t cnt;
};

/* Returns: the index of node's region, a new one if there is none yet; SPW_REGION_MAX: too many
 * nodes. */
static uint32_t topo_region_of_node(struct plan *plan, int node)
{
	uint32_t r = 0;

	while (r < plan->cnt && plan->node[r] != node)
		r++;
	if (r == plan->cnt && r < SPW_REGION_MAX) {
		plan->node[r] = node;
		plan->bytes[r] = 0;
		plan->cnt++;
	}
	return r;
}

/* What the caller asked for, and at least what the device must have. */
static int topo_size_slots(const struct spw_topo *topo, struct spw_topo_lane *lane)
{
	const struct spw_port_caps *caps = &lane->port->caps;
	size_t align = SPW_MAX((size_t)caps->slot_align, (size_t)SPW_CACHE_LINE);
	size_t bytes = SPW_MAX(topo->conf.memory.slot_bytes + caps->slot_headroom,
			       (size_t)caps->slot_bytes_min);

	if (topo->conf.memory.slots < caps->slot_cnt_min)
		return spw_err(EINVAL, "--slots %u: port %s needs at least %u per queue",
			       topo->conf.memory.slots, lane->port->name, caps->slot_cnt_min);
	lane->slot_bytes = SPW_ALIGN_UP(bytes, align);
	return 0;
}

/* Sizes are counted first: a region is allocated once, for all lanes of its node. */
static int topo_plan_regions(struct spw_topo *topo, struct plan *plan)
{
	size_t slots = topo->conf.memory.slots;
	int rc;

	for (uint32_t i = 0; i < topo->lane_cnt; i++) {
		struct spw_topo_lane *lane = topo->lane[i];
		size_t bytes;

		if ((rc = topo_size_slots(topo, lane)) < 0)
			return rc;
		lane->region = topo_region_of_node(plan, lane->conf.numa_node);
		if (lane->region == SPW_REGION_MAX)
			return spw_err(EINVAL, "queues on more than %d NUMA nodes", SPW_REGION_MAX);
		lane->region_offset = plan->bytes[lane->region];
		if (__builtin_mul_overflow(lane->slot_bytes, slots, &bytes) ||
		    __builtin_add_overflow(bytes, lane->region_offset, &plan->bytes[lane->region]))
			return spw_err(ENOMEM, "%zu slots of %zu bytes do not fit an address space",
				       slots, lane->slot_bytes);
	}
	return 0;
}

/* What was opened before an error is freed by spw_topo_close. */
static int topo_regions_open(struct spw_topo *topo, const struct plan *plan)
{
	for (uint32_t r = 0; r < plan->cnt; r++) {
		struct spw_mem_req req = {
			.kind = topo->conf.memory.kind,
			.bytes = plan->bytes[r],
			.numa_node = plan->node[r],
			.executor_is_gpu = topo_conf_is_gpu(&topo->conf),
		};
		int rc = spw_region_alloc(&req, &topo->region[r]);

		if (rc < 0)
			return rc;
		topo->region_cnt++;
		if (topo->region[r].id != r)
			return spw_err(ENOSPC, "region ids are not consecutive: %u instead of %u",
				       topo->region[r].id, r);
	}
	return 0;
}

int topo_memory_open(struct spw_topo *topo)
{
	struct plan plan = {.cnt = 0};
	int rc;

	if ((rc = topo_plan_regions(topo, &plan)) < 0 || (rc = topo_regions_open(topo, &plan)) < 0)
		return rc;
	for (uint32_t i = 0; i < topo->lane_cnt; i++) {
		struct spw_topo_lane *lane = topo->lane[i];

		rc = spw_pool_init(&lane->pool, &topo->region[lane->region], lane->region_offset,
				   lane->slot_bytes, topo->conf.memory.slots);
		if (rc < 0)
			return rc;
	}
	return 0;
}
