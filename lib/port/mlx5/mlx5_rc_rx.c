/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC receive: messages of all peers of a queue, from one CQ. One inline body with constant flags. Per burst: one look at
 * op_own bytes and one acquire for all that it found; then each peer that had a message is settled once: its ring is
 * refilled, its doorbell record stored, and it is told what it may send, when enough has come together.
 *
 * ZIP: of completions of one QP that differ in length only, there is one title CQE and then minis.
 *
 * A CQE is believed only as far as memory and slots are safe: receives of a QP are used up in our own count, a shared one
 * must have been posted, a slot that an immediate names must have been granted to that peer. What does not fit costs the
 * peer its QP, and no one else anything.
 */
#include <string.h>

#include "port/mlx5/mlx5_rc_inline.h"

/* What a burst keeps in registers. */
struct rc_run {
	struct spw_desc *desc; /* next to fill */
	uint64_t bytes;
};

/* ---- settling ---------------------------------------------------------------------------------------- */

SPW_INLINE uint8_t *rc_rq_wqe(const struct spw_mlx5_rc_peer *p, uint32_t pos)
{
	return p->wqe + ((size_t)(pos & p->rq_mask) << p->rq_shift);
}

/* lkey and byte count of a WQE never change; its address does. The slots fit: the ring has a WQE for each. */
SPW_INLINE void rq_refill(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, const unsigned flags)
{
	if (flags & MLX5_RC_WRITE) { /* nothing to fill in */
		p->rq_pi = p->rq_ci + p->rq_mask + 1;
		return;
	}
	while (p->own.cnt) {
		uint32_t slot = p->own.slot[--p->own.cnt];

		p->slot_of[p->rq_pi & p->rq_mask] = slot;
		spw_prm_wqe_data_set_addr(rc_rq_wqe(p, p->rq_pi++), (uintptr_t)spw_pool_slot_addr(q->pool, slot));
	}
}

SPW_INLINE void srq_refill(struct spw_mlx5_rc_queue *q, const unsigned flags)
{
	while (q->srq_free > 1 && (flags & MLX5_RC_WRITE || q->stack.cnt)) {
		uint32_t idx = q->srq_head, slot = flags & MLX5_RC_WRITE ? 0 : q->stack.slot[--q->stack.cnt];

		q->srq_slot[idx] = slot;
		if (!(flags & MLX5_RC_WRITE))
			spw_prm_wqe_data_set_addr(rc_srq_wqe(q, idx) + 16, (uintptr_t)spw_pool_slot_addr(q->pool, slot));
		q->srq_head = q->srq_next[idx];
		q->srq_free--;
		q->srq_pi++;
	}
}

/* Refills first, then one barrier, then the records. The consumer index goes first: a NIC that sees the new WQEs must not
 * find the CQ full. */
SPW_INLINE void rc_rearm(struct spw_mlx5_rc_queue *q, const unsigned flags)
{
	if (flags & MLX5_RC_SRQ)
		srq_refill(q, flags);
	for (uint32_t i = 0; !(flags & MLX5_RC_SRQ) && i < q->todo_cnt; i++)
		if (spw_likely(rc_is_live(q->todo[i])))
			rq_refill(q, q->todo[i], flags);
	spw_dma_to_device(); /* [M2] */
	spw_dma_store(q->cq_db, spw_cpu_to_be32(q->cq_ci & 0xffffffu));
	if (flags & MLX5_RC_SRQ)
		spw_dma_store(q->srq_db, spw_cpu_to_be32(q->srq_pi & 0xffffu));
	for (uint32_t i = 0; !(flags & MLX5_RC_SRQ) && i < q->todo_cnt; i++)
		if (spw_likely(rc_is_live(q->todo[i])))
			spw_dma_store(q->todo[i]->rq_db, spw_cpu_to_be32(q->todo[i]->rq_pi & 0xffffu));
}

/* A peer stays on the list only when it is owed credits and its send ring is full. */
SPW_INLINE void rc_settle(struct spw_mlx5_rc_queue *q, const unsigned flags)
{
	uint32_t kept = 0;

	rc_rearm(q, flags);
	for (uint32_t i = 0; i < q->todo_cnt; i++) {
		struct spw_mlx5_rc_peer *p = q->todo[i];
		bool due = p->state == MLX5_RC_UP && rc_rx_credit_due(&p->rx);

		if (spw_unlikely(p->wait_ci != p->wait_pi))
			spw_mlx5_rc_send_waiting(q, p);
		if (due && rc_grant_room(p)) {
			spw_mlx5_rc_grant(q, p);
			due = false;
		}
		p->todo = due;
		q->todo[kept] = p;
		kept += due;
	}
	q->todo_cnt = kept;
}

void spw_mlx5_rc_settle(struct spw_mlx5_rc_queue *q)
{
	rc_settle(q, q->flags);
}

/* ---- one CQE --------------------------------------------------------------------------------------------- */

/* SEND: a receive that brought no message: its slot is posted again, and was no credit. */
static void rx_unused(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, uint32_t slot)
{
	if (!(q->flags & MLX5_RC_WRITE))
		p->stack->slot[p->stack->cnt++] = slot;
}

/* The peer broke the rules; what it sent is gone. */
static SPW_COLD void rx_protocol(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p)
{
	rc_count_err(q, SPW_PORT_ERR_protocol, 1);
	spw_mlx5_rc_break(q, p, MLX5_RC_SYN_PROTOCOL);
}

/* A CQE of no QP of ours, or for a receive that was not posted. A shared receive that it used up comes back. */
static SPW_COLD void rx_nonsense(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, uint32_t idx)
{
	rc_count_err(q, SPW_PORT_ERR_cqe_error, 1);
	spw_thr_count(&q->syndrome[0], 1);
	if (q->flags & MLX5_RC_SRQ && rc_srq_is_posted(q, idx))
		rx_unused(q, &q->peer[q->peer_cnt], rc_srq_take(q, idx));
	spw_mlx5_rc_break(q, p, MLX5_RC_SYN_NONSENSE);
}

/* The peer grants: the immediate counts all that it ever granted. */
static void rx_control(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, uint32_t count)
{
	spw_thr_count(&q->control_rx, 1);
	if (spw_unlikely(p->state != MLX5_RC_BROKEN && !rc_tx_credit_take(&p->tx, count)))
		rx_protocol(q, p);
}

/* SEND: not a message that fits its slot and its credits. The slot can be posted again. */
static SPW_COLD void rx_send_odd(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, const uint8_t *cqe, uint32_t slot,
				 uint32_t len)
{
	uint32_t op = (uint32_t)spw_prm_cqe64_get_opcode(cqe);

	rx_unused(q, p, slot);
	if (op == SPW_PRM_CQE_RESP_SEND_IMM && len == 0) {
		rx_control(q, p, (uint32_t)spw_prm_cqe64_get_imm_inval_pkey(cqe));
		return;
	}
	if (op == SPW_PRM_CQE_RESP_WR_IMM || len == 0 || !rc_rx_credit_got(&p->rx)) {
		rx_protocol(q, p);
		return;
	}
	rc_count_drop(q, SPW_PORT_DROP_too_long, 1);
	p->rx.home++;
}

SPW_INLINE void rx_emit(struct spw_mlx5_rc_queue *q, struct rc_run *r, struct spw_mlx5_rc_peer *p, const uint8_t *cqe,
			uint32_t slot, uint32_t len, bool imm, const unsigned flags)
{
	uint64_t stamp = flags & MLX5_RC_STAMP ? spw_prm_cqe64_get_timestamp(cqe) : 0;
	uint64_t bits = SPW_DESC_MSG | (imm ? SPW_DESC_IMM : 0) | (flags & MLX5_RC_STAMP ? SPW_DESC_NIC_STAMP : 0);

	p->away++;
	mlx5_desc_put(r->desc++, stamp, slot, len, imm ? (uint32_t)spw_prm_cqe64_get_imm_inval_pkey(cqe) : 0,
		      p->index | bits << 32, q->desc_tail);
	r->bytes += len;
}

SPW_INLINE void rx_send(struct spw_mlx5_rc_queue *q, struct rc_run *r, struct spw_mlx5_rc_peer *p, const uint8_t *cqe,
			uint32_t slot, uint32_t len, const unsigned flags)
{
	uint32_t op = cqe[MLX5_CQE_OP_OWN] >> 4;

	if (spw_unlikely(op == SPW_PRM_CQE_RESP_WR_IMM || len - 1 >= q->room_bytes || p->rx.got == p->rx.told)) {
		rx_send_odd(q, p, cqe, slot, len);
		return;
	}
	p->rx.got++;
	if (flags & MLX5_RC_SRQ)
		q->owner[slot] = (uint16_t)(p - q->peer);
	rx_emit(q, r, p, cqe, slot, len, op == SPW_PRM_CQE_RESP_SEND_IMM, flags);
}

SPW_INLINE void rx_write(struct spw_mlx5_rc_queue *q, struct rc_run *r, struct spw_mlx5_rc_peer *p, const uint8_t *cqe,
			 uint32_t len, const unsigned flags)
{
	uint32_t op = cqe[MLX5_CQE_OP_OWN] >> 4;
	uint32_t imm = (uint32_t)spw_prm_cqe64_get_imm_inval_pkey(cqe), slot = p->slot_first + imm;

	if (op == SPW_PRM_CQE_RESP_SEND_IMM && len == 0) {
		rx_control(q, p, imm);
		return;
	}
	if (spw_unlikely(op != SPW_PRM_CQE_RESP_WR_IMM || len - 1 >= q->room_bytes || imm >= p->slot_cnt ||
			 q->slot_state[slot] != MLX5_RC_GRANTED || !rc_rx_credit_got(&p->rx))) {
		rx_protocol(q, p);
		return;
	}
	q->slot_state[slot] = MLX5_RC_LENT;
	rx_emit(q, r, p, cqe, slot, len, false, flags);
}

/* Whose CQE it is; the nobody if no QP of ours. */
SPW_INLINE struct spw_mlx5_rc_peer *rx_peer(const struct spw_mlx5_rc_queue *q, const uint8_t *cqe)
{
	struct spw_mlx5_rc_peer *p = rc_by_qpn(q, rc_cqe_qpn(cqe));

	return spw_likely(p->qpn == rc_cqe_qpn(cqe)) ? p : &q->peer[q->peer_cnt];
}

/* A completion of receive WQE idx (which counts with an SRQ only): what cqe says, len bytes. */
SPW_INLINE void rx_one(struct spw_mlx5_rc_queue *q, struct rc_run *r, struct spw_mlx5_rc_peer *p, const uint8_t *cqe, uint32_t idx,
		       uint32_t len, const unsigned flags)
{
	bool posted = flags & MLX5_RC_SRQ ? rc_srq_is_posted(q, idx) && p->qpn != UINT32_MAX : p->rq_ci != p->rq_pi;
	uint32_t slot;

	if (spw_unlikely(!posted)) {
		rx_nonsense(q, p, idx);
		return;
	}
	if (flags & MLX5_RC_SRQ)
		slot = rc_srq_take(q, idx);
	else
		slot = flags & MLX5_RC_WRITE ? 0 : p->slot_of[p->rq_ci & p->rq_mask];
	p->rq_ci += !(flags & MLX5_RC_SRQ);
	rc_todo(q, p);
	if (flags & MLX5_RC_WRITE)
		rx_write(q, r, p, cqe, len, flags);
	else
		rx_send(q, r, p, cqe, slot, len, flags);
}

/* ---- the burst --------------------------------------------------------------------------------------------- */

/* How many CQEs are ours and say "a message arrived": opcode 1, 2 or 3, nothing inline or compressed; up to the end of the
 * ring, where the owner bit changes. */
SPW_INLINE uint32_t rx_plain_cnt(const struct spw_mlx5_rc_queue *q, uint32_t cnt)
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

/* Nothing there, or nothing plain. Whoever waits for slots may be served now, and what was sent may be home. */
SPW_INLINE uint16_t rx_idle(struct spw_mlx5_rc_queue *q, const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);
	bool odd = mlx5_cqe_owned(cqe, q->cq_ci >> q->cq_log2, 0);

	if (spw_unlikely(odd))
		spw_mlx5_rc_rx_odd(q);
	if (q->in_tx_cnt)
		spw_mlx5_rc_reap(q);
	if (spw_unlikely(odd || q->todo_cnt))
		rc_settle(q, flags);
	return 0;
}

/* Whole CQEs. Returns: how many were used up. */
SPW_INLINE uint32_t rx_plain(struct spw_mlx5_rc_queue *q, struct rc_run *r, uint32_t cnt, const unsigned flags)
{
	uint32_t n = rx_plain_cnt(q, cnt);
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);

	if (!n)
		return 0;
	spw_dma_from_device(); /* [M1] */
	for (uint32_t i = 0; i < n; i++, cqe += MLX5_CQE_BYTES)
		rx_one(q, r, rx_peer(q, cqe), cqe, (uint32_t)spw_prm_cqe64_get_wqe_counter(cqe),
		       (uint32_t)spw_prm_cqe64_get_byte_cnt(cqe), flags);
	q->cq_ci += n;
	return n;
}

SPW_INLINE void zip_load(struct spw_mlx5_rc_queue *q, uint32_t ci)
{
	memcpy(q->zip.mini, mlx5_cqe_at(q->cqe, q->cq_mask, ci), sizeof(q->zip.mini));
}

SPW_INLINE bool zip_open(struct spw_mlx5_rc_queue *q)
{
	uint32_t cnt = rc_zip_cnt(q, q->cq_ci);

	if (!cnt)
		return false;
	memcpy(q->zip.title, mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci), sizeof(q->zip.title));
	zip_load(q, q->cq_ci + 1);
	q->zip.left = cnt;
	q->zip.idx = 0;
	q->zip.wqe = (uint32_t)spw_prm_cqe64_get_wqe_counter(q->zip.title);
	return true;
}

/* Completions of the session at hand. A mini has a length; WQEs count on from the title's, all else is the title's (UCX,
 * src/uct/ib/mlx5/ib_mlx5.c, reads RC in the same way). Each uses up one slot of the ring, which is marked: what the NIC left
 * or wrote there could look like ours a lap later. Arrays lie as in mlx5_rx.c: the next is where ci has come to. */
SPW_INLINE uint32_t rx_minis(struct spw_mlx5_rc_queue *q, struct rc_run *r, uint32_t cnt, const unsigned flags)
{
	struct spw_mlx5_rc_zip *zip = &q->zip;
	struct spw_mlx5_rc_peer *p = rx_peer(q, zip->title);
	uint32_t n = SPW_MIN(cnt, zip->left), ci = q->cq_ci, idx = zip->idx, wqe = zip->wqe;

	for (uint32_t i = 0; i < n; i++, ci++) {
		if (idx == SPW_PRM_MINI_PER_CQE) {
			zip_load(q, ci);
			idx = 0;
		}
		rx_one(q, r, p, zip->title, wqe++ & 0xffffu, (uint32_t)spw_prm_mini_hash_get_byte_cnt(&zip->mini[idx++ * 8]), flags);
		spw_dma_store(&mlx5_cqe_at(q->cqe, q->cq_mask, ci)[MLX5_CQE_OP_OWN], (uint8_t)MLX5_OP_INVALID);
	}
	zip->idx = idx;
	zip->wqe = wqe;
	zip->left -= n;
	q->cq_ci = ci;
	return n;
}

SPW_INLINE uint16_t rx_body(struct spw_mlx5_rc_queue *q, struct spw_desc *desc, uint16_t cnt, const unsigned flags)
{
	uint32_t ci = q->cq_ci, left = cnt, lent;
	struct rc_run r = { .desc = desc };

	if (!(flags & MLX5_RC_ZIP))
		rx_plain(q, &r, left, flags);
	while (flags & MLX5_RC_ZIP && left) {
		uint32_t used = q->zip.left ? rx_minis(q, &r, left, flags) : rx_plain(q, &r, left, flags);

		if (!used && !zip_open(q))
			break;
		left -= used;
	}
	if (q->cq_ci == ci)
		return rx_idle(q, flags);
	rc_settle(q, flags);
	lent = (uint32_t)(r.desc - desc);
	q->lent_cnt += lent;
	spw_thr_count(&q->stat.rx_frames, lent);
	spw_thr_count(&q->stat.rx_bytes, r.bytes);
	return (uint16_t)lent;
}

/* ---- the variants ------------------------------------------------------------------------------------------ */

#define RC_RX_VARIANTS(X) \
	X(send, 0) \
	X(send_stamp, MLX5_RC_STAMP) \
	X(send_srq, MLX5_RC_SRQ) \
	X(send_srq_stamp, MLX5_RC_SRQ | MLX5_RC_STAMP) \
	X(send_zip, MLX5_RC_ZIP) \
	X(send_srq_zip, MLX5_RC_SRQ | MLX5_RC_ZIP) \
	X(write, MLX5_RC_WRITE) \
	X(write_stamp, MLX5_RC_WRITE | MLX5_RC_STAMP) \
	X(write_srq, MLX5_RC_WRITE | MLX5_RC_SRQ) \
	X(write_srq_stamp, MLX5_RC_WRITE | MLX5_RC_SRQ | MLX5_RC_STAMP)

#define RC_RX_DEFINE(name, f) \
	static uint16_t mlx5_rc_rx_##name(void *vq, struct spw_desc *desc, uint16_t cnt) { return rx_body(vq, desc, cnt, f); }
RC_RX_VARIANTS(RC_RX_DEFINE)

spw_mlx5_rx_fn *spw_mlx5_rc_rx_variant(unsigned flags)
{
#define RC_RX_PICK(name, f) \
	if (flags == (f)) \
		return mlx5_rc_rx_##name;
	RC_RX_VARIANTS(RC_RX_PICK)
	return NULL;
}
