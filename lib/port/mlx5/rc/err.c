/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC errors: one peer's failure is an event of that peer and of no other. A burst that meets an
 * error CQE consumes it, counts it, returns its slots and marks the peer BROKEN: nothing is sent to
 * it or posted for it any more. Its remaining completions (the flush of its rings) are consumed the
 * same way, until the QP is drained and can be reset (port/rc_turn.c).
 *
 * Called by rx.c and tx.c when a CQE is not plain, and by port/rc_turn.c and recover.c.
 *
 *   CQE not plain ─► ..._rx_odd, _tx_odd ─► counted, slots returned ─► port_rc_break: BROKEN
 *   BROKEN        ─► rc_turn.c, lib/peer: QP to ERR ─► flush CQEs, likewise ─► drained ─► reset
 */
#include "port/mlx5/rc/inline.h"

/* A completion of the peer is in the receive CQ, or in the open session, and not yet polled. */
static bool mlx5_rc_rx_is_unread(const struct mlx5_rc_queue *q, const struct mlx5_rc_peer *p)
{
	uint32_t cnt = q->session.left;

	if (cnt && mlx5_rc_cqe_qpn(q->session.title) == p->qpn)
		return true;
	for (uint32_t ci = q->cq_ci + cnt; ci - q->cq_ci <= q->cq_mask; ci += SPW_MAX(cnt, 1u)) {
		const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, ci);

		if (!mlx5_cqe_owned(cqe, ci >> q->cq_log2, 0))
			return false;
		spw_dma_from_device(); /* [M1] */
		if (mlx5_rc_cqe_qpn(cqe) == p->qpn)
			return true;
		cnt = q->rc.flags & MLX5_RC_COMPRESSED ? mlx5_rc_session_cnt(q, ci) : 1;
	}
	return false;
}

/* As mlx5_rc_rx_is_unread, for the send CQ, which has no compressed sessions. */
static bool mlx5_rc_tx_is_unread(const struct mlx5_rc_queue *q, const struct mlx5_rc_peer *p)
{
	for (uint32_t ci = q->tx_cq_ci; ci - q->tx_cq_ci <= q->tx_cq_mask; ci++) {
		const uint8_t *cqe = mlx5_cqe_at(q->tx_cqe, q->tx_cq_mask, ci);

		if (!mlx5_cqe_owned(cqe, ci >> q->tx_cq_log2, 0))
			return false;
		spw_dma_from_device(); /* [M1] */
		if (mlx5_rc_cqe_qpn(cqe) == p->qpn)
			return true;
	}
	return false;
}

bool mlx5_rc_has_unread(struct port_rc_queue *rc, struct port_rc_peer *peer)
{
	const struct mlx5_rc_queue *q = mlx5_rc_queue_of(rc);
	const struct mlx5_rc_peer *p = mlx5_rc_peer_of(peer);

	return mlx5_rc_rx_is_unread(q, p) || mlx5_rc_tx_is_unread(q, p);
}

/* ---- CQEs that are not plain ---- */

/* Returns the slot of the receive that the error consumed. It makes no credit. */
static void mlx5_rc_rx_discard(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t idx)
{
	const unsigned flags = q->rc.flags & (PORT_RC_SRQ | PORT_RC_WRITE);

	if (flags & PORT_RC_SRQ ? mlx5_rc_srq_is_posted(q, idx) : p->rc.rq_ci != p->rc.rq_pi)
		port_rc_rx_unused(&q->rc, &p->rc, mlx5_rc_rx_take(q, p, idx, flags));
}

/* A flush loses nothing; any other error costs the message that it hit. */
static void mlx5_rc_rx_error(struct mlx5_rc_queue *q, const uint8_t *cqe)
{
	bool error = spw_prm_cqe64_get_opcode(cqe) == SPW_PRM_CQE_RESP_ERR;
	uint32_t syndrome = error ? spw_prm_cqe_err_get_syndrome(cqe) : 0;
	struct mlx5_rc_peer *p = mlx5_rc_cqe_peer(q, cqe);

	port_rc_count_cqe_error(&q->rc, syndrome);
	mlx5_rc_rx_discard(q, p, spw_prm_cqe_err_get_wqe_counter(cqe));
	if (syndrome == SPW_PRM_SYN_LOCAL_LENGTH_ERR)
		port_rc_count_drop(&q->rc, SPW_PORT_DROP_too_long, 1);
	else if (syndrome != SPW_PRM_SYN_WR_FLUSH_ERR)
		port_rc_count_drop(&q->rc, SPW_PORT_DROP_rx_error, 1);
	port_rc_break(&q->rc, &p->rc, SPW_PEER_WHY_QP_ERROR, syndrome);
}

/* True if the CQE is ours and no burst takes it. One load, since a message may arrive between two.
 */
static bool mlx5_rc_rx_is_odd(const struct mlx5_rc_queue *q, const uint8_t *cqe)
{
	uint8_t raw = spw_dma_load(&cqe[MLX5_CQE_OP_OWN]);
	uint32_t op = (raw & ~MLX5_OP_SE) ^ (q->cq_ci >> q->cq_log2 & 1u);

	if (raw >= MLX5_OP_INVALID || op & 1u || !(op & 0xcfu || op == 0))
		return false;
	return !(q->rc.flags & MLX5_RC_COMPRESSED && mlx5_rc_session_cnt(q, q->cq_ci));
}

/* At most a burst of them, so that one peer's flush delays the others by no more. */
void mlx5_rc_rx_odd(struct mlx5_rc_queue *q)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);

	for (uint32_t n = 0; n < SPW_BURST_MAX && mlx5_rc_rx_is_odd(q, cqe); n++) {
		spw_dma_from_device(); /* [M1] */
		mlx5_rc_rx_error(q, cqe);
		cqe = mlx5_cqe_at(q->cqe, q->cq_mask, ++q->cq_ci);
	}
}

/* The message that failed and the unsignaled ones before it are done. Whether they arrived is
 * unknown, so they count as flushed, not as sent. */
static void mlx5_rc_tx_error(struct mlx5_rc_queue *q, const uint8_t *cqe)
{
	bool error = spw_prm_cqe64_get_opcode(cqe) == SPW_PRM_CQE_REQ_ERR;
	uint32_t syndrome = error ? spw_prm_cqe_err_get_syndrome(cqe) : 0;
	struct mlx5_rc_peer *p = mlx5_rc_cqe_peer(q, cqe);
	uint32_t ci = p->rc.sq_ci, done = (uint16_t)(spw_prm_cqe_err_get_wqe_counter(cqe) + 1 - ci);

	port_rc_count_cqe_error(&q->rc, syndrome);
	if (spw_in_1_to(done, p->rc.sq_pi - ci))
		port_rc_tx_lost(&q->rc, &p->rc, ci + done);
	port_rc_break(&q->rc, &p->rc, SPW_PEER_WHY_QP_ERROR, syndrome);
}

/* Stops at a CQE that a burst takes. */
void mlx5_rc_tx_odd(struct mlx5_rc_queue *q)
{
	const uint8_t *cqe = mlx5_cqe_at(q->tx_cqe, q->tx_cq_mask, q->tx_cq_ci);

	for (uint32_t n = 0; n < SPW_BURST_MAX; n++) {
		uint32_t lap = q->tx_cq_ci >> q->tx_cq_log2;

		if (!mlx5_cqe_owned(cqe, lap, 0) ||
		    mlx5_cqe_plain(cqe, mlx5_own_want(lap, SPW_PRM_CQE_REQ, 0), 0))
			break;
		spw_dma_from_device(); /* [M1] */
		mlx5_rc_tx_error(q, cqe);
		cqe = mlx5_cqe_at(q->tx_cqe, q->tx_cq_mask, ++q->tx_cq_ci);
	}
}
