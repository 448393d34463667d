/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * mlx5 rings as memory: completion queues, work queues and the send doorbell, for all who post and
 * poll without rdma-core (port/mlx5, lib/xfer). rdma-core creates the objects and reports where
 * their rings and doorbell records lie; from then on the data path reads and writes memory only.
 *
 * The owner of a CQE. Software and NIC share the ring without a producer index: the NIC writes the
 * number of its lap into the CQE (bit 0 of op_own in the basic layout, all of the validity byte in
 * the enhanced one), and a CQE is ours if that equals the lap of our consumer index. The picture is
 * in port/mlx5/eth/rx.c. A CQE that was never written is INVALID (opcode 0xf), which no lap makes
 * ours.
 *
 * Sources: PRM, "Completion Queue Entry" (opcodes, owner bit); rdma-core providers/mlx5/mlx5dv.h
 * [DV]; Linux drivers/net/ethernet/mellanox/mlx5/core/{wq.h,en_rx.c} [K] (validity count of the
 * enhanced layout, place of the mini-CQE arrays).
 *
 * Thread of all: the owner of the queue.
 */
#ifndef SPW_PRM_RING_H
#define SPW_PRM_RING_H

#include "base/spw_order.h"
#include "prm/spw_prm.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "descriptor words are put together for little endian"
#endif

#define MLX5_CQE_BYTES    64u
#define MLX5_CQE_OP_OWN   63u /* opcode, format, solicited, owner */
#define MLX5_CQE_VALIDITY 62u /* enhanced layout: laps of the ring, mod 256 */
/* A flag of the CQE readers: the enhanced layout of compressed CQEs. */
#define MLX5_RING_ENHANCED (1u << 2)

/* ---- rings and doorbell records ---- */

/* What asks for an event of a CQ. */
struct mlx5_cqarm {
	spw_be32 *record;
	uint8_t *reg; /* in the UAR page of the context, which all of its CQs share */
	uint32_t cqn;
};

struct mlx5_cqmem {
	uint8_t *buf;    /* cnt * stride; op_own of every CQE starts as INVALID, validity as 0xff */
	spw_be32 *dbrec; /* [0] consumer index; NULL: the NIC ignores overrun and never reads it */
	uint32_t cnt;    /* a power of 2 */
	uint32_t stride; /* MLX5_CQE_BYTES; others are refused */
	struct mlx5_cqarm arm;
};

struct mlx5_rqmem {
	uint8_t *buf;          /* cnt * stride */
	spw_be32 *dbrec;       /* RCV_DBR: WQEs posted, mod 2^16 */
	uint32_t cnt;          /* a power of 2, at most 2^15 */
	uint32_t stride;       /* 16: one data segment; 32: two, or a striding WQE, which begins
				  with a next segment */
	uint32_t lkey;         /* of the pool's region */
	uint32_t strides_log2; /* striding: strides of one WQE, each of the pool's slot_bytes */
	uint32_t head_lkey;    /* of the heads' region, for a pool that is split */
};

struct mlx5_sqmem {
	uint8_t *buf;    /* cnt * 64 */
	spw_be32 *dbrec; /* SND_DBR */
	uint32_t cnt;    /* a power of 2, at most 2^15; 0: this queue does not send */
	uint32_t qpn, lkey;
	uint8_t *bf;       /* the BlueFlame register in the UAR page */
	uint32_t bf_bytes; /* of one of its two halves; 0: no BlueFlame, the 8-byte doorbell only */
};

/* ---- doorbell records, which the NIC reads ----
 *
 * Order: none by itself; a spw_dma_to_device comes before, labelled by the caller. */

/* Writes the consumer index of a CQ, of which the record has 24 bits. Thread: owner. */
SPW_INLINE void mlx5_cq_record_put(spw_be32 *dbrec, uint32_t ci)
{
	spw_dma_store(dbrec, spw_cpu_to_be32(ci & 0xffffffu));
}

/* Asks for a completion event: at once, if the NIC has written a CQE at or after consumer index ci
 * that no event has reported, else with the next CQE. sn: how many events of this CQ were taken, of
 * which the record has 2 bits; with an older one the NIC has served the request already. The record
 * says what is asked for, the store to the register makes the NIC read it ([PRM] 8.18).
 * Thread: owner of the CQ and of the register. */
SPW_INLINE void mlx5_cq_arm(const struct mlx5_cqarm *arm, uint32_t ci, uint32_t sn)
{
	const uint32_t word = (sn & 3u) << 28 | (ci & 0xffffffu);

	spw_dma_store(arm->record, spw_cpu_to_be32(word));
	spw_mmio_wc_start(); /* [M4] */
	spw_mmio_write64_be(arm->reg, spw_cpu_to_be64((uint64_t)word << 32 | arm->cqn));
	spw_mmio_wc_flush();
}

/* Writes how many WQEs of a receive, shared receive or send queue were posted, of which the record
 * has 16 bits. Thread: owner. */
SPW_INLINE void mlx5_wq_record_put(spw_be32 *dbrec, uint32_t pi)
{
	spw_dma_store(dbrec, spw_cpu_to_be32(pi & 0xffffu));
}

/* ---- completions ---- */

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
	if (flags & MLX5_RING_ENHANCED)
		return spw_dma_load(&cqe[MLX5_CQE_VALIDITY]) == (uint8_t)lap;
	uint8_t op = spw_dma_load(&cqe[MLX5_CQE_OP_OWN]);

	return (op & 1u) == (lap & 1u) && op < MLX5_OP_INVALID;
}

/* The ownership word of a plain CQE of this lap: ours, of this opcode, without error, inline data
 * or compression. */
SPW_INLINE uint32_t mlx5_own_want(uint32_t lap, unsigned opcode, const unsigned flags)
{
	return flags & MLX5_RING_ENHANCED ? (lap & 0xffu) << 8 | opcode << 4
					  : opcode << 4 | (lap & 1u);
}

/* The ownership check of the fast path: one load and one compare with mlx5_own_want.
 * Order: none by itself; M1 follows. */
SPW_INLINE bool mlx5_cqe_plain(const uint8_t *cqe, uint32_t want, const unsigned flags)
{
	if (flags & MLX5_RING_ENHANCED) {
		spw_be16 v = spw_dma_load((const spw_be16 *)(const void *)&cqe[MLX5_CQE_VALIDITY]);

		return (spw_be16_to_cpu(v) & 0xfffcu) == want;
	}
	return (spw_dma_load(&cqe[MLX5_CQE_OP_OWN]) & ~MLX5_OP_SE) == want;
}

/* ---- send WQEs ---- */

/* The segment that names the peer's memory. Thread: owner. */
SPW_INLINE void mlx5_wqe_raddr_put(uint8_t *seg, uint64_t addr, uint32_t rkey)
{
	spw_prm_wqe_raddr_set_raddr(seg, addr);
	spw_prm_wqe_raddr_set_rkey(seg, rkey);
	spw_prm_st32(seg + 12, 0);
}

/* The segment that names memory of ours. Thread: owner. */
SPW_INLINE void mlx5_wqe_data_put(uint8_t *seg, uint64_t addr, uint32_t len, uint32_t lkey)
{
	spw_prm_st32(seg, len); /* the whole word: bit 31 means inline */
	spw_prm_wqe_data_set_lkey(seg, lkey);
	spw_prm_wqe_data_set_addr(seg, addr);
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
	mlx5_wq_record_put(db, pi);
	spw_mmio_wc_start(); /* [M4] */
	if (whole)
		spw_mmio_wc_copy64(reg, wqe);
	else
		spw_mmio_write64_be(reg, (SPW_FORCE spw_be64)first);
	spw_mmio_wc_flush();
}

#endif
