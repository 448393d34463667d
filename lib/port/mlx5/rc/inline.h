/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the receive, send and error paths of RC share inline: from QP number to peer, slots and
 * credits, sessions of compressed CQEs, the shared receive queue.
 */
#ifndef SPW_PORT_MLX5_RC_INLINE_H
#define SPW_PORT_MLX5_RC_INLINE_H

#include "port/mlx5/rc/queue.h"

/* The only peer that this QP number can be; the caller compares p->qpn. */
SPW_INLINE struct mlx5_rc_peer *mlx5_rc_by_qpn(const struct mlx5_rc_queue *q, uint32_t qpn)
{
	return q->find.peer[(qpn * q->find.mul) >> q->find.shift];
}

SPW_INLINE uint32_t mlx5_rc_cqe_qpn(const uint8_t *cqe)
{
	return spw_prm_cqe64_get_qpn(cqe);
}

/* POSTED or UP: its receive ring may be refilled. */
SPW_INLINE bool mlx5_rc_is_live(const struct mlx5_rc_peer *p)
{
	return p->side == SPW_PEER_SIDE_UP || p->side == SPW_PEER_SIDE_POSTED;
}

/* Puts the peer on the todo list, once: it may need a refill or credits (mlx5_rc_settle). */
SPW_INLINE void mlx5_rc_enlist(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p)
{
	if (p->todo)
		return;
	p->todo = 1;
	q->todo[q->todo_cnt++] = p;
}

SPW_INLINE void mlx5_rc_count_err(struct mlx5_rc_queue *q, enum spw_port_err what, uint64_t n)
{
	spw_thr_count(&q->stat.err[what], n);
}

SPW_INLINE void mlx5_rc_count_drop(struct mlx5_rc_queue *q, enum spw_port_drop why, uint64_t n)
{
	spw_thr_count(&q->stat.dropped[why], n);
}

/* Returns a slot that was lent or in TX to its peer. SEND: it can be posted again; WRITE: it can be
 * granted again. */
SPW_INLINE void mlx5_rc_recycle(struct mlx5_rc_queue *q, uint32_t slot, const unsigned flags)
{
	uint16_t owner = q->owner[slot];

	if (spw_unlikely(owner == MLX5_RC_NOBODY)) {
		spw_pool_put(q->pool, &slot, 1);
		return;
	}
	struct mlx5_rc_peer *p = &q->peer[owner];

	if (flags & MLX5_RC_WRITE) {
		q->slot_state[slot] = MLX5_RC_FREE;
		p->ring_out[p->rx.returned & (SPW_PEER_CREDIT_MAX - 1)] =
			spw_cpu_to_be32(slot - p->slot_first);
	} else {
		p->stack->slot[p->stack->cnt++] = slot;
	}
	p->rx.returned++;
	p->out--;
	mlx5_rc_enlist(q, p);
}

/* Returns: the completions of the compression session whose title is the CQE at ci; 0: the CQE is
 * not ours, or opens no session. */
SPW_INLINE uint32_t mlx5_rc_session_cnt(const struct mlx5_rc_queue *q, uint32_t ci)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, ci);
	uint32_t op = spw_dma_load(&cqe[MLX5_CQE_OP_OWN]), cnt;

	if (((op ^ ci >> q->cq_log2) & 1u) || (op >> 2 & 3u) != SPW_PRM_CQE_FORMAT_COMPRESSED ||
	    (op >> 4) - 1u > 2u)
		return 0;
	spw_dma_from_device(); /* [M1] covers the mini-CQEs: the NIC writes them before the title's
				  op_own */
	cnt = spw_prm_cqe64_get_byte_cnt(cqe);
	return cnt <= q->cq_mask + 1 ? cnt : 0;
}

/* ---- the shared receive queue ---- */

SPW_INLINE uint8_t *mlx5_rc_srq_wqe(const struct mlx5_rc_queue *q, uint32_t idx)
{
	return q->srq + ((size_t)idx << q->srq_shift);
}

SPW_INLINE uint32_t mlx5_rc_srq_posted_cnt(const struct mlx5_rc_queue *q)
{
	return q->srq_mask + 1 - q->srq_free;
}

/* True if the NIC owns this WQE. */
SPW_INLINE bool mlx5_rc_srq_is_posted(const struct mlx5_rc_queue *q, uint32_t idx)
{
	return idx <= q->srq_mask && q->srq_slot[idx] != MLX5_RC_NO_SLOT;
}

/* The NIC has consumed a posted WQE: links it after the last free one. Returns: its slot; WRITE:
 * meaningless. */
SPW_INLINE uint32_t mlx5_rc_srq_take(struct mlx5_rc_queue *q, uint32_t idx)
{
	uint32_t slot = q->srq_slot[idx];

	q->srq_slot[idx] = MLX5_RC_NO_SLOT;
	q->srq_next[q->srq_tail] = (uint16_t)idx;
	spw_prm_wqe_srq_next_set_next_wqe_index(mlx5_rc_srq_wqe(q, q->srq_tail), idx);
	q->srq_tail = idx;
	q->srq_free++;
	return slot;
}

/* A grant takes up to three send WQEs: the list, in two parts where its ring wraps, and the
 * message. */
SPW_INLINE bool mlx5_rc_can_grant(const struct mlx5_rc_peer *p)
{
	return p->sq_limit - (p->sq_pi - p->sq_ci) >= 3;
}

#endif
