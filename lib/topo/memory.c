/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The memory of a topology: one region per NUMA node that has a lane, cut into one pool per lane.
 * Called by spw_topo_open after the ports are open, because they state what a slot must look like.
 *
 *   region of node 0   | pool of lane 0 | pool of lane 2 |      lanes in their order, back to back
 *   region of node 1   | pool of lane 1 |
 *   heads of node 0    | of lane 2 |                            of ports that split their frames
 *
 * Descriptors name a region by its id, and the executor finds it in an array by that id: the ids
 * must therefore be 0, 1, ... in this process.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "topo.h"

struct plan {
	int node[SPW_REGION_MAX];
	bool heads[SPW_REGION_MAX];
	size_t bytes[SPW_REGION_MAX];
	uint32_t cnt;
};

/* Adds memory of cnt pieces to node's region of slots, or heads: a new one if there is none yet.
 * Its place is *region_out, *offset_out. */
static int topo_plan_add(struct plan *plan, int node, bool heads, size_t bytes, size_t cnt,
			 uint32_t *region_out, size_t *offset_out)
{
	uint32_t r = 0;
	size_t all;

	while (r < plan->cnt && (plan->node[r] != node || plan->heads[r] != heads))
		r++;
	if (r == SPW_REGION_MAX)
		return spw_err(EINVAL, "queues on more than %d NUMA nodes", SPW_REGION_MAX);
	if (r == plan->cnt) {
		plan->node[r] = node;
		plan->heads[r] = heads;
		plan->bytes[r] = 0;
		plan->cnt++;
	}
	*region_out = r;
	*offset_out = plan->bytes[r];
	if (__builtin_mul_overflow(bytes, cnt, &all) ||
	    __builtin_add_overflow(all, plan->bytes[r], &plan->bytes[r]))
		return spw_err(ENOMEM, "%zu slots of %zu bytes do not fit an address space", cnt,
			       bytes);
	return 0;
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

/* Frames are split for objects: another handler would read their first bytes in the slot. */
static int topo_plan_heads(struct spw_topo *topo, struct spw_topo_lane *lane, struct plan *plan)
{
	const uint32_t bytes = lane->port->caps.head_bytes;

	if (!bytes)
		return 0;
	if (!topo->conf.port[lane->conf.port].objects)
		return spw_err(
			EINVAL,
			"port %s: split=%u is for objects, and the handler of this port reads "
			"whole frames: leave it out, or add objects:",
			lane->port->name, bytes);
	return topo_plan_add(plan, lane->conf.numa_node, true, spw_pool_head_stride(bytes),
			     topo->conf.memory.slots, &lane->head_region, &lane->head_offset);
}

/* Sizes are counted first: a region is allocated once, for all lanes of its node. */
static int topo_plan_regions(struct spw_topo *topo, struct plan *plan)
{
	int rc;

	for (uint32_t i = 0; i < topo->lane_cnt; i++) {
		struct spw_topo_lane *lane = topo->lane[i];

		if ((rc = topo_size_slots(topo, lane)) < 0 ||
		    (rc = topo_plan_add(plan, lane->conf.numa_node, false, lane->slot_bytes,
					topo->conf.memory.slots, &lane->region,
					&lane->region_offset)) < 0 ||
		    (rc = topo_plan_heads(topo, lane, plan)) < 0)
			return rc;
	}
	return 0;
}

/* Heads are the CPU's to read, wherever the slots are. What was opened before an error is freed by
 * spw_topo_close. */
static int topo_regions_open(struct spw_topo *topo, const struct plan *plan)
{
	const enum spw_mem_kind kind = topo->conf.memory.kind;

	for (uint32_t r = 0; r < plan->cnt; r++) {
		struct spw_mem_req req = {
			.kind = plan->heads[r] && kind == SPW_MEM_GPU ? SPW_MEM_AUTO : kind,
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
		if (rc == 0 && lane->port->caps.head_bytes)
			rc = spw_pool_split(&lane->pool, &topo->region[lane->head_region],
					    lane->head_offset, lane->port->caps.head_bytes);
		if (rc < 0)
			return rc;
	}
	return 0;
}
