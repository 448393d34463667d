/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC receive: messages of all peers of a queue, from one CQ. One inline body with constant flags;
 * RX_VARIANTS instantiates it. Called through spw_port_queue.rx_burst.
 *
 * A burst reads the op_own bytes of the CQEs that are there, and issues one acquire [M1] for all of
 * them. Then each peer that had a message is settled once: its ring is refilled, its doorbell
 * record stored, and credits are sent if enough have accumulated.
 *
 * COMPRESSED: completions of one QP that differ only in length arrive as one title CQE and
 * mini-CQEs:
 *
 *   title | mini 0..7 | (slots that the NIC skipped) ... | mini 8..15 | ...
 *   ^cq_ci: each completion uses up one slot of the ring; arrays follow where ci arrives
 *
 * A CQE is trusted only as far as memory and slots stay safe: receives of a QP are consumed by our
 * own count, a shared one must have been posted, and a slot that an immediate names must have been
 * granted to that peer. A CQE that does not fit costs that peer its QP, and nobody else anything.
 */
#include <string.h>

#include "port/mlx5/rc/inline.h"

/* State of one burst, kept in registers. */
struct burst {
	struct spw_desc *desc; /* next to fill */
	uint64_t bytes;
};

/* ---- settling ---- */

SPW_INLINE uint8_t *mlx5_rc_rq_wqe(const struct mlx5_rc_peer *p, uint32_t pos)
{
	return p->wqe + ((size_t)(pos & p->rc.rq_mask) << p->rq_shift);
}

/* Only the address of a WQE changes; lkey and byte count were set when it was posted first. The
 * ring has a WQE for each slot. */
SPW_INLINE void mlx5_rc_rq_refill(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p,
				  const unsigned flags)
{
	struct port_rc_peer *rc = &p->rc;

	if (flags & PORT_RC_WRITE) { /* nothing to fill in */
		rc->rq_pi = rc->rq_ci + rc->rq_mask + 1;
		return;
	}
	while (rc->own.cnt) {
		uint32_t slot = rc->own.slot[--rc->own.cnt];

		rc->slot_of[rc->rq_pi & rc->rq_mask] = slot;
		spw_prm_wqe_data_set_addr(mlx5_rc_rq_wqe(p, rc->rq_pi++),
					  (uintptr_t)spw_pool_slot_addr(q->rc.pool, slot));
	}
}

SPW_INLINE void mlx5_rc_srq_refill(struct mlx5_rc_queue *q, const unsigned flags)
{
	struct port_rc_stack *stack = &q->rc.stack;

	while (q->rc.srq_posted < q->srq_mask && (flags & PORT_RC_WRITE || stack->cnt)) {
		uint32_t idx = q->srq_head,
			 slot = flags & PORT_RC_WRITE ? 0 : stack->slot[--stack->cnt];

		q->srq_slot[idx] = slot;
		if (!(flags & PORT_RC_WRITE))
			spw_prm_wqe_data_set_addr(mlx5_rc_srq_wqe(q, idx) + 16,
						  (uintptr_t)spw_pool_slot_addr(q->rc.pool, slot));
		q->srq_head = q->srq_next[idx];
		q->rc.srq_posted++;
		q->srq_pi++;
	}
}

/* Refills, then the doorbell records. The consumer index goes first: a NIC that uses a new WQE must
 * not find the CQ full. One M7 serves all peers of the queue. */
SPW_INLINE void mlx5_rc_refill(struct mlx5_rc_queue *q, const unsigned flags)
{
	const uint32_t peers = flags & PORT_RC_SRQ ? 0 : q->rc.todo_cnt;

	if (flags & PORT_RC_SRQ)
		mlx5_rc_srq_refill(q, flags);
	for (uint32_t i = 0; i < peers; i++)
		if (spw_likely(port_rc_is_live(q->rc.todo[i])))
			mlx5_rc_rq_refill(q, mlx5_rc_peer_of(q->rc.todo[i]), flags);
	spw_dma_to_device(); /* [M2] */
	mlx5_cq_record_put(q->cq_db, q->cq_ci);
	spw_dma_to_device(); /* [M7] */
	if (flags & PORT_RC_SRQ)
		mlx5_wq_record_put(q->srq_db, q->srq_pi);
	for (uint32_t i = 0; i < peers; i++)
		if (spw_likely(port_rc_is_live(q->rc.todo[i])))
			mlx5_wq_record_put(mlx5_rc_peer_of(q->rc.todo[i])->rq_db,
					   q->rc.todo[i]->rq_pi);
}

SPW_INLINE void mlx5_rc_settle_body(struct mlx5_rc_queue *q, const unsigned flags)
{
	mlx5_rc_refill(q, flags);
	port_rc_serve(&q->rc, mlx5_rc_send_waiting, mlx5_rc_grant);
}

void mlx5_rc_settle(struct port_rc_queue *rc)
{
	mlx5_rc_settle_body(mlx5_rc_queue_of(rc), rc->flags);
}

/* ---- one CQE ---- */

/* Must not happen: a CQE of an unknown QP, or of a receive that was not posted. A shared receive
 * that it consumed is posted again. */
static SPW_COLD void mlx5_rc_rx_bad_cqe(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p,
					uint32_t idx)
{
	port_rc_count_cqe_error(&q->rc, 0);
	if (q->rc.flags & PORT_RC_SRQ && mlx5_rc_srq_is_posted(q, idx))
		port_rc_rx_unused(&q->rc, &p->rc, mlx5_rc_srq_take(q, idx));
	port_rc_break(&q->rc, &p->rc, SPW_PEER_WHY_QP_ERROR, 0);
}

/* SEND: a control message, a message without credit, or one that does not fit. The slot is posted
 * again. */
static SPW_COLD void mlx5_rc_rx_send_odd(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p,
					 const uint8_t *cqe, uint32_t slot, uint32_t len)
{
	uint32_t op = spw_prm_cqe64_get_opcode(cqe);

	port_rc_rx_unused(&q->rc, &p->rc, slot);
	if (op == SPW_PRM_CQE_RESP_SEND_IMM && len == 0) {
		port_rc_rx_control(&q->rc, &p->rc, spw_prm_cqe64_get_imm_inval_pkey(cqe));
		return;
	}
	if (op == SPW_PRM_CQE_RESP_WR_IMM || len == 0 || !spw_peer_rx_credit_take(&p->rc.rx)) {
		port_rc_breach(&q->rc, &p->rc);
		return;
	}
	port_rc_count_drop(&q->rc, SPW_PORT_DROP_too_long, 1);
	p->rc.rx.returned++;
}

/* Fills the next descriptor. Only a SEND has an immediate of the user's. */
SPW_INLINE void mlx5_rc_rx_emit(struct mlx5_rc_queue *q, struct burst *r, struct mlx5_rc_peer *p,
				const uint8_t *cqe, uint32_t slot, uint32_t len,
				const unsigned flags)
{
	bool imm = !(flags & PORT_RC_WRITE) &&
		   cqe[MLX5_CQE_OP_OWN] >> 4 == SPW_PRM_CQE_RESP_SEND_IMM;
	uint64_t stamp = flags & MLX5_RC_STAMP ? spw_prm_cqe64_get_timestamp(cqe) : 0;
	uint64_t bits = SPW_DESC_MSG | (imm ? SPW_DESC_IMM : 0) |
			(flags & MLX5_RC_STAMP ? SPW_DESC_NIC_STAMP : 0);

	mlx5_desc_put(r->desc++, stamp, slot, len, imm ? spw_prm_cqe64_get_imm_inval_pkey(cqe) : 0,
		      p->rc.index | bits << 32, q->rc.desc_tail);
	r->bytes += len;
}

SPW_INLINE void mlx5_rc_rx_send(struct mlx5_rc_queue *q, struct burst *r, struct mlx5_rc_peer *p,
				const uint8_t *cqe, uint32_t slot, uint32_t len,
				const unsigned flags)
{
	uint32_t op = cqe[MLX5_CQE_OP_OWN] >> 4;

	if (spw_unlikely(op == SPW_PRM_CQE_RESP_WR_IMM ||
			 !port_rc_rx_sent(&q->rc, &p->rc, slot, len, flags)))
		mlx5_rc_rx_send_odd(q, p, cqe, slot, len);
	else
		mlx5_rc_rx_emit(q, r, p, cqe, slot, len, flags);
}

SPW_INLINE void mlx5_rc_rx_write(struct mlx5_rc_queue *q, struct burst *r, struct mlx5_rc_peer *p,
				 const uint8_t *cqe, uint32_t len, const unsigned flags)
{
	uint32_t op = cqe[MLX5_CQE_OP_OWN] >> 4;
	uint32_t imm = spw_prm_cqe64_get_imm_inval_pkey(cqe), slot;

	if (op == SPW_PRM_CQE_RESP_SEND_IMM && len == 0)
		port_rc_rx_control(&q->rc, &p->rc, imm);
	else if (spw_unlikely(op != SPW_PRM_CQE_RESP_WR_IMM ||
			      !port_rc_rx_written(&q->rc, &p->rc, imm, len, &slot)))
		port_rc_breach(&q->rc, &p->rc);
	else
		mlx5_rc_rx_emit(q, r, p, cqe, slot, len, flags);
}

/* One completion of len bytes; idx is the receive WQE, used with an SRQ only. */
SPW_INLINE void mlx5_rc_rx_one(struct mlx5_rc_queue *q, struct burst *r, struct mlx5_rc_peer *p,
			       const uint8_t *cqe, uint32_t idx, uint32_t len, const unsigned flags)
{
	uint32_t slot;

	if (spw_unlikely(!mlx5_rc_rx_is_posted(q, p, idx, flags))) {
		mlx5_rc_rx_bad_cqe(q, p, idx);
		return;
	}
	slot = mlx5_rc_rx_take(q, p, idx, flags);
	port_rc_enlist(&q->rc, &p->rc);
	if (flags & PORT_RC_WRITE)
		mlx5_rc_rx_write(q, r, p, cqe, len, flags);
	else
		mlx5_rc_rx_send(q, r, p, cqe, slot, len, flags);
}

/* ---- the burst ---- */

/* Returns: leading CQEs that are ours and plain: opcode 1, 2 or 3, neither inline nor compressed;
 * up to the end of the ring, where the owner bit flips. */
SPW_INLINE uint32_t mlx5_rc_rx_plain_cnt(const struct mlx5_rc_queue *q, uint32_t cnt)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);
	uint32_t end = SPW_MIN(cnt, q->cq_mask + 1 - (q->cq_ci & q->cq_mask));
	uint32_t lap = q->cq_ci >> q->cq_log2 & 1u, n = 0;

	for (; n < end; n++, cqe += MLX5_CQE_BYTES) {
		uint32_t op = (spw_dma_load(&cqe[MLX5_CQE_OP_OWN]) & ~MLX5_OP_SE) ^ lap;

		if (op & 0xcfu || op == 0)
			break;
	}
	return n;
}

/* The CQ is empty, or the next CQE is not plain. Reaps sends and serves peers that wait. */
SPW_INLINE uint16_t mlx5_rc_rx_idle(struct mlx5_rc_queue *q, const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);
	bool odd = mlx5_cqe_owned(cqe, q->cq_ci >> q->cq_log2, 0);

	if (spw_unlikely(odd))
		mlx5_rc_rx_odd(q);
	if (q->rc.in_tx_cnt)
		mlx5_rc_reap(&q->rc);
	if (spw_unlikely(odd || q->rc.todo_cnt))
		mlx5_rc_settle_body(q, flags);
	return 0;
}

/* Plain CQEs. Returns: how many were consumed. */
SPW_INLINE uint32_t mlx5_rc_rx_plain(struct mlx5_rc_queue *q, struct burst *r, uint32_t cnt,
				     const unsigned flags)
{
	uint32_t n = mlx5_rc_rx_plain_cnt(q, cnt);
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);

	if (!n)
		return 0;
	spw_dma_from_device(); /* [M1] */
	for (uint32_t i = 0; i < n; i++, cqe += MLX5_CQE_BYTES)
		mlx5_rc_rx_one(q, r, mlx5_rc_cqe_peer(q, cqe), cqe,
			       spw_prm_cqe64_get_wqe_counter(cqe), spw_prm_cqe64_get_byte_cnt(cqe),
			       flags);
	q->cq_ci += n;
	return n;
}

SPW_INLINE void mlx5_rc_minis_load(struct mlx5_rc_queue *q, uint32_t ci)
{
	memcpy(q->session.mini, mlx5_cqe_at(q->cqe, q->cq_mask, ci), sizeof(q->session.mini));
}

SPW_INLINE bool mlx5_rc_session_open(struct mlx5_rc_queue *q)
{
	uint32_t cnt = mlx5_rc_session_cnt(q, q->cq_ci);

	if (!cnt)
		return false;
	memcpy(q->session.title, mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci),
	       sizeof(q->session.title));
	mlx5_rc_minis_load(q, q->cq_ci + 1);
	q->session.left = cnt;
	q->session.idx = 0;
	q->session.wqe = spw_prm_cqe64_get_wqe_counter(q->session.title);
	return true;
}

/* Completions of the present session. A mini-CQE has the length; WQE counters continue from the
 * title's, and all other fields are the title's (UCX, src/uct/ib/mlx5/ib_mlx5.c, does the same for
 * RC). Each completion uses up one slot of the ring, which is marked invalid: what the NIC left or
 * wrote there could look like ours a lap later. Arrays lie as in eth/rx.c. */
SPW_INLINE uint32_t mlx5_rc_rx_minis(struct mlx5_rc_queue *q, struct burst *r, uint32_t cnt,
				     const unsigned flags)
{
	struct mlx5_rc_session *s = &q->session;
	struct mlx5_rc_peer *p = mlx5_rc_cqe_peer(q, s->title);
	uint32_t n = SPW_MIN(cnt, s->left), ci = q->cq_ci, idx = s->idx, wqe = s->wqe;

	for (uint32_t i = 0; i < n; i++, ci++) {
		if (idx == SPW_PRM_MINI_PER_CQE) {
			mlx5_rc_minis_load(q, ci);
			idx = 0;
		}
		mlx5_rc_rx_one(q, r, p, s->title, wqe++ & 0xffffu,
			       spw_prm_mini_hash_get_byte_cnt(&s->mini[idx++ * 8]), flags);
		spw_dma_store(&mlx5_cqe_at(q->cqe, q->cq_mask, ci)[MLX5_CQE_OP_OWN],
			      (uint8_t)MLX5_OP_INVALID);
	}
	s->idx = idx;
	s->wqe = wqe;
	s->left -= n;
	q->cq_ci = ci;
	return n;
}

SPW_INLINE uint16_t mlx5_rc_rx_body(struct mlx5_rc_queue *q, struct spw_desc *desc, uint16_t cnt,
				    const unsigned flags)
{
	uint32_t ci = q->cq_ci, left = cnt, lent;
	struct burst r = {.desc = desc};

	if (!(flags & MLX5_RC_COMPRESSED))
		mlx5_rc_rx_plain(q, &r, left, flags);
	while (flags & MLX5_RC_COMPRESSED && left) {
		uint32_t used = q->session.left ? mlx5_rc_rx_minis(q, &r, left, flags)
						: mlx5_rc_rx_plain(q, &r, left, flags);

		if (!used && !mlx5_rc_session_open(q))
			break;
		left -= used;
	}
	if (q->cq_ci == ci)
		return mlx5_rc_rx_idle(q, flags);
	mlx5_rc_settle_body(q, flags);
	lent = (uint32_t)(r.desc - desc);
	q->rc.lent_cnt += lent;
	spw_thr_count(&q->rc.stat.rx_frames, lent);
	spw_thr_count(&q->rc.stat.rx_bytes, r.bytes);
	return (uint16_t)lent;
}

/* ---- the variants ---- */

#define RX_VARIANTS(X)                                           \
	X(send, 0)                                               \
	X(send_stamp, MLX5_RC_STAMP)                             \
	X(send_srq, PORT_RC_SRQ)                                 \
	X(send_srq_stamp, PORT_RC_SRQ | MLX5_RC_STAMP)           \
	X(send_compressed, MLX5_RC_COMPRESSED)                   \
	X(send_srq_compressed, PORT_RC_SRQ | MLX5_RC_COMPRESSED) \
	X(write, PORT_RC_WRITE)                                  \
	X(write_stamp, PORT_RC_WRITE | MLX5_RC_STAMP)            \
	X(write_srq, PORT_RC_WRITE | PORT_RC_SRQ)                \
	X(write_srq_stamp, PORT_RC_WRITE | PORT_RC_SRQ | MLX5_RC_STAMP)

#define RX_DEFINE(name, f)                                                                     \
	static uint16_t mlx5_rc_rx_burst_##name(void *vq, struct spw_desc *desc, uint16_t cnt) \
	{                                                                                      \
		return mlx5_rc_rx_body(vq, desc, cnt, f);                                      \
	}
RX_VARIANTS(RX_DEFINE)

mlx5_rx_fn *mlx5_rc_rx_variant(unsigned flags)
{
#define RX_PICK(name, f)  \
	if (flags == (f)) \
		return mlx5_rc_rx_burst_##name;
	RX_VARIANTS(RX_PICK)
	return NULL;
}
