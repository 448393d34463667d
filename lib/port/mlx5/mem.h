/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The mlx5 hardware objects as plain memory: what eth/ and rc/ lay their queues over.
 *
 * rdma-core creates the objects (dev.c, eth/obj.c, rc/obj.c) and reports where their rings and
 * doorbell records lie; from then on the data path reads and writes memory only. Tests lay the same
 * structs over memory of their own, so the same object code runs on both. The structs and what
 * reads and writes their rings: prm/spw_prm_ring.h. Here: variants, errors, descriptors.
 *
 * Orderings (docs/040-ordering.md). The partner of each is the NIC:
 *
 *   M1 acquire  After op_own shows that a CQE is ours, before the rest of the CQE, the mini-CQE
 *               arrays and the frame are read; one for all CQEs that one scan found. Pairs with
 *               the NIC writing op_own last.
 *   M2 release  WQEs, and CQE bytes marked invalid, before the doorbell records. Pairs with the
 *               NIC reading the record before the WQEs.
 *   M3 release  Send WQEs and the bytes of their frames before the send doorbell record.
 *   M4 release  The doorbell or arm record before the store to the UAR page; then the combined
 *               stores leave the core.
 *   M7 release  The CQ's doorbell record before those of the receive queues. Pairs with the NIC
 *               reading the consumer index after it has completed a newly posted WQE.
 *
 * Why M2, which orders stores only, is enough to return a CQE to the NIC: a load is complete before
 * a store that depends on its value, and M2 orders that store before the doorbell record. Therefore
 * everything that a burst reads of a CQE is stored before M2: in a descriptor, in the session, in
 * a counter. A field of a refused frame that is stored nowhere is not used, so it does not matter
 * what the load returned; its byte count decides about stores (counter, slot), which is a
 * dependency too. A new use of a CQE field must keep to this: never accumulate in a register what
 * is stored after the doorbell.
 */
#ifndef SPW_PORT_MLX5_MEM_H
#define SPW_PORT_MLX5_MEM_H

#include <string.h>

#include "base/spw_order.h"
#include "port/port.h"
#include "prm/spw_prm_ring.h"

/* Receiver: frames that the NIC dropped for want of a WQE since the last CQE. */
#define MLX5_CQE_DROPS 56u
/* Mini-CQEs of one block of the enhanced layout. */
#define MLX5_MINI_ENHANCED_CNT 7u
/* MAC addresses, type and VLAN tag: what a device that requires the L2 header inline needs. */
#define MLX5_TX_INLINE_BYTES 18u

/* Which variant of the burst functions a queue runs; fixed at set-up, constant in the code. */
enum mlx5_flag {
	/* One hardware timestamp per frame. */
	MLX5_F_STAMP = 1u << 0,
	/* CQE compression. Alone: the basic layout, sessions of a title and mini-CQE arrays. */
	MLX5_F_COMPRESSED = 1u << 1,
	/* CQE compression, enhanced layout: self-describing blocks, validity by lap count. */
	MLX5_F_ENHANCED = MLX5_RING_ENHANCED,
	/* One WQE of many strides, each stride a slot. */
	MLX5_F_STRIDING = 1u << 3,
	/* TX: the device requires MLX5_TX_INLINE_BYTES of each frame inside the WQE. */
	MLX5_F_INLINE = 1u << 4,
	/* RX: a burst keeps the CQEs that it reads (port/spw_port_raw.h). */
	MLX5_F_RAW = 1u << 5,
	/* TX: send completions are kept (frame/spw_port_sent.h). */
	MLX5_F_SENT = 1u << 6,
	/* RX: two data segments a WQE: a frame's head and the rest (pool/spw_pool.h). Such a queue
	 * does not send. */
	MLX5_F_SPLIT = 1u << 7,
};

/* ---- errors ---- */

#define MLX5_SYNDROME_CNT 64u /* 0: unknown ones */

/* NONE ──error CQE or asynchronous event──► NOTED ──event returned──► REPORTED ──recovered──► NONE
 */
enum mlx5_err_state { MLX5_ERR_NONE, MLX5_ERR_NOTED, MLX5_ERR_REPORTED };

/* One direction (receive or send) that failed. */
struct mlx5_err {
	enum mlx5_err_state state;
	uint32_t syndrome; /* of the first error CQE; 0: a malformed CQE, or reported without one */
	const char *what;  /* static text of the reporter; NULL: a CQE showed it */
	uint64_t since_tsc;
	uint32_t tries;
};

/* ---- burst functions: as in struct spw_port_queue ---- */

typedef uint16_t mlx5_rx_fn(void *vq, struct spw_desc *desc, uint16_t cnt);
typedef uint16_t mlx5_tx_fn(void *vq, struct spw_desc **desc, uint16_t cnt);

/* ---- descriptors ---- */

SPW_INLINE void mlx5_word_put(struct spw_desc *desc, unsigned word, uint64_t v)
{
	memcpy((char *)desc + word * 8, &v, 8);
}

/* Writes a descriptor as five words, half as many stores as by fields: nic_stamp; slot, offset;
 * len, meta; peer, flags; region, port. Thread: owner. */
SPW_INLINE void mlx5_desc_put(struct spw_desc *desc, uint64_t stamp, uint32_t slot, uint32_t len,
			      uint32_t meta, uint64_t peer_flags, uint64_t tail)
{
	mlx5_word_put(desc, 0, stamp);
	mlx5_word_put(desc, 1, slot);
	mlx5_word_put(desc, 2, len | (uint64_t)meta << 32);
	mlx5_word_put(desc, 3, peer_flags);
	mlx5_word_put(desc, 4, tail);
}

#endif
