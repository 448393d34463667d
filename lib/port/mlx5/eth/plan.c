/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shape of a queue, from its profile, its pool and what the device can do.
 *
 *   latency     cyclic ring of 1024 entries, one CQE with hardware timestamp per frame: CQEs and
 *               WQEs (80 KiB) stay in the second-level cache
 *   throughput  striding ring (one WQE, many slots) and compressed CQEs, each where device and pool
 *               allow it; else a cyclic ring of 4096 entries
 *
 * A completion queue has an entry for every frame that the posted WQEs can take, so it cannot
 * overrun.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/mlx5/eth/eth.h"

#define RING_LATENCY    1024u
#define RING_THROUGHPUT 4096u
#define RING_SEND       1024u
#define RING_MAX        32768u
#define GROUPS_MIN      4u /* half of them posted, half with frames under way */
#define STRIDES_LOG2    9u /* 512 strides a WQE, unless the pool is small */

/* Any other profile, and none, is latency. */
static bool mlx5_eth_plan_is_throughput(const struct spw_port_queue_conf *conf)
{
	return conf->profile && !strcmp(conf->profile, "throughput");
}

/* Entries of the ring: the configured size, else dflt. The pool must fill it and have a burst to
 * spare. */
static int mlx5_eth_plan_ring_size(const struct spw_port_queue_conf *conf, uint32_t dflt,
				   uint32_t *cnt_out)
{
	const uint32_t slots = port_conf_slots(conf);

	*cnt_out = conf->ring_size ? conf->ring_size
				   : SPW_MIN(dflt, 1u << spw_log2_floor64(SPW_MAX(slots / 2, 2u)));
	if (*cnt_out > RING_MAX)
		return spw_err(EINVAL, "a ring of %u entries: the device takes up to %u", *cnt_out,
			       RING_MAX);
	if (slots < SPW_BURST_MAX + 1u || *cnt_out > slots - SPW_BURST_MAX)
		return spw_err(EINVAL,
			       "%u slots cannot fill a receive ring of %u and leave a burst of %u: "
			       "use more slots or a "
			       "smaller ring",
			       slots, *cnt_out, SPW_BURST_MAX);
	return 0;
}

/* Returns: false with the reason in plan->why. */
static bool mlx5_eth_plan_striding(const struct mlx5_dev *dev,
				   const struct spw_port_queue_conf *conf,
				   struct mlx5_eth_plan *plan)
{
	const struct mlx5dv_striding_rq_caps *caps = &dev->dv.striding_rq_caps;
	const struct spw_pool *pool = conf->pool;
	uint32_t min = caps->min_single_wqe_log_num_of_strides,
		 max = caps->max_single_wqe_log_num_of_strides;
	uint32_t stride = spw_log2_floor64(pool->slot_bytes);
	uint32_t strides = SPW_MIN(spw_log2_floor64(SPW_MAX(pool->slot_cnt / (2 * GROUPS_MIN), 1u)),
				   STRIDES_LOG2);

	strides = SPW_MIN(SPW_MAX(strides, min), max);
	if (plan->flags & MLX5_F_SPLIT)
		snprintf(plan->why, sizeof(plan->why), "a stride cannot be split");
	else if (!(dev->dv.comp_mask & MLX5DV_CONTEXT_MASK_STRIDING_RQ) || !max)
		snprintf(plan->why, sizeof(plan->why), "the device has no striding receive queues");
	else if (!SPW_IS_POW2(pool->slot_bytes) ||
		 stride < caps->min_single_stride_log_num_of_bytes ||
		 stride > caps->max_single_stride_log_num_of_bytes)
		snprintf(plan->why, sizeof(plan->why),
			 "striding needs slots of a power of 2 from %u to %u bytes, not %zu",
			 1u << caps->min_single_stride_log_num_of_bytes,
			 1u << caps->max_single_stride_log_num_of_bytes, pool->slot_bytes);
	else if (pool->slot_cnt >> strides < GROUPS_MIN)
		snprintf(plan->why, sizeof(plan->why), "striding needs at least %u slots, not %u",
			 GROUPS_MIN << strides, pool->slot_cnt);
	else if (conf->ring_size)
		snprintf(plan->why, sizeof(plan->why), "the ring size was given");
	else if (port_conf_slots(conf) != pool->slot_cnt)
		snprintf(plan->why, sizeof(plan->why), "the pool is shared with another queue");
	else
		plan->flags |= MLX5_F_STRIDING;
	plan->strides_log2 = strides;
	plan->stride_log2 = stride;
	return plan->flags & MLX5_F_STRIDING;
}

/* Compressed CQEs carry no timestamp of each frame, so stamps and compression exclude each other;
 * latency prefers stamps. */
int mlx5_eth_plan_make(const struct mlx5_dev *dev, const struct spw_port_queue_conf *conf,
		       struct mlx5_eth_plan *plan)
{
	bool throughput = mlx5_eth_plan_is_throughput(conf),
	     can_compress = dev->dv.cqe_comp_caps.supported_format & MLX5DV_CQE_RES_FORMAT_HASH;
	int rc;

	*plan = (struct mlx5_eth_plan){.flags = dev->wants_inline ? MLX5_F_INLINE : 0,
				       .tx_stamps = rdma_dev_clock_hz(&dev->rdma) != 0};
	if (spw_pool_is_split(conf->pool))
		plan->flags |= MLX5_F_SPLIT;
	if (throughput && can_compress)
		plan->flags |= MLX5_F_COMPRESSED;
	if (!(plan->flags & MLX5_F_COMPRESSED) && rdma_dev_clock_hz(&dev->rdma))
		plan->flags |= MLX5_F_STAMP;
	if (throughput && mlx5_eth_plan_striding(dev, conf, plan)) {
		plan->rq_cnt = SPW_MIN(
			(1u << spw_log2_floor64(conf->pool->slot_cnt >> plan->strides_log2)) / 2,
			RING_MAX);
		plan->cq_cnt = plan->rq_cnt << plan->strides_log2;
		plan->sq_cnt = RING_SEND;
		plan->refill_min = 1;
		return 0;
	}
	plan->strides_log2 = 0;
	rc = mlx5_eth_plan_ring_size(conf, throughput ? RING_THROUGHPUT : RING_LATENCY,
				     &plan->rq_cnt);
	plan->cq_cnt = plan->sq_cnt = plan->rq_cnt;
	plan->refill_min = SPW_MAX(SPW_MIN(plan->rq_cnt / 8, (uint32_t)SPW_BURST_MAX), 1u);
	return rc;
}
