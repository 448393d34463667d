/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The inline executor: push runs the batch in the lcore itself, for machines without a spare core.
 * Only the push lies between poll and start, so the poll's clock reading, if the pipe takes one, is
 * the start stamp as well, which saves a reading.
 *
 * push ──kick──> spw_exec_run_one ──> handler ──> completion; reap finds it in the same turn. The
 * ring is kept although one thread plays both parts: the pipe has no special case, and tests of the
 * ring cover it. There is nothing to keep alive, serve or stop, so those operations are empty.
 */
#include "exec/exec.h"

/* The batch that was pushed last: head_seq was advanced before the kick. */
static void inline_kick(struct spw_gring *ring)
{
	const struct spw_gring_batch *batch = &ring->batch[(ring->head_seq - 1) & ring->batch_mask];
	struct spw_exec *exec = ring->exec;

	spw_exec_run_one(ring, &exec->unit[spw_exec_ring_index(exec, ring)], batch->polled_tsc);
}

/* One unit for each ring: the lcore that pushes to it. */
static int inline_open(struct spw_exec *exec)
{
	exec->unit_cnt = 1;
	exec->clock_hz = exec->tsc.hz;
	return 0;
}

/* From here on push runs the handler. */
static int inline_start(struct spw_exec *exec)
{
	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++)
		exec->ring[r].kick = inline_kick;
	return 0;
}

static void inline_beat(struct spw_exec *exec, uint16_t ring)
{
	(void)exec;
	(void)ring;
}

static int inline_service(struct spw_exec *exec)
{
	(void)exec;
	return 0;
}

static int inline_stop(struct spw_exec *exec, uint32_t timeout_ms)
{
	(void)exec;
	(void)timeout_ms;
	return 0;
}

static void inline_close(struct spw_exec *exec)
{
	(void)exec;
}

const struct spw_exec_ops spw_exec_inline_ops = {
	.device = "lcore",
	.batch_cnt = 8,
	.open = inline_open,
	.alloc = spw_exec_host_alloc,
	.free = spw_exec_host_free,
	.start = inline_start,
	.beat = inline_beat,
	.service = inline_service,
	.stop = inline_stop,
	.stat = spw_exec_cpu_stat,
	.pair_clock = spw_exec_cpu_pair_clock,
	.close = inline_close,
};
