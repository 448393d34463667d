/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One region per NUMA node that runs a queue, cut into one pool per queue.
 */
#include <errno.h>

#include "app.h"
#include "base/spw_err.h"

static uint32_t region_of_node(struct app *app, int node, int *node_of, size_t *bytes)
{
	uint32_t r = 0;

	while (r < app->region_cnt && node_of[r] != node)
		r++;
	if (r == app->region_cnt && r < SPW_REGION_MAX) {
		node_of[r] = node;
		bytes[r] = 0;
		app->region_cnt++;
	}
	return r;
}

/* Slot and pool sizes: what the user asked for, and what the device must have. */
static int size_pool(struct app *app, struct app_lcore *lc)
{
	const struct spw_port_caps *caps = &app->port[lc->port]->caps;
	size_t align = SPW_MAX((size_t)caps->slot_align, (size_t)SPW_CACHE_LINE);
	size_t bytes = SPW_MAX((size_t)app->conf.memory.slot_bytes + caps->slot_headroom, (size_t)caps->slot_bytes_min);

	if (app->conf.memory.slots < caps->slot_cnt_min)
		return spw_err(EINVAL, "--slots %u: port %s needs at least %u per queue", app->conf.memory.slots,
			       app->port[lc->port]->name, caps->slot_cnt_min);
	lc->slot_bytes = SPW_ALIGN_UP(bytes, align);
	lc->slots = app->conf.memory.slots;
	return 0;
}

static int plan(struct app *app, int *node_of, size_t *bytes)
{
	int rc;

	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		struct app_lcore *lc = app->lcore[i];

		if ((rc = size_pool(app, lc)) < 0)
			return rc;
		lc->region = region_of_node(app, lc->numa_node, node_of, bytes);
		if (lc->region == SPW_REGION_MAX)
			return spw_err(EINVAL, "queues on more than %d NUMA nodes", SPW_REGION_MAX);
		lc->region_offset = bytes[lc->region];
		if (__builtin_mul_overflow(lc->slot_bytes, (size_t)lc->slots, &bytes[lc->region]) ||
		    __builtin_add_overflow(bytes[lc->region], lc->region_offset, &bytes[lc->region]))
			return spw_err(ENOMEM, "%u slots of %zu bytes do not fit an address space", lc->slots,
				       lc->slot_bytes);
	}
	return 0;
}

int app_memory_open(struct app *app)
{
	int node_of[SPW_REGION_MAX], rc;
	size_t bytes[SPW_REGION_MAX];
	uint32_t want;

	rc = plan(app, node_of, bytes);
	want = app->region_cnt;
	app->region_cnt = 0;
	if (rc < 0)
		return rc;
	for (uint32_t r = 0; r < want; r++) {
		struct spw_mem_req req = {
			.kind = app->conf.memory.kind, .bytes = bytes[r], .numa_node = node_of[r],
			.executor_is_gpu = app->exec_kind >= SPW_EXEC_CUDA_PERSISTENT,
		};

		if ((rc = spw_region_alloc(&req, &app->region[r])) < 0)
			return rc;
		app->region_cnt++;
		if (app->region[r].id != r)
			return spw_err(ENOSPC, "region ids are not consecutive: %u instead of %u", app->region[r].id, r);
	}
	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		struct app_lcore *lc = app->lcore[i];

		rc = spw_pool_init(&lc->pool, &app->region[lc->region], lc->region_offset, lc->slot_bytes, lc->slots);
		if (rc < 0)
			return rc;
	}
	return 0;
}
