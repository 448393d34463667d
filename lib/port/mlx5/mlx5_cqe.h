/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Who owns a CQE, and the life of slots in a queue: the inline pieces that the receive, send and error paths share.
 *
 * Sources: [DV] owner bit, opcodes; [K] drivers/net/ethernet/mellanox/mlx5/core/{wq.h,en_rx.c}: validity count of the
 * enhanced layout, place of the mini arrays.
 */
#ifndef SPW_PORT_MLX5_CQE_H
#define SPW_PORT_MLX5_CQE_H

#include <string.h>

#include "port/mlx5/mlx5_impl.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "descriptor words are put together for little endian");

#define MLX5_OP_SE 0x02u      /* solicited: says nothing about ownership */
#define MLX5_OP_INVALID 0xf0u

SPW_INLINE uint8_t *mlx5_cqe_at(uint8_t *ring, uint32_t mask, uint32_t ci)
{
	return ring + (size_t)(ci & mask) * MLX5_CQE_BYTES;
}

/* Is the CQE ours, whatever it says? No order by itself: M1 follows. */
SPW_INLINE bool mlx5_cqe_owned(const uint8_t *cqe, uint32_t lap, const unsigned flags)
{
	if (flags & MLX5_F_ENHANCED)
		return spw_dma_load(&cqe[MLX5_CQE_VALIDITY]) == (uint8_t)lap;
	uint8_t op = spw_dma_load(&cqe[MLX5_CQE_OP_OWN]);

	return (op & 1u) == (lap & 1u) && op < MLX5_OP_INVALID;
}

/* What the ownership word of a plain CQE of this lap looks like: ours, of this opcode, without error, inline data or
 * compression. */
SPW_INLINE uint32_t mlx5_own_want(uint32_t lap, unsigned opcode, const unsigned flags)
{
	return flags & MLX5_F_ENHANCED ? (lap & 0xffu) << 8 | opcode << 4 : opcode << 4 | (lap & 1u);
}

/* The ownership check of the fast path: one load, one compare. No order by itself: M1 follows. */
SPW_INLINE bool mlx5_cqe_plain(const uint8_t *cqe, uint32_t want, const unsigned flags)
{
	if (flags & MLX5_F_ENHANCED) {
		spw_be16 v = spw_dma_load((const spw_be16 *)(const void *)&cqe[MLX5_CQE_VALIDITY]);

		return (spw_be16_to_cpu(v) & 0xfffcu) == want;
	}
	return (spw_dma_load(&cqe[MLX5_CQE_OP_OWN]) & ~MLX5_OP_SE) == want;
}

/* How many CQEs from ci on are plain: at most cnt, never past the end of the ring (the lap changes there). */
SPW_INLINE uint32_t mlx5_cqe_plain_cnt(const struct spw_mlx5_queue *q, uint32_t ci, uint32_t cnt, const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, ci);
	uint32_t want = mlx5_own_want(ci >> q->cq_log2, SPW_PRM_CQE_RESP_SEND, flags);
	uint32_t end = SPW_MIN(cnt, q->cq_mask + 1 - (ci & q->cq_mask));
	uint32_t n = 0;

	while (n < end && mlx5_cqe_plain(cqe + (size_t)n * MLX5_CQE_BYTES, want, flags))
		n++;
	return n;
}

SPW_INLINE void mlx5_word_put(struct spw_desc *desc, unsigned word, uint64_t v)
{
	memcpy((char *)desc + word * 8, &v, 8);
}

/* Five stores: nic_stamp; slot, offset; len, meta; peer, flags, vlan_tci; region, port, reserved. */
SPW_INLINE void mlx5_desc_put(struct spw_desc *desc, uint64_t stamp, uint32_t slot, uint32_t len, uint32_t meta,
			      uint64_t peer_flags, uint64_t tail)
{
	mlx5_word_put(desc, 0, stamp);
	mlx5_word_put(desc, 1, slot);
	mlx5_word_put(desc, 2, len | (uint64_t)meta << 32);
	mlx5_word_put(desc, 3, peer_flags);
	mlx5_word_put(desc, 4, tail);
}

/* Send WQEs up to pi are built; the register takes the first `words` of the last one: 1, or the whole of it (BlueFlame). */
SPW_INLINE void mlx5_doorbell(spw_be32 *db, uint8_t *reg, const uint8_t *wqe, uint32_t pi, uint32_t words)
{
	spw_dma_to_device(); /* [M3] */
	spw_dma_store(db, spw_cpu_to_be32(pi & 0xffffu));
	spw_mmio_wc_start(); /* [M4] */
	for (uint32_t i = 0; i < words; i++) {
		uint64_t v;

		memcpy(&v, wqe + i * 8, 8);
		spw_mmio_write64_be(reg + i * 8, (SPW_FORCE spw_be64)v);
	}
	spw_mmio_wc_flush();
}

/* A stride of a group has come home; the last one frees the group. */
SPW_INLINE void mlx5_group_unref(struct spw_mlx5_queue *q, uint32_t group, uint32_t strides)
{
	q->group_ref[group] -= strides;
	if (q->group_ref[group] == 0)
		q->group_free[q->group_free_cnt++] = group;
}

/* Slots that the queue takes back. */
SPW_INLINE void mlx5_put(struct spw_mlx5_queue *q, const uint32_t *slot, uint32_t cnt, const unsigned flags)
{
	if (!(flags & MLX5_F_STRIDING)) {
		spw_pool_put(q->pool, slot, cnt);
		return;
	}
	for (uint32_t i = 0; i < cnt; i++)
		mlx5_group_unref(q, slot[i] >> q->group_log2, 1);
}

SPW_INLINE void mlx5_count_drop(struct spw_mlx5_queue *q, enum spw_port_drop why, uint64_t n)
{
	spw_thr_count(&q->stat.dropped[why], n);
}

SPW_INLINE void mlx5_count_err(struct spw_mlx5_queue *q, enum spw_port_err what, uint64_t n)
{
	spw_thr_count(&q->stat.err[what], n);
}

#endif
