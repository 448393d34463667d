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
 * completion returns all slots up to its WQE. Orderings: M2 to M4 of eth/queue.h.
 *
 *   tx_burst   reap ─► each message: may it go? ─┬─ yes: WQE (tx_build)
 *                                                ├─ later: in the peer's ring of waiting ones
 *                                                └─ no: refused (no_credit)
 *              ─► per peer: the last one signaled, one doorbell
 *   credits    mlx5_rc_grant: a list of slots (WRITE), then a message with their cumulative count
 *
 * MLX5_RC_SQ_RESERVE entries of each send queue are for credits only.
 */
#include <string.h>

#include "port/mlx5/rc/inline.h"

#define CTRL_BYTES  16u
#define RADDR_BYTES 16u

SPW_INLINE uint8_t *mlx5_rc_sq_wqe(const struct mlx5_rc_peer *p, uint32_t pos)
{
	return p->sq + (size_t)(pos & p->sq_mask) * SPW_PRM_WQE_BB_BYTES;
}

SPW_INLINE void mlx5_rc_put_ctrl(uint8_t *wqe, const struct mlx5_rc_peer *p, uint32_t opcode,
				 uint32_t ds, uint32_t imm)
{
	spw_prm_st32(wqe, (p->sq_pi & 0xffffu) << 8 | opcode);
	spw_prm_st32(wqe + 4, p->qpn << 8 | ds);
	spw_prm_st32(wqe + 8, 0);
	spw_prm_st32(wqe + 12, imm);
}

/* Asks for a completion of the WQE before sq_pi. */
SPW_INLINE void mlx5_rc_signal_last(struct mlx5_rc_peer *p)
{
	spw_prm_st32(mlx5_rc_sq_wqe(p, p->sq_pi - 1) + 8, SPW_PRM_CTRL_CE_CQE << 2);
	p->sq_signal = p->sq_pi;
}

/* The two halves of a BlueFlame register are used in turn; the turn belongs to the register, which
 * the queue's peers share. A peer without it (bf_toggle 0) rings another register and leaves the
 * turn alone. Source: rdma-core qp.c, post_send_db. */
SPW_INLINE void mlx5_rc_ring_doorbell(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p)
{
	mlx5_doorbell(p->sq_db, p->bf + (q->bf_off & p->bf_toggle), mlx5_rc_sq_wqe(p, p->sq_pi - 1),
		      p->sq_pi, p->sq_pi - p->sq_rung == 1 && p->bf_toggle);
	q->bf_off ^= p->bf_toggle;
	p->sq_rung = p->sq_pi;
}

/* ---- completions ---- */

/* Returns the slots of the WQEs up to `end`. */
SPW_INLINE void mlx5_rc_tx_return(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t end,
				  const unsigned flags)
{
	uint64_t bytes = 0;
	uint32_t cnt = 0;

	for (; p->sq_ci != end; p->sq_ci++) {
		const struct mlx5_rc_sent *sent = &p->sent[p->sq_ci & p->sq_mask];

		if (sent->slot == MLX5_RC_NO_SLOT)
			continue;
		mlx5_rc_recycle(q, sent->slot, flags);
		bytes += sent->len;
		cnt++;
	}
	q->in_tx_cnt -= cnt;
	spw_thr_count(&q->stat.tx_frames, cnt);
	spw_thr_count(&q->stat.tx_bytes, bytes);
}

/* A CQE of no QP of this queue, or of a WQE that is not posted, must not happen: its peer is
 * BROKEN. */
SPW_INLINE void mlx5_rc_reap_one(struct mlx5_rc_queue *q, const uint8_t *cqe, const unsigned flags)
{
	uint32_t qpn = mlx5_rc_cqe_qpn(cqe), done;
	struct mlx5_rc_peer *p = mlx5_rc_by_qpn(q, qpn);

	done = (uint16_t)(spw_prm_cqe64_get_wqe_counter(cqe) + 1 - p->sq_ci);
	if (spw_unlikely(p->qpn != qpn || !spw_in_1_to(done, p->sq_pi - p->sq_ci))) {
		mlx5_rc_count_err(q, SPW_PORT_ERR_cqe_error, 1);
		spw_thr_count(&q->syndrome[0], 1);
		mlx5_rc_break(q, p->qpn == qpn ? p : &q->peer[q->peer_cnt], 0);
		return;
	}
	mlx5_rc_tx_return(q, p, p->sq_ci + done, flags);
	if (spw_unlikely(p->wait_ci != p->wait_pi))
		mlx5_rc_enlist(q, p);
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

void mlx5_rc_reap(struct mlx5_rc_queue *q)
{
	mlx5_rc_reap_body(q, q->flags);
}

/* ---- messages ---- */

static SPW_NOINLINE bool mlx5_rc_tx_no_slot(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p)
{
	mlx5_rc_count_err(q, SPW_PORT_ERR_protocol, 1);
	mlx5_rc_break(q, p, MLX5_RC_SYN_PROTOCOL);
	return false;
}

/* WRITE: the slot that the peer granted next, from the ring that the peer writes. A number out of
 * range is a breach of the protocol. Returns: false: the peer is BROKEN now. */
SPW_INLINE bool mlx5_rc_tx_slot(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t *slot_out,
				const unsigned flags)
{
	if (!(flags & MLX5_RC_WRITE))
		return true;
	*slot_out =
		spw_be32_to_cpu(spw_dma_load(&p->ring_in[p->tx.used & (SPW_PEER_CREDIT_MAX - 1)]));
	return spw_likely(*slot_out < p->tx.window) || mlx5_rc_tx_no_slot(q, p);
}

SPW_INLINE void mlx5_rc_tx_build(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p,
				 const struct spw_desc *desc, uint32_t slot, const unsigned flags)
{
	const uint32_t head = CTRL_BYTES + (flags & MLX5_RC_WRITE ? RADDR_BYTES : 0);
	const uint8_t *msg = spw_pool_slot_addr(q->pool, desc->slot) + desc->offset;
	uint8_t *wqe = mlx5_rc_sq_wqe(p, p->sq_pi), *data = wqe + head;
	uint32_t imm = desc->meta,
		 opcode = desc->flags & SPW_DESC_IMM ? SPW_PRM_OP_SEND_IMM : SPW_PRM_OP_SEND, ds;

	if (flags & MLX5_RC_WRITE) {
		opcode = SPW_PRM_OP_RDMA_WRITE_IMM;
		imm = slot;
		mlx5_wqe_raddr_put(wqe + CTRL_BYTES, p->raddr + slot * p->rstride, p->rkey);
	}
	if (desc->len <= SPW_PRM_WQE_BB_BYTES - head - 4) {
		spw_prm_st32(data, 1u << 31 | desc->len);
		memcpy(data + 4, msg, desc->len);
		ds = (head + 4 + desc->len + 15) / 16;
	} else {
		mlx5_wqe_data_put(data, (uintptr_t)msg, desc->len, p->lkey);
		ds = head / 16 + 1;
	}
	mlx5_rc_put_ctrl(wqe, p, opcode, ds, imm);
	p->sent[p->sq_pi & p->sq_mask] = (struct mlx5_rc_sent){desc->slot, desc->len};
	p->sq_pi++;
	p->tx.used++;
}

/* True if the message can be sent now: a credit is left (never unless UP), nothing waits before it,
 * the send ring has room, and the peer accepts the length. */
SPW_INLINE bool mlx5_rc_tx_may(const struct mlx5_rc_peer *p, uint32_t len)
{
	return p->tx.limit != p->tx.used && p->wait_pi == p->wait_ci &&
	       p->sq_pi - p->sq_ci < p->sq_limit - MLX5_RC_SQ_RESERVE && len - 1 < p->msg_max;
}

/* Queues a message that cannot be sent now. Returns: false: it is not accepted. */
static SPW_NOINLINE bool mlx5_rc_tx_later(struct mlx5_rc_peer *p, const struct spw_desc *d)
{
	if (!mlx5_rc_is_live(p) || p->wait_pi - p->wait_ci > p->wait_mask ||
	    (p->side == SPW_PEER_SIDE_UP && !spw_in_1_to(d->len, p->msg_max)))
		return false;
	p->wait[p->wait_pi++ & p->wait_mask] =
		(struct mlx5_rc_wait){d->slot, d->offset, d->len, d->meta, d->flags};
	return true;
}

SPW_INLINE struct mlx5_rc_peer *mlx5_rc_tx_peer(const struct mlx5_rc_queue *q, uint32_t index)
{
	return spw_likely(index < q->index_cnt) ? q->by_index[index] : &q->peer[q->peer_cnt];
}

SPW_INLINE uint16_t mlx5_rc_tx_body(struct mlx5_rc_queue *q, struct spw_desc **desc, uint16_t cnt,
				    const unsigned flags)
{
	struct mlx5_rc_peer *ring[SPW_BURST_MAX];
	uint32_t taken = 0, rings = 0;

	mlx5_rc_reap_body(q, flags);
	for (uint32_t i = 0; i < cnt; i++) {
		struct spw_desc *d = desc[i];
		struct mlx5_rc_peer *p = mlx5_rc_tx_peer(q, d->peer);
		uint32_t slot = 0;

		if (spw_likely(mlx5_rc_tx_may(p, d->len)) && mlx5_rc_tx_slot(q, p, &slot, flags)) {
			if (p->sq_rung == p->sq_pi)
				ring[rings++] = p;
			mlx5_rc_tx_build(q, p, d, slot, flags);
		} else if (!mlx5_rc_tx_later(p, d)) {
			continue;
		}
		desc[i] = desc[taken];
		desc[taken++] = d;
	}
	for (uint32_t i = 0; i < rings; i++) {
		mlx5_rc_signal_last(ring[i]);
		mlx5_rc_ring_doorbell(q, ring[i]);
	}
	q->lent_cnt -= taken;
	q->in_tx_cnt += taken;
	if (spw_unlikely(taken < cnt))
		mlx5_rc_count_err(q, SPW_PORT_ERR_no_credit, cnt - taken);
	return (uint16_t)taken;
}

/* In the order in which they came; a new message never passes one that waits. */
void mlx5_rc_send_waiting(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p)
{
	while (p->wait_ci != p->wait_pi && p->tx.limit != p->tx.used &&
	       p->sq_pi - p->sq_ci < p->sq_limit - MLX5_RC_SQ_RESERVE) {
		const struct mlx5_rc_wait *w = &p->wait[p->wait_ci & p->wait_mask];
		const struct spw_desc d = {.slot = w->slot,
					   .offset = w->offset,
					   .len = w->len,
					   .meta = w->meta,
					   .flags = w->flags};
		uint32_t slot = 0;

		if (!mlx5_rc_tx_slot(q, p, &slot, q->flags))
			break;
		mlx5_rc_tx_build(q, p, &d, slot, q->flags);
		p->wait_ci++;
	}
	if (p->sq_rung == p->sq_pi)
		return;
	mlx5_rc_signal_last(p);
	mlx5_rc_ring_doorbell(q, p);
}

/* ---- credits ---- */

/* WRITE: copies a contiguous part of the list of granted slots to the peer's ring by RDMA WRITE. */
static void mlx5_rc_grant_write(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t first,
				uint32_t cnt)
{
	spw_be32 *list = &p->ring_out[first & (SPW_PEER_CREDIT_MAX - 1)];
	uint8_t *wqe = mlx5_rc_sq_wqe(p, p->sq_pi);

	for (uint32_t i = 0; i < cnt; i++)
		q->slot_state[p->slot_first + spw_be32_to_cpu(list[i])] = MLX5_RC_GRANTED;
	mlx5_wqe_raddr_put(wqe + CTRL_BYTES,
			   p->ring_raddr + (first & p->ring_rmask) * sizeof(spw_be32),
			   p->ring_rkey);
	mlx5_wqe_data_put(wqe + CTRL_BYTES + RADDR_BYTES, (uintptr_t)list,
			  cnt * (uint32_t)sizeof(spw_be32), p->ring_lkey);
	mlx5_rc_put_ctrl(wqe, p, SPW_PRM_OP_RDMA_WRITE, 3, 0);
	p->sent[p->sq_pi++ & p->sq_mask] = (struct mlx5_rc_sent){MLX5_RC_NO_SLOT, 0};
}

/* The list goes first: on one QP the count arrives after the slots. */
void mlx5_rc_grant(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p)
{
	uint32_t cnt = p->rx.returned - p->rx.advertised,
		 part = SPW_MIN(cnt, p->ring_rmask + 1 - (p->rx.advertised & p->ring_rmask));

	if (q->flags & MLX5_RC_WRITE && cnt) { /* the greeting may grant nothing new */
		mlx5_rc_grant_write(q, p, p->rx.advertised, part);
		if (part < cnt)
			mlx5_rc_grant_write(q, p, p->rx.advertised + part, cnt - part);
	}
	p->rx.advertised = p->rx.returned;
	mlx5_rc_put_ctrl(mlx5_rc_sq_wqe(p, p->sq_pi), p, SPW_PRM_OP_SEND_IMM, 1, p->rx.advertised);
	p->sent[p->sq_pi++ & p->sq_mask] = (struct mlx5_rc_sent){MLX5_RC_NO_SLOT, 0};
	if (p->sq_pi - p->sq_signal >
	    p->sq_limit / 4) /* so that WQEs are freed even if only credits are sent */
		mlx5_rc_signal_last(p);
	mlx5_rc_ring_doorbell(q, p);
	spw_thr_count(&q->control_tx, 1);
}

void mlx5_rc_mark(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p)
{
	if (p->sq_ci == p->sq_pi || p->sq_signal == p->sq_pi)
		return;
	mlx5_rc_put_ctrl(mlx5_rc_sq_wqe(p, p->sq_pi), p, SPW_PRM_OP_SEND, 1, 0);
	p->sent[p->sq_pi++ & p->sq_mask] = (struct mlx5_rc_sent){MLX5_RC_NO_SLOT, 0};
	mlx5_rc_signal_last(p);
	mlx5_rc_ring_doorbell(q, p);
}

/* ---- the variants ---- */

#define TX_VARIANTS(X) \
	X(send, 0)     \
	X(write, MLX5_RC_WRITE)

#define TX_DEFINE(name, f)                                                                      \
	static uint16_t mlx5_rc_tx_burst_##name(void *vq, struct spw_desc **desc, uint16_t cnt) \
	{                                                                                       \
		return mlx5_rc_tx_body(vq, desc, cnt, f);                                       \
	}
TX_VARIANTS(TX_DEFINE)

mlx5_tx_fn *mlx5_rc_tx_variant(unsigned flags)
{
	flags &= MLX5_RC_WRITE;
#define TX_PICK(name, f)  \
	if (flags == (f)) \
		return mlx5_rc_tx_burst_##name;
	TX_VARIANTS(TX_PICK)
	return NULL;
}
