/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The receive burst: one inline body with constant flags, instantiated by name at the end of the file. Per burst: one
 * look at op_own bytes and one acquire for all that it found, one refill, one store to each doorbell record.
 *
 * A CQE is believed only as far as memory and slots are safe: the WQE comes from our own count (receive WQEs are used up
 * in order), never more than were posted, and a length that the slot cannot hold costs the frame.
 */
#include <string.h>

#include "port/mlx5/mlx5_cqe.h"

_Static_assert(SPW_DESC_L3_OK == 1 && SPW_DESC_L4_OK == 2, "rx_csum shifts the CQE's bits into place");

/* What a burst keeps in registers. */
struct rx_run {
	struct spw_desc *desc; /* next to fill */
	uint32_t rq_ci, stride_pos;
	uint64_t bytes, nic_drops;
};

/* hds_ip_ext has l4_ok, l3_ok, l2_ok in bits 2..0. */
SPW_INLINE uint64_t rx_csum(const uint8_t *cqe)
{
	return (cqe[28] >> 1) & 3u;
}

/* A frame that no slot can hold: counted, and its slots are back at once. */
static SPW_COLD void rx_refuse(struct spw_mlx5_queue *q, uint32_t slot, const unsigned flags)
{
	mlx5_count_drop(q, SPW_PORT_DROP_too_long, 1);
	mlx5_put(q, &slot, 1, flags);
}

/* Striding: a CQE that is not "one frame in one stride": a filler, a frame of several strides, or a frame where no buffer
 * was posted. False: nonsense. */
static SPW_COLD bool rx_strides_odd(struct spw_mlx5_queue *q, struct rx_run *r, uint32_t byte_cnt)
{
	uint32_t strides = byte_cnt >> 16 & 0x7fffu;
	uint32_t group = q->slot_of[r->rq_ci & q->rq_mask] >> q->group_log2;

	if (r->rq_ci == q->rq_pi || strides == 0 || r->stride_pos + strides > 1u << q->group_log2) {
		spw_mlx5_rx_fault(q, 0);
		return false;
	}
	if (!(byte_cnt >> 31))
		mlx5_count_drop(q, SPW_PORT_DROP_too_long, 1);
	r->stride_pos += strides;
	if (r->stride_pos == 1u << q->group_log2) {
		r->stride_pos = 0;
		r->rq_ci++;
	}
	mlx5_group_unref(q, group, strides);
	return true;
}

/* The next slot that the NIC used, in order. */
SPW_INLINE uint32_t rx_slot(const struct spw_mlx5_queue *q, struct rx_run *r, const unsigned flags)
{
	uint32_t slot = q->slot_of[r->rq_ci & q->rq_mask];

	if (!(flags & MLX5_F_STRIDING)) {
		r->rq_ci++;
		return slot;
	}
	slot += r->stride_pos++;
	if (r->stride_pos == 1u << q->group_log2) {
		r->stride_pos = 0;
		r->rq_ci++;
	}
	return slot;
}

/* One frame becomes one descriptor. False: the CQE makes no sense, and the queue must be reset. */
SPW_INLINE bool rx_emit(struct spw_mlx5_queue *q, struct rx_run *r, uint32_t byte_cnt, uint32_t hash, uint64_t csum,
			uint64_t stamp, const unsigned flags)
{
	uint32_t len = flags & MLX5_F_STRIDING ? byte_cnt & 0xffffu : byte_cnt;

	if (flags & MLX5_F_STRIDING && spw_unlikely(byte_cnt >> 16 != 1 || r->rq_ci == q->rq_pi))
		return rx_strides_odd(q, r, byte_cnt);
	uint32_t slot = rx_slot(q, r, flags);

	if (spw_unlikely(len - 1 >= q->room_bytes)) {
		rx_refuse(q, slot, flags);
		return true;
	}
	mlx5_desc_put(r->desc++, stamp, slot, len, hash, (csum | (flags & MLX5_F_STAMP ? SPW_DESC_NIC_STAMP : 0)) << 32,
		      q->desc_tail);
	r->bytes += len;
	return true;
}

/* Ordinary CQEs. Returns: how many were used up. */
SPW_INLINE uint32_t rx_plain(struct spw_mlx5_queue *q, struct rx_run *r, uint32_t cnt, const unsigned flags)
{
	uint32_t n = mlx5_cqe_plain_cnt(q, q->cq_ci, cnt, flags), i;
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);

	if (!n)
		return 0;
	spw_dma_from_device(); /* [M1] */
	for (i = 0; i < n; i++, cqe += MLX5_CQE_BYTES) {
		uint64_t stamp = flags & MLX5_F_STAMP ? spw_prm_cqe64_get_timestamp(cqe) : 0;

		if (!rx_emit(q, r, (uint32_t)spw_prm_cqe64_get_byte_cnt(cqe), (uint32_t)spw_prm_cqe64_get_rx_hash_result(cqe),
			     rx_csum(cqe), stamp, flags))
			break;
		r->nic_drops += cqe[MLX5_CQE_DROPS];
	}
	if (flags & MLX5_F_ENHANCED && i)
		q->zip.csum = rx_csum(cqe - MLX5_CQE_BYTES); /* the last plain CQE is the title of what follows */
	q->cq_ci += i;
	return i;
}

SPW_INLINE void zip_load(struct spw_mlx5_queue *q, uint32_t ci)
{
	memcpy(q->zip.mini, mlx5_cqe_at(q->cqe, q->cq_mask, ci), sizeof(q->zip.mini));
	q->zip.idx = 0;
}

/* Does a compression session begin here? */
SPW_INLINE bool zip_open(struct spw_mlx5_queue *q, const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);
	uint8_t op = spw_dma_load(&cqe[MLX5_CQE_OP_OWN]);
	uint32_t cnt, max = flags & MLX5_F_ENHANCED ? MLX5_MINI_ENHANCED_CNT : q->cq_mask + 1;

	if (!mlx5_cqe_owned(cqe, q->cq_ci >> q->cq_log2, flags) || (op >> 2 & 3u) != SPW_PRM_CQE_FORMAT_COMPRESSED)
		return false;
	if (!(flags & MLX5_F_ENHANCED) && op >> 4 != SPW_PRM_CQE_RESP_SEND)
		return false;
	spw_dma_from_device(); /* [M1] covers the mini arrays: the NIC writes them before the title's op_own */
	cnt = flags & MLX5_F_ENHANCED ? (op >> 4) + 1u : (uint32_t)spw_prm_cqe64_get_byte_cnt(cqe);
	if (spw_unlikely(cnt - 1 >= max)) {
		spw_mlx5_rx_fault(q, 0);
		return false;
	}
	if (!(flags & MLX5_F_ENHANCED)) {
		q->zip.csum = rx_csum(cqe);
		spw_thr_count(&q->rx_nic_drops, cqe[MLX5_CQE_DROPS]);
	}
	zip_load(q, flags & MLX5_F_ENHANCED ? q->cq_ci : q->cq_ci + 1);
	q->zip.left = cnt;
	return true;
}

/* Basic layout: the NIC leaves the slots of a session unwritten or filled with minis. Mark them, or their last bytes would
 * look like ours a lap later. */
SPW_INLINE void zip_invalidate(struct spw_mlx5_queue *q, uint32_t from, uint32_t to)
{
	for (uint32_t ci = from; ci != to; ci++)
		spw_dma_store(&mlx5_cqe_at(q->cqe, q->cq_mask, ci)[MLX5_CQE_OP_OWN], (uint8_t)MLX5_OP_INVALID);
}

/* Frames of the session at hand. Each uses up one slot of the ring. The second array of a session lies 7 slots behind the
 * first, the others 8 apart: wherever an array has been used up, the next is the slot that ci has come to. The NIC cannot
 * have written there since: it may be a whole ring ahead of ci, never more (init refuses a CQ smaller than its WQEs). */
SPW_INLINE uint32_t rx_minis(struct spw_mlx5_queue *q, struct rx_run *r, uint32_t cnt, const unsigned flags)
{
	struct spw_mlx5_zip *zip = &q->zip;
	uint32_t n = SPW_MIN(cnt, zip->left), i;
	uint32_t idx = zip->idx;

	for (i = 0; i < n; i++) {
		if (idx == SPW_PRM_MINI_PER_CQE) {
			zip_load(q, q->cq_ci + i);
			idx = 0;
		}
		const uint8_t *mini = &zip->mini[idx * 8];

		if (!rx_emit(q, r, (uint32_t)spw_prm_mini_hash_get_byte_cnt(mini),
			     (uint32_t)spw_prm_mini_hash_get_rx_hash_result(mini), zip->csum, 0, flags))
			break;
		idx++;
	}
	zip->idx = idx;
	zip->left -= i;
	q->cq_ci += i;
	if (!(flags & MLX5_F_ENHANCED))
		zip_invalidate(q, q->cq_ci - i, q->cq_ci);
	return i;
}

/* ---- refill ---------------------------------------------------------------------------------------- */

SPW_INLINE uint8_t *rx_wqe_seg(const struct spw_mlx5_queue *q, uint32_t pos)
{
	return q->wqe + ((size_t)(pos & q->rq_mask) << q->rq_shift) + q->seg_off;
}

SPW_INLINE uint32_t rx_holes(const struct spw_mlx5_queue *q)
{
	return q->rq_mask + 1 - (q->rq_pi - q->rq_ci);
}

/* lkey and byte count of a WQE never change; its address does. The slots land in slot_of straight from the pool. */
SPW_INLINE void refill_cyclic(struct spw_mlx5_queue *q)
{
	const uintptr_t base = (uintptr_t)q->pool->base;
	const size_t slot_bytes = q->pool->slot_bytes, step = (size_t)1 << q->rq_shift;
	uint32_t holes = rx_holes(q);

	while (holes) {
		uint32_t idx = q->rq_pi & q->rq_mask;
		uint32_t *slot = &q->slot_of[idx];
		uint32_t n = spw_pool_get(q->pool, slot, SPW_MIN(holes, q->rq_mask + 1 - idx));
		uint8_t *seg = rx_wqe_seg(q, idx);

		if (!n)
			break;
		for (uint32_t i = 0; i < n; i++, seg += step)
			spw_prm_wqe_data_set_addr(seg, base + slot[i] * slot_bytes);
		q->rq_pi += n;
		holes -= n;
	}
}

SPW_INLINE void refill_striding(struct spw_mlx5_queue *q)
{
	for (uint32_t holes = rx_holes(q); holes && q->group_free_cnt; holes--, q->rq_pi++) {
		uint32_t group = q->group_free[--q->group_free_cnt];
		uint32_t slot = group << q->group_log2;

		q->group_ref[group] = 1u << q->group_log2;
		q->slot_of[q->rq_pi & q->rq_mask] = slot;
		spw_prm_wqe_data_set_addr(rx_wqe_seg(q, q->rq_pi), (uintptr_t)spw_pool_slot_addr(q->pool, slot));
	}
}

SPW_INLINE void rx_refill(struct spw_mlx5_queue *q, const unsigned flags)
{
	if (flags & MLX5_F_STRIDING)
		refill_striding(q);
	else
		refill_cyclic(q);
}

/* The consumer index goes first: a NIC that sees the new WQEs must not find the CQ full. */
SPW_INLINE void rx_ring(struct spw_mlx5_queue *q)
{
	spw_dma_to_device(); /* [M2] */
	spw_dma_store(q->cq_db, spw_cpu_to_be32(q->cq_ci & 0xffffffu));
	spw_dma_store(q->rq_db, spw_cpu_to_be32(q->rq_pi & 0xffffu));
}

void spw_mlx5_refill(struct spw_mlx5_queue *q)
{
	rx_refill(q, q->flags);
	rx_ring(q);
}

/* ---- the burst -------------------------------------------------------------------------------------- */

/* Nothing there, or nothing for the fast path. Holes that could not be filled earlier may be filled now. */
SPW_INLINE uint16_t rx_idle(struct spw_mlx5_queue *q, const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);
	uint32_t have = flags & MLX5_F_STRIDING ? q->group_free_cnt : q->pool->free_cnt;

	if (spw_unlikely(mlx5_cqe_owned(cqe, q->cq_ci >> q->cq_log2, flags) || (flags & MLX5_F_ZIP && q->zip.left)))
		spw_mlx5_rx_look(q);
	if (spw_unlikely(rx_holes(q) >= q->refill_min && have)) {
		rx_refill(q, flags);
		rx_ring(q);
	}
	return 0;
}

SPW_INLINE uint16_t rx_finish(struct spw_mlx5_queue *q, const struct rx_run *r, uint32_t lent, const unsigned flags)
{
	q->rq_ci = r->rq_ci;
	q->stride_pos = r->stride_pos;
	if (rx_holes(q) >= q->refill_min) {
		rx_refill(q, flags);
		if (spw_unlikely(rx_holes(q) >= q->refill_min))
			mlx5_count_err(q, SPW_PORT_ERR_no_slot, 1);
	}
	rx_ring(q);
	q->lent_cnt += lent;
	spw_thr_count(&q->stat.rx_frames, lent);
	spw_thr_count(&q->stat.rx_bytes, r->bytes);
	spw_thr_count(&q->rx_nic_drops, r->nic_drops);
	return (uint16_t)lent;
}

SPW_INLINE uint16_t rx_body(struct spw_mlx5_queue *q, struct spw_desc *desc, uint16_t cnt, const unsigned flags)
{
	struct rx_run r = { .desc = desc, .rq_ci = q->rq_ci, .stride_pos = q->stride_pos };
	uint32_t left = cnt, ci = q->cq_ci;

	if (!(flags & MLX5_F_STRIDING)) /* no more than was posted, whatever the ring says; rx_emit looks where strides count */
		left = SPW_MIN(left, q->rq_pi - q->rq_ci);
	if (!(flags & MLX5_F_ZIP))
		rx_plain(q, &r, left, flags);
	while (flags & MLX5_F_ZIP && left) {
		uint32_t used = q->zip.left ? rx_minis(q, &r, left, flags) : rx_plain(q, &r, left, flags);

		if (!used && (q->zip.left || !zip_open(q, flags)))
			break;
		left -= used;
	}
	if (q->cq_ci == ci)
		return rx_idle(q, flags);
	return rx_finish(q, &r, (uint32_t)(r.desc - desc), flags);
}

/* ---- the variants ------------------------------------------------------------------------------------ */

#define RX_VARIANTS(X) \
	X(latency, MLX5_F_STAMP) \
	X(cyclic, 0) \
	X(cyclic_zip, MLX5_F_ZIP) \
	X(cyclic_zip_enhanced, MLX5_F_ZIP | MLX5_F_ENHANCED) \
	X(striding_stamp, MLX5_F_STRIDING | MLX5_F_STAMP) \
	X(striding, MLX5_F_STRIDING) \
	X(striding_zip, MLX5_F_STRIDING | MLX5_F_ZIP) \
	X(striding_zip_enhanced, MLX5_F_STRIDING | MLX5_F_ZIP | MLX5_F_ENHANCED)

#define RX_DEFINE(name, f) \
	static uint16_t mlx5_rx_##name(void *vq, struct spw_desc *desc, uint16_t cnt) { return rx_body(vq, desc, cnt, f); }
RX_VARIANTS(RX_DEFINE)

spw_mlx5_rx_fn *spw_mlx5_rx_variant(unsigned flags)
{
	flags &= MLX5_F_STAMP | MLX5_F_ZIP | MLX5_F_ENHANCED | MLX5_F_STRIDING;
#define RX_PICK(name, f) \
	if (flags == (f)) \
		return mlx5_rx_##name;
	RX_VARIANTS(RX_PICK)
	return NULL;
}
