/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC: peers, slots and credits, the inline pieces that the receive, send and error paths share.
 */
#ifndef SPW_PORT_MLX5_RC_INLINE_H
#define SPW_PORT_MLX5_RC_INLINE_H

#include "port/mlx5/mlx5_cqe.h"
#include "port/mlx5/mlx5_rc_impl.h"

/* The only peer that this QP number can be; the caller compares p->qpn. */
SPW_INLINE struct spw_mlx5_rc_peer *rc_by_qpn(const struct spw_mlx5_rc_queue *q, uint32_t qpn)
{
	return q->find.peer[(qpn * q->find.mul) >> q->find.shift];
}

SPW_INLINE uint32_t rc_cqe_qpn(const uint8_t *cqe)
{
	return (uint32_t)spw_prm_cqe64_get_sop_drop_qpn(cqe) & 0xffffffu;
}

/* May its receive ring be touched? */
SPW_INLINE bool rc_is_live(const struct spw_mlx5_rc_peer *p)
{
	return p->state == MLX5_RC_UP || p->state == MLX5_RC_ARMED;
}

/* The peer has something coming: a refill or credits. */
SPW_INLINE void rc_todo(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p)
{
	if (p->todo)
		return;
	p->todo = 1;
	q->todo[q->todo_cnt++] = p;
}

SPW_INLINE void rc_count_err(struct spw_mlx5_rc_queue *q, enum spw_port_err what, uint64_t n)
{
	spw_thr_count(&q->stat.err[what], n);
}

SPW_INLINE void rc_count_drop(struct spw_mlx5_rc_queue *q, enum spw_port_drop why, uint64_t n)
{
	spw_thr_count(&q->stat.dropped[why], n);
}

/* A slot that was lent or in TX is back with its peer: SEND, it can be posted again; WRITE, it can be granted again. */
SPW_INLINE void rc_put(struct spw_mlx5_rc_queue *q, uint32_t slot, const unsigned flags)
{
	uint16_t owner = q->owner[slot];

	if (spw_unlikely(owner == MLX5_RC_NOBODY)) {
		spw_pool_put(q->pool, &slot, 1);
		return;
	}
	struct spw_mlx5_rc_peer *p = &q->peer[owner];

	if (flags & MLX5_RC_WRITE) {
		q->slot_state[slot] = MLX5_RC_HOME;
		p->ring_out[p->rx.home & (RC_CREDIT_MAX - 1)] = spw_cpu_to_be32(slot - p->slot_first);
	} else {
		p->stack->slot[p->stack->cnt++] = slot;
	}
	p->rx.home++;
	p->away--;
	rc_todo(q, p);
}

/* Is the CQE at ci ours, and does it open a compressed session? Returns: of how many completions; 0: no. */
SPW_INLINE uint32_t rc_zip_cnt(const struct spw_mlx5_rc_queue *q, uint32_t ci)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, ci);
	uint32_t op = spw_dma_load(&cqe[MLX5_CQE_OP_OWN]), cnt;

	if (((op ^ ci >> q->cq_log2) & 1u) || (op >> 2 & 3u) != SPW_PRM_CQE_FORMAT_COMPRESSED || (op >> 4) - 1u > 2u)
		return 0;
	spw_dma_from_device(); /* [M1] covers the minis: the NIC writes them before the title's op_own */
	cnt = (uint32_t)spw_prm_cqe64_get_byte_cnt(cqe);
	return cnt <= q->cq_mask + 1 ? cnt : 0;
}

/* ---- the shared receive queue ---------------------------------------------------------------------- */

SPW_INLINE uint8_t *rc_srq_wqe(const struct spw_mlx5_rc_queue *q, uint32_t idx)
{
	return q->srq + ((size_t)idx << q->srq_shift);
}

SPW_INLINE uint32_t rc_srq_posted(const struct spw_mlx5_rc_queue *q)
{
	return q->srq_mask + 1 - q->srq_free;
}

/* Is this WQE in the NIC's hands? */
SPW_INLINE bool rc_srq_is_posted(const struct spw_mlx5_rc_queue *q, uint32_t idx)
{
	return idx <= q->srq_mask && q->srq_slot[idx] != MLX5_RC_NO_SLOT;
}

/* A posted WQE was used up: it is linked behind the last free one. Returns: its slot; WRITE: nothing of use. */
SPW_INLINE uint32_t rc_srq_take(struct spw_mlx5_rc_queue *q, uint32_t idx)
{
	uint32_t slot = q->srq_slot[idx];

	q->srq_slot[idx] = MLX5_RC_NO_SLOT;
	q->srq_next[q->srq_tail] = (uint16_t)idx;
	spw_prm_wqe_srq_next_set_next_wqe_index(rc_srq_wqe(q, q->srq_tail), idx);
	q->srq_tail = idx;
	q->srq_free++;
	return slot;
}

/* A grant takes up to three send WQEs: the list, in two parts where its ring wraps, and the message. */
SPW_INLINE bool rc_grant_room(const struct spw_mlx5_rc_peer *p)
{
	return p->sq_limit - (p->sq_pi - p->sq_ci) >= 3;
}

#endif
