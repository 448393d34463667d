/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The inline pieces that the receive, send and error paths of a raw Ethernet queue share: a run of
 * plain CQEs, strides and their groups, slots on their way back, counters.
 *
 * A group is the memory of one striding WQE: 2^group_log2 neighbouring slots. group_ref counts its
 * strides that have not been returned yet (posted, lent or in TX); at 0 the group can be posted
 * again.
 */
#ifndef SPW_PORT_MLX5_ETH_INLINE_H
#define SPW_PORT_MLX5_ETH_INLINE_H

#include "port/mlx5/cqe.h"
#include "port/mlx5/eth/queue.h"

/* Returns: how many CQEs from ci on are ours and plain: at most cnt, and never past the end of the
 * ring, where the lap changes. Order: none by itself; M1 follows. */
SPW_INLINE uint32_t mlx5_eth_cqe_plain_cnt(const struct mlx5_eth_queue *q, uint32_t ci,
					   uint32_t cnt, const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, ci);
	uint32_t want = mlx5_own_want(ci >> q->cq_log2, SPW_PRM_CQE_RESP_SEND, flags);
	uint32_t end = SPW_MIN(cnt, q->cq_mask + 1 - (ci & q->cq_mask));
	uint32_t n = 0;

	while (n < end && mlx5_cqe_plain(cqe + (size_t)n * MLX5_CQE_BYTES, want, flags))
		n++;
	return n;
}

/* Strides of a group were returned; the last one frees the group. */
SPW_INLINE void mlx5_eth_group_unref(struct mlx5_eth_queue *q, uint32_t group, uint32_t strides)
{
	q->group_ref[group] -= strides;
	if (q->group_ref[group] == 0)
		q->group_free[q->group_free_cnt++] = group;
}

/* The NIC has finished with the next strides of WQE *rq_ci. */
SPW_INLINE void mlx5_eth_strides_done(const struct mlx5_eth_queue *q, uint32_t *rq_ci,
				      uint32_t *stride_pos, uint32_t strides)
{
	*stride_pos += strides;
	if (*stride_pos == 1u << q->group_log2) {
		*stride_pos = 0;
		++*rq_ci;
	}
}

/* Returns slots that the queue owned to the pool or, striding, to their groups. */
SPW_INLINE void mlx5_eth_put(struct mlx5_eth_queue *q, const uint32_t *slot, uint32_t cnt,
			     const unsigned flags)
{
	if (!(flags & MLX5_F_STRIDING)) {
		spw_pool_put(q->pool, slot, cnt);
		return;
	}
	for (uint32_t i = 0; i < cnt; i++)
		mlx5_eth_group_unref(q, slot[i] >> q->group_log2, 1);
}

SPW_INLINE void mlx5_eth_count_drop(struct mlx5_eth_queue *q, enum spw_port_drop why, uint64_t n)
{
	spw_thr_count(&q->stat.dropped[why], n);
}

SPW_INLINE void mlx5_eth_count_err(struct mlx5_eth_queue *q, enum spw_port_err what, uint64_t n)
{
	spw_thr_count(&q->stat.err[what], n);
}

#endif
