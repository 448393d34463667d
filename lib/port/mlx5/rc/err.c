/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC errors: one peer's failure is an event of that peer and of no other. A burst that meets an
 * error CQE consumes it, counts it, returns its slots and marks the peer BROKEN: nothing is sent to
 * it or posted for it any more. Its remaining completions (the flush of its rings) are consumed the
 * same way, until the QP is drained and can be reset (turn.c).
 *
 * Called by rx.c and tx.c when a CQE is not plain, and by turn.c and recover.c.
 *
 *   CQE not plain ─► rx_odd, tx_odd ─► counted, slots returned ─► mlx5_rc_break: BROKEN
 *   BROKEN        ─► turn.c, lib/peer: QP to ERR ─► flush CQEs, likewise ─► drained ─► reset
 */
#include "port/mlx5/rc/inline.h"

/* Messages that waited and are longer than the peer takes; max 0: all of them. */
void mlx5_rc_wait_return(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t max)
{
	uint32_t kept = p->wait_ci, cnt;

	for (uint32_t i = p->wait_ci; i != p->wait_pi; i++) {
		const struct mlx5_rc_wait *w = &p->wait[i & p->wait_mask];

		if (w->len - 1 < max)
			p->wait[kept++ & p->wait_mask] = *w;
		else
			mlx5_rc_recycle(q, w->slot, q->flags);
	}
	cnt = p->wait_pi - kept;
	p->wait_pi = kept;
	q->in_tx_cnt -= cnt;
	spw_thr_count(&q->stat.tx_flushed, cnt);
}

/* Idempotent. With limit = used no message may go, so the burst needs no test of its own. */
void mlx5_rc_break(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t syndrome)
{
	if (!mlx5_rc_is_live(p))
		return;
	p->side = SPW_PEER_SIDE_BROKEN;
	p->tx.limit = p->tx.used;
	p->tx.window = 0;
	p->err = (struct mlx5_err){
		.state = MLX5_ERR_NOTED, .syndrome = syndrome, .since_tsc = spw_cpu_counter()};
	q->broken_cnt++;
	mlx5_rc_wait_return(q, p, 0);
}

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
		cnt = q->flags & MLX5_RC_COMPRESSED ? mlx5_rc_session_cnt(q, ci) : 1;
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

bool mlx5_rc_has_unread(const struct mlx5_rc_queue *q, const struct mlx5_rc_peer *p)
{
	return mlx5_rc_rx_is_unread(q, p) || mlx5_rc_tx_is_unread(q, p);
}

/* SRQ: all completions are in the CQ, since the last-WQE event of the QP has arrived. */
bool mlx5_rc_is_drained(const struct mlx5_rc_queue *q, const struct mlx5_rc_peer *p)
{
	if (p->out || p->sq_ci != p->sq_pi)
		return false;
	return q->flags & MLX5_RC_SRQ ? !mlx5_rc_rx_is_unread(q, p) : p->rq_ci == p->rq_pi;
}

/* ---- CQEs that are not plain ---- */

static void mlx5_rc_odd_count(struct mlx5_rc_queue *q, uint32_t syndrome)
{
	mlx5_rc_count_err(q, SPW_PORT_ERR_cqe_error, 1);
	spw_thr_count(&q->syndrome[syndrome < MLX5_SYNDROME_CNT ? syndrome : 0], 1);
}

/* The peer of a CQE; the nobody peer if it is of no QP of this queue. */
static struct mlx5_rc_peer *mlx5_rc_odd_peer(const struct mlx5_rc_queue *q, const uint8_t *cqe)
{
	struct mlx5_rc_peer *p = mlx5_rc_by_qpn(q, mlx5_rc_cqe_qpn(cqe));

	return p->qpn == mlx5_rc_cqe_qpn(cqe) ? p : &q->peer[q->peer_cnt];
}

/* Returns the slot of the receive that the error consumed. It makes no credit. */
static void mlx5_rc_rx_discard(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t idx)
{
	uint32_t slot;

	if (q->flags & MLX5_RC_SRQ) {
		if (!mlx5_rc_srq_is_posted(q, idx))
			return;
		slot = mlx5_rc_srq_take(q, idx);
	} else {
		if (p->rq_ci == p->rq_pi)
			return;
		slot = q->flags & MLX5_RC_WRITE ? 0 : p->slot_of[p->rq_ci & p->rq_mask];
		p->rq_ci++;
	}
	if (!(q->flags & MLX5_RC_WRITE))
		p->stack->slot[p->stack->cnt++] = slot;
}

/* A flush loses nothing; any other error costs the message that it hit. */
static void mlx5_rc_rx_error(struct mlx5_rc_queue *q, const uint8_t *cqe)
{
	bool error = spw_prm_cqe64_get_opcode(cqe) == SPW_PRM_CQE_RESP_ERR;
	uint32_t syndrome = error ? spw_prm_cqe_err_get_syndrome(cqe) : 0;
	struct mlx5_rc_peer *p = mlx5_rc_odd_peer(q, cqe);

	mlx5_rc_odd_count(q, syndrome);
	mlx5_rc_rx_discard(q, p, spw_prm_cqe_err_get_wqe_counter(cqe));
	if (syndrome == SPW_PRM_SYN_LOCAL_LENGTH_ERR)
		mlx5_rc_count_drop(q, SPW_PORT_DROP_too_long, 1);
	else if (syndrome != SPW_PRM_SYN_WR_FLUSH_ERR)
		mlx5_rc_count_drop(q, SPW_PORT_DROP_rx_error, 1);
	mlx5_rc_break(q, p, syndrome);
}

/* True if the CQE is ours and no burst takes it. One load, since a message may arrive between two.
 */
static bool mlx5_rc_rx_is_odd(const struct mlx5_rc_queue *q, const uint8_t *cqe)
{
	uint8_t raw = spw_dma_load(&cqe[MLX5_CQE_OP_OWN]);
	uint32_t op = (raw & ~MLX5_OP_SE) ^ (q->cq_ci >> q->cq_log2 & 1u);

	if (raw >= MLX5_OP_INVALID || op & 1u || !(op & 0xcfu || op == 0))
		return false;
	return !(q->flags & MLX5_RC_COMPRESSED && mlx5_rc_session_cnt(q, q->cq_ci));
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
	struct mlx5_rc_peer *p = mlx5_rc_odd_peer(q, cqe);
	uint32_t done = (uint16_t)(spw_prm_cqe_err_get_wqe_counter(cqe) + 1 - p->sq_ci);

	mlx5_rc_odd_count(q, syndrome);
	if (done - 1 < p->sq_pi - p->sq_ci)
		mlx5_rc_tx_lost(q, p, p->sq_ci + done);
	mlx5_rc_break(q, p, syndrome);
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

/* ---- slots ---- */

/* Counts as flushed: nobody knows whether it arrived. */
void mlx5_rc_tx_lost(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t end)
{
	for (; p->sq_ci != end; p->sq_ci++) {
		const struct mlx5_rc_sent *sent = &p->sent[p->sq_ci & p->sq_mask];

		if (sent->slot == MLX5_RC_NO_SLOT)
			continue;
		mlx5_rc_recycle(q, sent->slot, q->flags);
		q->in_tx_cnt--;
		spw_thr_count(&q->stat.tx_flushed, 1);
	}
}

/* The QP is in RESET, or gone: no device touches the slots. */
void mlx5_rc_reset(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p)
{
	mlx5_rc_wait_return(q, p, 0);
	mlx5_rc_tx_lost(q, p, p->sq_pi);
	for (; p->rq_ci != p->rq_pi; p->rq_ci++)
		if (!(q->flags & MLX5_RC_WRITE))
			p->own.slot[p->own.cnt++] = p->slot_of[p->rq_ci & p->rq_mask];
	p->rq_ci = p->rq_pi = 0;
	p->sq_pi = p->sq_ci = p->sq_rung = p->sq_signal = 0;
	p->tx = (struct spw_peer_tx_credit){0};
	p->drain = (struct rdma_drain){0};
	q->broken_cnt -= p->side == SPW_PEER_SIDE_BROKEN;
	p->side = SPW_PEER_SIDE_DOWN;
}
