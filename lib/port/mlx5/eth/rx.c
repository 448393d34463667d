/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The receive burst of a raw Ethernet queue on an mlx5 NIC.
 *
 * The pipe calls it through struct spw_port_queue; it calls the pool for slots and, off the fast
 * path, eth/err.c. One inline body (mlx5_eth_rx_body) with constant flags is instantiated per
 * variant at the end of the file, so no variant tests its configuration. Per burst: one scan of
 * op_own bytes, one acquire for all that the scan found, one refill, one store to each doorbell
 * record.
 *
 * Receiving a frame takes two rings in host memory and two doorbell records:
 *
 *     software                             memory                               NIC
 *     write address of a slot ──► [receive ring: WQEs] ────────────► reads a WQE per frame
 *     M2, then rq_db = rq_pi  ──► [RQ doorbell record] ────────────► reads it first: how many exist
 *                                 [slot] ◄────────────────────────── writes the frame, then
 *     read op_own, M1, decode ◄── [completion ring: CQEs] ◄───────── writes a CQE, op_own last
 *     M2, then cq_db = cq_ci  ──► [CQ doorbell record] ────────────► up to here CQEs may be reused
 *
 * No register is written to receive: the NIC fetches both doorbell records by itself. (Sending also
 * stores to a register, the doorbell proper: mlx5_doorbell in prm/spw_prm_ring.h.) RQ and CQ are
 * joined by order alone: receive WQEs complete in the order they were posted, so rq_ci counts them
 * and a CQE's own WQE counter is not used. [PRM: Doorbell Record; Work Queue Structure]
 *
 * Who owns a CQE: laps and owner bits. cq_ci runs freely; cq_ci >> cq_log2 is its lap. In the basic
 * layout the NIC writes bit 0 of its lap as the owner bit:
 *
 *     entry        0   1   2   3   4   5   6   7      a ring of 8, cq_ci = 11: lap 1, entry 3
 *     owner bit    1   1   1   1   1   0   0   0      written on lap 1 | left over from lap 0
 *                              ^cq_ci      ^ not ours: the owner bit is not the lap's
 *
 * Entries 3 and 4 are ours. The bit flips each lap, so consumed CQEs need no clearing. The enhanced
 * layout writes the whole lap count, mod 256, into the validity byte instead. An INVALID opcode is
 * nobody's: the state of a fresh ring. [PRM: Completion Queue Entry, owner bit]
 *
 * A compression session (basic layout). For frames alike the NIC writes one title CQE, with all
 * fields and byte_cnt = number of frames, then arrays of 8-byte mini-CQEs (byte count and RSS
 * hash), eight to an entry. The session takes as many entries as frames:
 *
 *     entry    n        n+1               n+2 .. n+7   n+8               ...  n+cnt
 *              title    mini 0 .. 7       unwritten    mini 8 .. 15           the next CQE
 *     frame    0        1                 2 .. 7       8
 *
 * The first array is in the entry after the title, later ones 8 entries apart from n: when an array
 * is used up, cq_ci has come to the next one. Unwritten entries keep old bytes, and arrays have
 * bytes of mini-CQEs where op_own is, so both are marked INVALID before they are returned. In the
 * enhanced layout a block stands for itself: one entry holds up to 7 mini-CQEs, opcode + 1 is their
 * number, validity shows the owner, and the last plain CQE is the title. [PRM: CQE Compression; K:
 * en_rx.c, mlx5e_decompress_cqes_start]
 *
 * Split: a WQE has two data segments, and the NIC fills the first before it goes on to the second
 * (pool/spw_pool.h). The CQE's byte count is that of the frame. [PRM: Receive WQE, scatter]
 *
 * Striding: one WQE is a group of neighbouring slots; byte_cnt carries length (bits 15..0), strides
 * used (30..16) and filler (31). [PRM: Striding RQ; K: mlx5e_handle_rx_cqe_mpwrq]
 *
 * Before changing anything: a CQE is trusted only as far as memory and slots stay safe. The WQE
 * comes from our own count, never more than were posted, and a length that the slot cannot hold
 * costs the frame. Whatever is read of a CQE must be stored before M2 (mlx5/mem.h says why).
 */
#include <string.h>

#include "port/mlx5/eth/raw.h"

_Static_assert(SPW_DESC_L3_OK == 1 && SPW_DESC_L4_OK == 2,
	       "rx_csum shifts the CQE's bits into place");

/* What a burst keeps in registers. */
struct rx_run {
	struct spw_desc *desc; /* next to fill */
	uint32_t rq_ci, stride_pos;
	uint32_t want;
	spw_be32 tag;                    /* of the last frame */
	const struct spw_desc *tag_desc; /* the first frame with it that is not counted yet */
	uint64_t bytes;
};

/* ---- flow tags ----
 *
 * CQE.sop_drop_qpn: rx_drop_counter in the upper byte, the flow tag below. Frames mostly follow one
 * of the same rule and the NIC mostly dropped none between them, so that one comparison with the
 * last tag finds nothing to count. Frames are counted per run of one tag, and once a burst; where,
 * rx_cell says until the tag changes. */

SPW_INLINE spw_be32 mlx5_eth_rx_word(const uint8_t *cqe)
{
	spw_be32 word;

	memcpy(&word, cqe + MLX5_CQE_DROPS, sizeof(word));
	return word;
}

/* The place was another tag's: an older one's, since that one's rule is gone.
 * Order: who reads the new tag does not read the old one's frames. */
static void mlx5_eth_rx_tag_begin(struct mlx5_eth_tag *cell, uint32_t tag)
{
	spw_thr_store_rlx(&cell->frames, 0);
	spw_thr_store_rel(&cell->tag, tag);
}

/* Counts what the NIC dropped, and the run of frames that ends. Returns: the tag of the next. */
static SPW_COLD spw_be32 mlx5_eth_rx_tag_next(struct mlx5_eth_queue *q, spw_be32 word,
					      uint64_t frames)
{
	const uint32_t value = spw_be32_to_cpu(word), tag = value & 0xffffffu;

	spw_thr_count(&q->rx_nic_drops, value >> 24);
	spw_thr_count(&q->rx_cell->frames, frames);
	q->rx_cell = &q->tag[tag & (MLX5_ETH_TAGS - 1)];
	if (q->rx_cell->tag != tag)
		mlx5_eth_rx_tag_begin(q->rx_cell, tag);
	return q->rx_tag = spw_cpu_to_be32(tag);
}

/* The word of the next frame's CQE, or the tag of its session. */
SPW_INLINE void mlx5_eth_rx_tag(struct mlx5_eth_queue *q, struct rx_run *r, spw_be32 word)
{
	if (spw_likely(word == r->tag))
		return;
	r->tag = mlx5_eth_rx_tag_next(q, word, (uint64_t)(r->desc - r->tag_desc));
	r->tag_desc = r->desc;
}

/* CQE.hds_ip_ext (byte 28): l4_ok, l3_ok, l2_ok in bits 2..0. */
SPW_INLINE uint64_t mlx5_eth_rx_csum(const uint8_t *cqe)
{
	return spw_prm_cqe64_get_l4_l3_ok(cqe);
}

/* Counts a frame that does not fit its slot and returns the slot at once. */
static SPW_COLD void mlx5_eth_rx_refuse(struct mlx5_eth_queue *q, uint32_t slot,
					const unsigned flags)
{
	mlx5_eth_count_drop(q, SPW_PORT_DROP_too_long, 1);
	mlx5_eth_put(q, &slot, 1, flags);
}

/* Striding: a CQE that is not "one frame in one stride": a filler, a frame of several strides, or a
 * frame where no buffer was posted. Returns: false if it is malformed; the queue must be reset. */
static SPW_COLD bool mlx5_eth_rx_strides_odd(struct mlx5_eth_queue *q, struct rx_run *r,
					     uint32_t byte_cnt)
{
	uint32_t strides = spw_prm_mprq_strides(byte_cnt);
	uint32_t group = q->slot_of[r->rq_ci & q->rq_mask] >> q->group_log2;

	if (r->rq_ci == q->rq_pi || strides == 0 || r->stride_pos + strides > 1u << q->group_log2) {
		mlx5_eth_rx_fault(q, 0);
		return false;
	}
	if (!spw_prm_mprq_is_filler(byte_cnt))
		mlx5_eth_count_drop(q, SPW_PORT_DROP_too_long, 1);
	mlx5_eth_strides_done(q, &r->rq_ci, &r->stride_pos, strides);
	mlx5_eth_group_unref(q, group, strides);
	return true;
}

/* The next slot that the NIC filled: WQEs and strides complete in the order they were posted. */
SPW_INLINE uint32_t mlx5_eth_rx_slot(const struct mlx5_eth_queue *q, struct rx_run *r,
				     const unsigned flags)
{
	uint32_t slot = q->slot_of[r->rq_ci & q->rq_mask];

	if (!(flags & MLX5_F_STRIDING)) {
		r->rq_ci++;
		return slot;
	}
	slot += r->stride_pos;
	mlx5_eth_strides_done(q, &r->rq_ci, &r->stride_pos, 1);
	return slot;
}

/* Turns one frame into one descriptor: CQE.byte_cnt, rx_hash_result, checksum bits, timestamp.
 * Returns: false if the CQE is malformed; the queue must be reset. */
SPW_INLINE bool mlx5_eth_rx_emit(struct mlx5_eth_queue *q, struct rx_run *r, uint32_t byte_cnt,
				 uint32_t hash, uint64_t csum, uint64_t stamp, const unsigned flags)
{
	uint32_t len = flags & MLX5_F_STRIDING ? spw_prm_mprq_len(byte_cnt) : byte_cnt;

	if (flags & MLX5_F_STRIDING && spw_unlikely(byte_cnt >> 16 != 1 || r->rq_ci == q->rq_pi))
		return mlx5_eth_rx_strides_odd(q, r, byte_cnt);
	uint32_t slot = mlx5_eth_rx_slot(q, r, flags);

	if (spw_unlikely(!spw_in_1_to(len, q->room_bytes))) {
		mlx5_eth_rx_refuse(q, slot, flags);
		return true;
	}
	mlx5_desc_put(r->desc++, stamp, slot, len, hash,
		      (csum | (flags & MLX5_F_STAMP ? SPW_DESC_NIC_STAMP : 0)) << 32, q->desc_tail);
	r->bytes += len;
	return true;
}

/* Returns: how many CQEs from ci on are ours and plain: at most cnt, and never past the end of the
 * ring, where the lap changes. Order: none by itself; M1 follows. */
SPW_INLINE uint32_t mlx5_eth_rx_plain_cnt(const struct mlx5_eth_queue *q, uint32_t ci, uint32_t cnt,
					  const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, ci);
	uint32_t want = mlx5_own_want(ci >> q->cq_log2, SPW_PRM_CQE_RESP_SEND, flags);
	uint32_t end = SPW_MIN(cnt, q->cq_mask + 1 - (ci & q->cq_mask));
	uint32_t n = 0;

	while (n < end && mlx5_cqe_plain(cqe + (size_t)n * MLX5_CQE_BYTES, want, flags))
		n++;
	return n;
}

/* Keeps an entry of a session. */
SPW_INLINE void mlx5_eth_rx_keep(struct mlx5_eth_queue *q, const struct rx_run *r, uint32_t ci,
				 const unsigned flags)
{
	if (!(flags & MLX5_F_RAW))
		return;
	mlx5_eth_raw_begin(q, r->want);
	mlx5_eth_raw_put(q, ci);
}

SPW_INLINE void mlx5_eth_rx_keep_plain(struct mlx5_eth_queue *q, const struct rx_run *r,
				       uint32_t cnt, const unsigned flags)
{
	if (!(flags & MLX5_F_RAW))
		return;
	mlx5_eth_raw_begin(q, r->want);
	mlx5_eth_raw_put_plain(q, q->cq_ci, cnt);
}

/* Consumes plain CQEs (one per frame). Each is RESP_SEND in format 0; op_own was compared whole by
 * the scan. Returns: how many were consumed. */
SPW_INLINE uint32_t mlx5_eth_rx_plain(struct mlx5_eth_queue *q, struct rx_run *r, uint32_t cnt,
				      const unsigned flags)
{
	uint32_t n = mlx5_eth_rx_plain_cnt(q, q->cq_ci, cnt, flags), i;
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);

	if (!n)
		return 0;
	spw_dma_from_device(); /* [M1] */
	mlx5_eth_rx_keep_plain(q, r, n, flags);
	for (i = 0; i < n; i++, cqe += MLX5_CQE_BYTES) {
		uint64_t stamp = flags & MLX5_F_STAMP ? spw_prm_cqe64_get_timestamp(cqe) : 0;

		mlx5_eth_rx_tag(q, r, mlx5_eth_rx_word(cqe));
		if (!mlx5_eth_rx_emit(q, r, spw_prm_cqe64_get_byte_cnt(cqe),
				      spw_prm_cqe64_get_rx_hash_result(cqe), mlx5_eth_rx_csum(cqe),
				      stamp, flags)) {
			/* It is not consumed: the next burst reads it again. */
			spw_thr_count(&q->rx_nic_drops, 0 - (uint64_t)cqe[MLX5_CQE_DROPS]);
			break;
		}
	}
	if (flags & MLX5_F_ENHANCED && i) {
		/* The last plain CQE is the title of the blocks that follow. */
		q->session.csum = mlx5_eth_rx_csum(cqe - MLX5_CQE_BYTES);
		q->session.tag = r->tag;
	}
	q->cq_ci += i;
	return i;
}

SPW_INLINE void mlx5_eth_session_load(struct mlx5_eth_queue *q, const struct rx_run *r, uint32_t ci,
				      const unsigned flags)
{
	mlx5_eth_rx_keep(q, r, ci, flags);
	memcpy(q->session.mini, mlx5_cqe_at(q->cqe, q->cq_mask, ci), sizeof(q->session.mini));
	q->session.idx = 0;
}

/* Opens the session whose title (basic) or block (enhanced) is at cq_ci. op_own: opcode in bits
 * 7..4, format in 3..2, solicited, owner. Returns: false if none begins here. */
SPW_INLINE bool mlx5_eth_session_open(struct mlx5_eth_queue *q, const struct rx_run *r,
				      const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);
	uint32_t cnt, max = flags & MLX5_F_ENHANCED ? MLX5_MINI_ENHANCED_CNT : q->cq_mask + 1;
	uint8_t op;

	if (!mlx5_cqe_owned(cqe, q->cq_ci >> q->cq_log2, flags))
		return false;
	/* Covers the arrays, which the NIC writes before op_own of the title, and op_own itself,
	 * which is beside the validity byte: read before it, it could be that of the last lap. */
	spw_dma_from_device(); /* [M1] */
	op = cqe[MLX5_CQE_OP_OWN];
	if ((op >> 2 & 3u) != SPW_PRM_CQE_FORMAT_COMPRESSED)
		return false;
	if (!(flags & MLX5_F_ENHANCED) && op >> 4 != SPW_PRM_CQE_RESP_SEND)
		return false;
	cnt = flags & MLX5_F_ENHANCED ? (op >> 4) + 1u : spw_prm_cqe64_get_byte_cnt(cqe);
	if (spw_unlikely(!spw_in_1_to(cnt, max))) {
		mlx5_eth_rx_fault(q, 0);
		return false;
	}
	if (!(flags & MLX5_F_ENHANCED)) {
		mlx5_eth_rx_keep(q, r, q->cq_ci, flags);
		q->session.csum = mlx5_eth_rx_csum(cqe);
		q->session.tag = spw_cpu_to_be32((uint32_t)spw_prm_cqe64_get_qpn(cqe));
		spw_thr_count(&q->rx_nic_drops, cqe[MLX5_CQE_DROPS]);
	}
	mlx5_eth_session_load(q, r, flags & MLX5_F_ENHANCED ? q->cq_ci : q->cq_ci + 1, flags);
	q->session.left = cnt;
	return true;
}

/* Basic layout: the NIC leaves the entries of a session unwritten or fills them with mini-CQEs.
 * Marks them INVALID, or a lap later their last bytes could pass for a CQE that is ours. */
SPW_INLINE void mlx5_eth_session_invalidate(struct mlx5_eth_queue *q, uint32_t from, uint32_t to)
{
	for (uint32_t ci = from; ci != to; ci++)
		spw_dma_store(&mlx5_cqe_at(q->cqe, q->cq_mask, ci)[MLX5_CQE_OP_OWN],
			      (uint8_t)MLX5_OP_INVALID);
}

/* Consumes mini-CQEs of the open session, one ring entry each. When the copied array is used up,
 * cq_ci + i is the entry of the next one (see the drawing). The NIC cannot have overwritten it: it
 * is at most one ring ahead of cq_ci, because init refuses a CQ smaller than its WQEs.
 * Returns: how many were consumed. */
SPW_INLINE uint32_t mlx5_eth_rx_minis(struct mlx5_eth_queue *q, struct rx_run *r, uint32_t cnt,
				      const unsigned flags)
{
	struct mlx5_eth_session *session = &q->session;
	uint32_t n = SPW_MIN(cnt, session->left), i;
	uint32_t idx = session->idx;

	mlx5_eth_rx_tag(q, r, session->tag);
	if (flags & MLX5_F_RAW)
		mlx5_eth_raw_begin(q, r->want);
	for (i = 0; i < n; i++) {
		if (idx == SPW_PRM_MINI_PER_CQE) {
			mlx5_eth_session_load(q, r, q->cq_ci + i, flags);
			idx = 0;
		}
		const uint8_t *mini = &session->mini[idx * 8];

		if (!mlx5_eth_rx_emit(q, r, spw_prm_mini_hash_get_byte_cnt(mini),
				      spw_prm_mini_hash_get_rx_hash_result(mini), session->csum, 0,
				      flags))
			break;
		idx++;
	}
	session->idx = idx;
	session->left -= i;
	q->cq_ci += i;
	if (!(flags & MLX5_F_ENHANCED))
		mlx5_eth_session_invalidate(q, q->cq_ci - i, q->cq_ci);
	return i;
}

/* ---- slots on their way back ---- */

void mlx5_eth_release_cyclic(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct mlx5_eth_queue *q = vq;

	spw_pool_put(q->pool, slot, cnt);
	q->lent_cnt -= cnt;
}

void mlx5_eth_release_striding(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct mlx5_eth_queue *q = vq;

	mlx5_eth_put(q, slot, cnt, MLX5_F_STRIDING);
	q->lent_cnt -= cnt;
}

/* ---- refill ---- */

SPW_INLINE uint8_t *mlx5_eth_rx_wqe_seg(const struct mlx5_eth_queue *q, uint32_t pos)
{
	return q->wqe + ((size_t)(pos & q->rq_mask) << q->rq_shift) + q->seg_off;
}

SPW_INLINE uint32_t mlx5_eth_rx_holes(const struct mlx5_eth_queue *q)
{
	return q->rq_mask + 1 - (q->rq_pi - q->rq_ci);
}

SPW_INLINE void mlx5_eth_split_put(const struct mlx5_eth_queue *q, uint8_t *seg, uint32_t slot)
{
	const struct spw_pool *pool = q->pool;

	spw_prm_wqe_data_set_addr(seg, (uintptr_t)spw_pool_head_addr(pool, slot));
	spw_prm_wqe_data_set_addr(seg + 16,
				  (uintptr_t)spw_pool_slot_addr(pool, slot) + pool->head_bytes);
}

/* Posts a WQE per hole. Of its data segments only the addresses change; byte_count and lkey were
 * written at set-up. The pool writes the slots straight into slot_of. */
SPW_INLINE void mlx5_eth_refill_cyclic(struct mlx5_eth_queue *q, const unsigned flags)
{
	const uintptr_t base = (uintptr_t)q->pool->base;
	const size_t slot_bytes = q->pool->slot_bytes, step = (size_t)1 << q->rq_shift;
	uint32_t holes = mlx5_eth_rx_holes(q);

	while (holes) {
		uint32_t idx = q->rq_pi & q->rq_mask;
		uint32_t *slot = &q->slot_of[idx];
		uint32_t n = spw_pool_get(q->pool, slot, SPW_MIN(holes, q->rq_mask + 1 - idx));
		uint8_t *seg = mlx5_eth_rx_wqe_seg(q, idx);

		if (!n)
			break;
		for (uint32_t i = 0; i < n; i++, seg += step) {
			if (flags & MLX5_F_SPLIT)
				mlx5_eth_split_put(q, seg, slot[i]);
			else
				spw_prm_wqe_data_set_addr(seg, base + slot[i] * slot_bytes);
		}
		q->rq_pi += n;
		holes -= n;
	}
}

/* Posts a free group per hole; all of its strides are referenced until they are returned. */
SPW_INLINE void mlx5_eth_refill_striding(struct mlx5_eth_queue *q)
{
	for (uint32_t holes = mlx5_eth_rx_holes(q); holes && q->group_free_cnt;
	     holes--, q->rq_pi++) {
		uint32_t group = q->group_free[--q->group_free_cnt];
		uint32_t slot = group << q->group_log2;

		q->group_ref[group] = 1u << q->group_log2;
		q->slot_of[q->rq_pi & q->rq_mask] = slot;
		spw_prm_wqe_data_set_addr(mlx5_eth_rx_wqe_seg(q, q->rq_pi),
					  (uintptr_t)spw_pool_slot_addr(q->pool, slot));
	}
}

SPW_INLINE void mlx5_eth_rx_refill(struct mlx5_eth_queue *q, const unsigned flags)
{
	if (flags & MLX5_F_STRIDING)
		mlx5_eth_refill_striding(q);
	else
		mlx5_eth_refill_cyclic(q, flags);
}

/* Publishes both indices: CQ record, 24 bits of cq_ci; RQ record, 16 bits of rq_pi. The consumer
 * index goes first: a NIC that uses a new WQE must not find the CQ full. M7 is a store barrier, no
 * instruction on x86; a CQ that ignores overrun would not need it. */
SPW_INLINE void mlx5_eth_rx_ring(struct mlx5_eth_queue *q)
{
	spw_dma_to_device(); /* [M2] */
	mlx5_cq_record_put(q->cq_db, q->cq_ci);
	spw_dma_to_device(); /* [M7] */
	mlx5_wq_record_put(q->rq_db, q->rq_pi);
}

void mlx5_eth_refill(struct mlx5_eth_queue *q)
{
	mlx5_eth_rx_refill(q, q->flags);
	mlx5_eth_rx_ring(q);
}

/* ---- the burst ---- */

/* No frame for the fast path: either nothing arrived, or the CQE at cq_ci is odd. Fills holes that
 * had to wait for slots. */
SPW_INLINE uint16_t mlx5_eth_rx_idle(struct mlx5_eth_queue *q, const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);
	uint32_t have = flags & MLX5_F_STRIDING ? q->group_free_cnt : q->pool->free_cnt;

	if (spw_unlikely(mlx5_cqe_owned(cqe, q->cq_ci >> q->cq_log2, flags) ||
			 (flags & MLX5_F_COMPRESSED && q->session.left)))
		mlx5_eth_rx_odd(q);
	if (spw_unlikely(mlx5_eth_rx_holes(q) >= q->refill_min && have)) {
		mlx5_eth_rx_refill(q, flags);
		mlx5_eth_rx_ring(q);
	}
	return 0;
}

/* Refills, rings, counts: once per burst that lent a frame or consumed a CQE. */
SPW_INLINE uint16_t mlx5_eth_rx_finish(struct mlx5_eth_queue *q, struct rx_run *r, uint32_t lent,
				       const unsigned flags)
{
	q->rq_ci = r->rq_ci;
	q->stride_pos = r->stride_pos;
	spw_thr_count(&q->rx_cell->frames, (uint64_t)(r->desc - r->tag_desc));
	if (mlx5_eth_rx_holes(q) >= q->refill_min) {
		mlx5_eth_rx_refill(q, flags);
		if (spw_unlikely(mlx5_eth_rx_holes(q) >= q->refill_min))
			mlx5_eth_count_err(q, SPW_PORT_ERR_no_slot, 1);
	}
	mlx5_eth_rx_ring(q); /* what CQEs said of drops is stored */
	q->lent_cnt += lent;
	spw_thr_count(&q->stat.rx_frames, lent);
	spw_thr_count(&q->stat.rx_bytes, r->bytes);
	return (uint16_t)lent;
}

SPW_INLINE uint16_t mlx5_eth_rx_body(struct mlx5_eth_queue *q, struct spw_desc *desc, uint16_t cnt,
				     const unsigned flags)
{
	struct rx_run r = {.desc = desc,
			   .tag_desc = desc,
			   .rq_ci = q->rq_ci,
			   .stride_pos = q->stride_pos,
			   .want = cnt,
			   .tag = q->rx_tag};
	uint32_t left = cnt, ci = q->cq_ci;

	if (flags & MLX5_F_RAW)
		q->raw->out.bytes = 0;
	if (!(flags & MLX5_F_STRIDING)) /* no more than was posted, whatever the ring holds; with
					   strides mlx5_eth_rx_emit checks it */
		left = SPW_MIN(left, q->rq_pi - q->rq_ci);
	if (!(flags & MLX5_F_COMPRESSED))
		mlx5_eth_rx_plain(q, &r, left, flags);
	while (flags & MLX5_F_COMPRESSED && left) {
		uint32_t used = q->session.left ? mlx5_eth_rx_minis(q, &r, left, flags)
						: mlx5_eth_rx_plain(q, &r, left, flags);

		if (!used && (q->session.left || !mlx5_eth_session_open(q, &r, flags)))
			break;
		left -= used;
	}
	if (q->cq_ci == ci)
		return mlx5_eth_rx_idle(q, flags);
	return mlx5_eth_rx_finish(q, &r, (uint32_t)(r.desc - desc), flags);
}

/* ---- the variants ---- */

/* Each again with MLX5_F_RAW, but for those that split. */
#define RX_BOTH(X, name, f) X(name, f) X(name##_raw, (f) | MLX5_F_RAW)

#define RX_VARIANTS(X)                                                                   \
	RX_BOTH(X, latency, MLX5_F_STAMP)                                                \
	RX_BOTH(X, cyclic, 0)                                                            \
	RX_BOTH(X, cyclic_compressed, MLX5_F_COMPRESSED)                                 \
	RX_BOTH(X, cyclic_compressed_enhanced, MLX5_F_COMPRESSED | MLX5_F_ENHANCED)      \
	X(split_stamp, MLX5_F_SPLIT | MLX5_F_STAMP)                                      \
	X(split, MLX5_F_SPLIT)                                                           \
	X(split_compressed, MLX5_F_SPLIT | MLX5_F_COMPRESSED)                            \
	X(split_compressed_enhanced, MLX5_F_SPLIT | MLX5_F_COMPRESSED | MLX5_F_ENHANCED) \
	RX_BOTH(X, striding_stamp, MLX5_F_STRIDING | MLX5_F_STAMP)                       \
	RX_BOTH(X, striding, MLX5_F_STRIDING)                                            \
	RX_BOTH(X, striding_compressed, MLX5_F_STRIDING | MLX5_F_COMPRESSED)             \
	RX_BOTH(X, striding_compressed_enhanced,                                         \
		MLX5_F_STRIDING | MLX5_F_COMPRESSED | MLX5_F_ENHANCED)

#define RX_DEFINE(name, f)                                                                      \
	static uint16_t mlx5_eth_rx_burst_##name(void *vq, struct spw_desc *desc, uint16_t cnt) \
	{                                                                                       \
		return mlx5_eth_rx_body(vq, desc, cnt, f);                                      \
	}
RX_VARIANTS(RX_DEFINE)

mlx5_rx_fn *mlx5_eth_rx_variant(unsigned flags)
{
	flags &= MLX5_F_STAMP | MLX5_F_COMPRESSED | MLX5_F_ENHANCED | MLX5_F_STRIDING | MLX5_F_RAW |
		 MLX5_F_SPLIT;
#define RX_PICK(name, f)  \
	if (flags == (f)) \
		return mlx5_eth_rx_burst_##name;
	RX_VARIANTS(RX_PICK)
	return NULL;
}
