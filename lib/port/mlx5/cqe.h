/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * CQEs, descriptors and the send doorbell: the inline pieces that the burst functions of eth/ and
 * rc/ share. Nothing here knows a queue.
 *
 * The owner of a CQE. Software and NIC share the ring without a producer index: the NIC writes the
 * number of its lap into the CQE (bit 0 of op_own in the basic layout, all of the validity byte in
 * the enhanced one), and a CQE is ours if that equals the lap of our consumer index. The picture is
 * in eth/rx.c. A CQE that was never written is INVALID (opcode 0xf), which no lap makes ours.
 *
 * Sources: PRM, "Completion Queue Entry" (opcodes, owner bit); rdma-core providers/mlx5/mlx5dv.h
 * [DV]; Linux drivers/net/ethernet/mellanox/mlx5/core/{wq.h,en_rx.c} [K] (validity count of the
 * enhanced layout, place of the mini-CQE arrays).
 */
#ifndef SPW_PORT_MLX5_CQE_H
#define SPW_PORT_MLX5_CQE_H

#include <string.h>

#include "port/mlx5/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "descriptor words are put together for little endian");

#define MLX5_OP_SE      0x02u /* solicited event: no part of ownership */
#define MLX5_OP_INVALID 0xf0u /* opcode of a CQE that was never written, or is not to be read */

SPW_INLINE uint8_t *mlx5_cqe_at(uint8_t *ring, uint32_t mask, uint32_t ci)
{
	return ring + (size_t)(ci & mask) * MLX5_CQE_BYTES;
}

/* Whether the CQE at consumer index ci of lap `lap` is ours, of any opcode and format.
 * Order: none by itself; M1 follows. */
SPW_INLINE bool mlx5_cqe_owned(const uint8_t *cqe, uint32_t lap, const unsigned flags)
{
	if (flags & MLX5_F_ENHANCED)
		return spw_dma_load(&cqe[MLX5_CQE_VALIDITY]) == (uint8_t)lap;
	uint8_t op = spw_dma_load(&cqe[MLX5_CQE_OP_OWN]);

	return (op & 1u) == (lap & 1u) && op < MLX5_OP_INVALID;
}

/* The ownership word of a plain CQE of this lap: ours, of this opcode, without error, inline data
 * or compression. */
SPW_INLINE uint32_t mlx5_own_want(uint32_t lap, unsigned opcode, const unsigned flags)
{
	return flags & MLX5_F_ENHANCED ? (lap & 0xffu) << 8 | opcode << 4
				       : opcode << 4 | (lap & 1u);
}

/* The ownership check of the fast path: one load and one compare with mlx5_own_want.
 * Order: none by itself; M1 follows. */
SPW_INLINE bool mlx5_cqe_plain(const uint8_t *cqe, uint32_t want, const unsigned flags)
{
	if (flags & MLX5_F_ENHANCED) {
		spw_be16 v = spw_dma_load((const spw_be16 *)(const void *)&cqe[MLX5_CQE_VALIDITY]);

		return (spw_be16_to_cpu(v) & 0xfffcu) == want;
	}
	return (spw_dma_load(&cqe[MLX5_CQE_OP_OWN]) & ~MLX5_OP_SE) == want;
}

SPW_INLINE void mlx5_word_put(struct spw_desc *desc, unsigned word, uint64_t v)
{
	memcpy((char *)desc + word * 8, &v, 8);
}

/* Writes a descriptor as five words: nic_stamp; slot, offset; len, meta; peer, flags;
 * region, port. */
SPW_INLINE void mlx5_desc_put(struct spw_desc *desc, uint64_t stamp, uint32_t slot, uint32_t len,
			      uint32_t meta, uint64_t peer_flags, uint64_t tail)
{
	mlx5_word_put(desc, 0, stamp);
	mlx5_word_put(desc, 1, slot);
	mlx5_word_put(desc, 2, len | (uint64_t)meta << 32);
	mlx5_word_put(desc, 3, peer_flags);
	mlx5_word_put(desc, 4, tail);
}

/* Rings for the send WQEs before pi. The record says how many WQEs exist; the store to the register
 * (the first word of the last WQE, or with BlueFlame, `whole`, all of its 64 bytes) makes the NIC
 * read it. */
SPW_INLINE void mlx5_doorbell(spw_be32 *db, uint8_t *reg, const uint8_t *wqe, uint32_t pi,
			      bool whole)
{
	uint64_t first;

	memcpy(&first, wqe, sizeof(first));
	spw_dma_to_device(); /* [M3] */
	spw_dma_store(db, spw_cpu_to_be32(pi & 0xffffu));
	spw_mmio_wc_start(); /* [M4] */
	if (whole)
		spw_mmio_wc_copy64(reg, wqe);
	else
		spw_mmio_write64_be(reg, (SPW_FORCE spw_be64)first);
	spw_mmio_wc_flush();
}

#endif
