/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the receive, send and error paths of RC on mlx5 share inline: from QP number to peer,
 * sessions of compressed CQEs, the shared receive queue. Credits and slots: port/rc_inline.h.
 */
#ifndef SPW_PORT_MLX5_RC_INLINE_H
#define SPW_PORT_MLX5_RC_INLINE_H

#include "port/mlx5/rc/queue.h"
#include "port/rc_inline.h"

SPW_INLINE uint32_t mlx5_rc_cqe_qpn(const uint8_t *cqe)
{
	return spw_prm_cqe64_get_qpn(cqe);
}

/* The peer of a CQE; the nobody peer if it is of no QP of this queue. */
SPW_INLINE struct mlx5_rc_peer *mlx5_rc_cqe_peer(const struct mlx5_rc_queue *q, const uint8_t *cqe)
{
	uint32_t qpn = mlx5_rc_cqe_qpn(cqe);
	struct mlx5_rc_peer *p = q->find.peer[(qpn * q->find.mul) >> q->find.shift];

	return spw_likely(p->qpn == qpn) ? p : mlx5_rc_peer_at(q, q->rc.peer_cnt);
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

/* True if the NIC owns this WQE. */
SPW_INLINE bool mlx5_rc_srq_is_posted(const struct mlx5_rc_queue *q, uint32_t idx)
{
	return idx <= q->srq_mask && q->srq_slot[idx] != PORT_RC_NO_SLOT;
}

/* The NIC has consumed a posted WQE: links it after the last free one. Returns: its slot; WRITE:
 * meaningless. */
SPW_INLINE uint32_t mlx5_rc_srq_take(struct mlx5_rc_queue *q, uint32_t idx)
{
	uint32_t slot = q->srq_slot[idx];

	q->srq_slot[idx] = PORT_RC_NO_SLOT;
	q->srq_next[q->srq_tail] = (uint16_t)idx;
	spw_prm_wqe_srq_next_set_next_wqe_index(mlx5_rc_srq_wqe(q, q->srq_tail), idx);
	q->srq_tail = idx;
	q->rc.srq_posted--;
	return slot;
}

/* Is the receive of a completion posted, or is the completion none of ours? idx: the WQE that it
 * names, used with an SRQ only; receives of a QP are consumed by our own count. */
SPW_INLINE bool mlx5_rc_rx_is_posted(const struct mlx5_rc_queue *q, const struct mlx5_rc_peer *p,
				     uint32_t idx, const unsigned flags)
{
	return flags & PORT_RC_SRQ ? mlx5_rc_srq_is_posted(q, idx) && p->qpn != UINT32_MAX
				   : p->rc.rq_ci != p->rc.rq_pi;
}

/* Takes that receive. Returns: its slot; WRITE: meaningless. */
SPW_INLINE uint32_t mlx5_rc_rx_take(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t idx,
				    const unsigned flags)
{
	uint32_t pos = p->rc.rq_ci;

	if (flags & PORT_RC_SRQ)
		return mlx5_rc_srq_take(q, idx);
	p->rc.rq_ci = pos + 1;
	return flags & PORT_RC_WRITE ? 0 : p->rc.slot_of[pos & p->rc.rq_mask];
}

#endif
