/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC send: each message goes to the peer that its descriptor names, as far as that peer has
 * granted. Called through spw_port_queue.tx_burst; mlx5_rc_settle and the events call send what
 * waited.
 *
 * Every send WQE is one basic block of 64 bytes:
 *
 *   0        16                   32
 *   control  remote (WRITE only)  one data segment, or the bytes themselves (inline)
 *
 * One doorbell per peer and burst. Only the last message of a peer in a burst is signaled; its
 * completion returns all slots up to its WQE. Orderings: M2 to M4 of mlx5/mem.h.
 *
 *   tx_burst   reap ─► each message: may it go? ─┬─ yes: WQE (mlx5_rc_tx_build)
 *                                                ├─ later: in the peer's ring of waiting ones
 *                                                └─ no: refused (no_credit)
 *              ─► per peer: the last one signaled, one doorbell
 *   credits    mlx5_rc_grant: a list of slots (WRITE), then a message with their cumulative count
 *
 * PORT_RC_SQ_RESERVE entries of each send queue are for credits only.
 */
#include <string.h>

#include "port/mlx5/rc/inline.h"

#define CTRL_BYTES  16u
#define RADDR_BYTES 16u

SPW_INLINE uint8_t *mlx5_rc_sq_wqe(const struct mlx5_rc_peer *p, uint32_t pos)
{
	return p->sq + (size_t)(pos & p->rc.sq_mask) * SPW_PRM_WQE_BB_BYTES;
}

SPW_INLINE void mlx5_rc_put_ctrl(uint8_t *wqe, const struct mlx5_rc_peer *p, uint32_t opcode,
				 uint32_t ds, uint32_t imm)
{
	spw_prm_st32(wqe, (p->rc.sq_pi & 0xffffu) << 8 | opcode);
	spw_prm_st32(wqe + 4, p->qpn << 8 | ds);
	spw_prm_st32(wqe + 8, 0);
	spw_prm_st32(wqe + 12, imm);
}

/* Asks for a completion of the WQE before sq_pi. */
SPW_INLINE void mlx5_rc_signal_last(struct mlx5_rc_peer *p)
{
	spw_prm_st32(mlx5_rc_sq_wqe(p, p->rc.sq_pi - 1) + 8, SPW_PRM_CTRL_CE_CQE << 2);
	p->rc.sq_signal = p->rc.sq_pi;
}

/* The two halves of a BlueFlame register are used in turn; the turn belongs to the register, which
 * the queue's peers share. A peer without it (bf_toggle 0) rings another register and leaves the
 * turn alone. Source: rdma-core qp.c, post_send_db. */
SPW_INLINE void mlx5_rc_ring_doorbell(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p)
{
	const uint32_t pi = p->rc.sq_pi;

	mlx5_doorbell(p->sq_db, p->bf + (q->bf_off & p->bf_toggle), mlx5_rc_sq_wqe(p, pi - 1), pi,
		      pi - p->sq_rung == 1 && p->bf_toggle);
	q->bf_off ^= p->bf_toggle;
	p->sq_rung = p->rc.sq_pi;
}

/* ---- completions ---- */

/* A CQE of no QP of this queue, or of a WQE that is not posted, must not happen: its peer is
 * BROKEN. */
SPW_INLINE void mlx5_rc_reap_one(struct mlx5_rc_queue *q, const uint8_t *cqe, const unsigned flags)
{
	struct port_rc_peer *p = &mlx5_rc_cqe_peer(q, cqe)->rc;
	uint32_t done = (uint16_t)(spw_prm_cqe64_get_wqe_counter(cqe) + 1 - p->sq_ci);

	if (spw_unlikely(!spw_in_1_to(done, p->sq_pi - p->sq_ci))) {
		port_rc_count_cqe_error(&q->rc, 0);
		port_rc_break(&q->rc, p, SPW_PEER_WHY_QP_ERROR, 0);
		return;
	}
	port_rc_tx_return(&q->rc, p, p->sq_ci + done, flags);
	if (spw_unlikely(p->wait_ci != p->wait_pi))
		port_rc_enlist(&q->rc, p);
}

/* Returns: leading CQEs that are ours and report success; up to the end of the ring. */
SPW_INLINE uint32_t mlx5_rc_reap_plain_cnt(const struct mlx5_rc_queue *q)
{
	const uint8_t *cqe = mlx5_cqe_at(q->tx_cqe, q->tx_cq_mask, q->tx_cq_ci);
	uint32_t want = mlx5_own_want(q->tx_cq_ci >> q->tx_cq_log2, SPW_PRM_CQE_REQ, 0), n = 0;
	uint32_t end =
		SPW_MIN((uint32_t)SPW_BURST_MAX, q->tx_cq_mask + 1 - (q->tx_cq_ci & q->tx_cq_mask));

	for (; n < end && mlx5_cqe_plain(cqe, want, 0); cqe += MLX5_CQE_BYTES)
		n++;
	return n;
}

SPW_INLINE void mlx5_rc_reap_body(struct mlx5_rc_queue *q, const unsigned flags)
{
	uint32_t n = mlx5_rc_reap_plain_cnt(q), ci = q->tx_cq_ci;
	const uint8_t *cqe = mlx5_cqe_at(q->tx_cqe, q->tx_cq_mask, ci);

	if (n) {
		spw_dma_from_device(); /* [M1] */
		for (uint32_t i = 0; i < n; i++, cqe += MLX5_CQE_BYTES)
			mlx5_rc_reap_one(q, cqe, flags);
		q->tx_cq_ci += n;
	} else if (spw_unlikely(mlx5_cqe_owned(cqe, ci >> q->tx_cq_log2, 0))) {
		mlx5_rc_tx_odd(q);
	}
	if (q->tx_cq_ci == ci)
		return;
	spw_dma_to_device(); /* [M2] */
	mlx5_cq_record_put(q->tx_cq_db, q->tx_cq_ci);
}

void mlx5_rc_reap(struct port_rc_queue *rc)
{
	mlx5_rc_reap_body(mlx5_rc_queue_of(rc), rc->flags);
}

/* ---- messages ---- */

SPW_INLINE void mlx5_rc_tx_build(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p,
				 const struct spw_desc *desc, uint32_t slot, const unsigned flags)
{
	const uint32_t head = CTRL_BYTES + (flags & PORT_RC_WRITE ? RADDR_BYTES : 0);
	const uint8_t *msg = spw_pool_slot_addr(q->rc.pool, desc->slot) + desc->offset;
	const struct spw_peer_remote *to = &p->rc.remote;
	uint8_t *wqe = mlx5_rc_sq_wqe(p, p->rc.sq_pi), *data = wqe + head;
	uint32_t imm = desc->meta,
		 opcode = desc->flags & SPW_DESC_IMM ? SPW_PRM_OP_SEND_IMM : SPW_PRM_OP_SEND, ds;

	if (flags & PORT_RC_WRITE) {
		opcode = SPW_PRM_OP_RDMA_WRITE_IMM;
		imm = slot;
		mlx5_wqe_raddr_put(wqe + CTRL_BYTES,
				   to->slot_addr + (uint64_t)slot * to->slot_stride, to->slot_rkey);
	}
	if (desc->len <= SPW_PRM_WQE_BB_BYTES - head - 4) {
		spw_prm_st32(data, 1u << 31 | desc->len);
		memcpy(data + 4, msg, desc->len);
		ds = (head + 4 + desc->len + 15) / 16;
	} else {
		mlx5_wqe_data_put(data, (uintptr_t)msg, desc->len, p->rc.lkey);
		ds = head / 16 + 1;
	}
	mlx5_rc_put_ctrl(wqe, p, opcode, ds, imm);
	port_rc_tx_posted(&p->rc, desc->slot, desc->len);
	p->rc.tx.used++;
}

/* True if the message can be sent now: there is room, nothing waits before it, and the peer accepts
 * the length. */
SPW_INLINE bool mlx5_rc_tx_may(const struct port_rc_peer *p, uint32_t len)
{
	return port_rc_tx_has_room(p) && p->wait_pi == p->wait_ci &&
	       spw_in_1_to(len, p->remote.slot_bytes);
}

SPW_INLINE uint16_t mlx5_rc_tx_body(struct mlx5_rc_queue *q, struct spw_desc **desc, uint16_t cnt,
				    const unsigned flags)
{
	struct mlx5_rc_peer *ring[SPW_BURST_MAX];
	uint32_t taken = 0, rings = 0;

	mlx5_rc_reap_body(q, flags);
	for (uint32_t i = 0; i < cnt; i++) {
		struct spw_desc *d = desc[i];
		struct mlx5_rc_peer *p = mlx5_rc_peer_of(port_rc_tx_peer(&q->rc, d->peer));
		uint32_t slot = 0;

		if (spw_likely(mlx5_rc_tx_may(&p->rc, d->len)) &&
		    port_rc_tx_slot(&q->rc, &p->rc, &slot, flags)) {
			if (p->sq_rung == p->rc.sq_pi)
				ring[rings++] = p;
			mlx5_rc_tx_build(q, p, d, slot, flags);
		} else if (!port_rc_tx_later(&p->rc, d)) {
			continue;
		}
		desc[i] = desc[taken];
		desc[taken++] = d;
	}
	for (uint32_t i = 0; i < rings; i++) {
		mlx5_rc_signal_last(ring[i]);
		mlx5_rc_ring_doorbell(q, ring[i]);
	}
	q->rc.lent_cnt -= taken;
	q->rc.in_tx_cnt += taken;
	if (spw_unlikely(taken < cnt))
		port_rc_count_err(&q->rc, SPW_PORT_ERR_no_credit, cnt - taken);
	return (uint16_t)taken;
}

/* In the order in which they came; a new message never passes one that waits. */
void mlx5_rc_send_waiting(struct port_rc_queue *rc, struct port_rc_peer *to)
{
	struct mlx5_rc_queue *q = mlx5_rc_queue_of(rc);
	struct mlx5_rc_peer *p = mlx5_rc_peer_of(to);

	while (to->wait_ci != to->wait_pi && port_rc_tx_has_room(to)) {
		const struct port_rc_wait *w = &to->wait[to->wait_ci & to->wait_mask];
		const struct spw_desc d = {.slot = w->slot,
					   .offset = w->offset,
					   .len = w->len,
					   .meta = w->meta,
					   .flags = w->flags};
		uint32_t slot = 0;

		if (!port_rc_tx_slot(rc, to, &slot, rc->flags))
			break;
		mlx5_rc_tx_build(q, p, &d, slot, rc->flags);
		to->wait_ci++;
	}
	if (p->sq_rung == to->sq_pi)
		return;
	mlx5_rc_signal_last(p);
	mlx5_rc_ring_doorbell(q, p);
}

/* ---- credits ---- */

/* WRITE: copies a contiguous part of the list of granted slots to the peer's ring by RDMA WRITE. */
static void mlx5_rc_grant_write(struct port_rc_queue *rc, struct port_rc_peer *to, uint32_t first,
				uint32_t cnt)
{
	const struct spw_peer_remote *remote = &to->remote;
	struct mlx5_rc_peer *p = mlx5_rc_peer_of(to);
	spw_be32 *list = &to->ring_out[first & (SPW_PEER_CREDIT_MAX - 1)];
	uint8_t *wqe = mlx5_rc_sq_wqe(p, to->sq_pi);

	port_rc_grant_slots(rc, to, list, cnt);
	mlx5_wqe_raddr_put(wqe + CTRL_BYTES,
			   remote->ring_addr + (first & (remote->ring_cnt - 1)) * sizeof(spw_be32),
			   remote->ring_rkey);
	mlx5_wqe_data_put(wqe + CTRL_BYTES + RADDR_BYTES, (uintptr_t)list,
			  cnt * (uint32_t)sizeof(spw_be32), to->ring_lkey);
	mlx5_rc_put_ctrl(wqe, p, SPW_PRM_OP_RDMA_WRITE, 3, 0);
	port_rc_tx_posted(to, PORT_RC_NO_SLOT, 0);
}

void mlx5_rc_grant(struct port_rc_queue *rc, struct port_rc_peer *to)
{
	struct mlx5_rc_peer *p = mlx5_rc_peer_of(to);

	port_rc_grant_lists(rc, to, mlx5_rc_grant_write);
	mlx5_rc_put_ctrl(mlx5_rc_sq_wqe(p, to->sq_pi), p, SPW_PRM_OP_SEND_IMM, 1,
			 to->rx.advertised);
	port_rc_tx_posted(to, PORT_RC_NO_SLOT, 0);
	if (to->sq_pi - to->sq_signal >
	    to->sq_limit / 4) /* so that WQEs are freed even if only credits are sent */
		mlx5_rc_signal_last(p);
	mlx5_rc_ring_doorbell(mlx5_rc_queue_of(rc), p);
	spw_thr_count(&rc->control_tx, 1);
}

void mlx5_rc_mark(struct port_rc_queue *rc, struct port_rc_peer *to)
{
	struct mlx5_rc_peer *p = mlx5_rc_peer_of(to);

	if (to->sq_ci == to->sq_pi || to->sq_signal == to->sq_pi)
		return;
	mlx5_rc_put_ctrl(mlx5_rc_sq_wqe(p, to->sq_pi), p, SPW_PRM_OP_SEND, 1, 0);
	port_rc_tx_posted(to, PORT_RC_NO_SLOT, 0);
	mlx5_rc_signal_last(p);
	mlx5_rc_ring_doorbell(mlx5_rc_queue_of(rc), p);
}

/* ---- the variants ---- */

#define TX_VARIANTS(X) \
	X(send, 0)     \
	X(write, PORT_RC_WRITE)

#define TX_DEFINE(name, f)                                                                      \
	static uint16_t mlx5_rc_tx_burst_##name(void *vq, struct spw_desc **desc, uint16_t cnt) \
	{                                                                                       \
		return mlx5_rc_tx_body(vq, desc, cnt, f);                                       \
	}
TX_VARIANTS(TX_DEFINE)

mlx5_tx_fn *mlx5_rc_tx_variant(unsigned flags)
{
	flags &= PORT_RC_WRITE;
#define TX_PICK(name, f)  \
	if (flags == (f)) \
		return mlx5_rc_tx_burst_##name;
	TX_VARIANTS(TX_PICK)
	return NULL;
}
