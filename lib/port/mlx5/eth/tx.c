/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The send burst of a raw Ethernet queue: one WQE of one 64-byte basic block per frame, which names
 * the bytes in the frame's slot; one doorbell and one completion per burst.
 *
 * The pipe calls it through struct spw_port_queue; eth/err.c calls mlx5_eth_tx_reap and
 * mlx5_eth_tx_sent. Only the last WQE of a burst asks for a CQE. The NIC sends in order, so that
 * CQE covers all WQEs up to it, and their slots are recycled together.
 *
 *     sq_ci                         sq_pi
 *       | burst ... CE | burst ... CE |      CE: the WQE that asks for a completion
 *
 * Sending takes two doorbells. The record in memory holds the producer index; the store to the
 * register makes the NIC read it, now:
 *
 *     software                               memory                         NIC
 *     build WQEs up to sq_pi             ──► [send ring]
 *     M3, then SND_DBR = sq_pi           ──► [SQ doorbell record]           (how many WQEs exist)
 *     M4, then the WQE's first 8 bytes   ──► [register in the UAR page] ──► reads the record, the
 *     (one WQE alone: all 64, BlueFlame)                                    WQEs, then the slots
 *     M1, reap                           ◄── [completion ring] ◄─────────── one CQE per burst
 *
 * A record without the register would be found only with the next doorbell; a register before the
 * record could make the NIC fetch a WQE that is not there. [PRM: Work Queue Structure; DoorBells;
 * UAR]
 *
 * WQE: control segment (16 B), Ethernet segment (16 B, or 32 B with the 18 bytes inline that some
 * devices require), data segment. Sources: mlx5dv.h segment layouts [DV]; rdma-core v44
 * providers/mlx5/qp.c: order of doorbell record and register, the two halves of a BlueFlame
 * register used in turn, a copy of the whole WQE only when it is the only one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/mlx5/eth/queue.h"

#define TX_ETH_OFF       16u
#define TX_INLINE_OFF    (TX_ETH_OFF + 14u)
#define TX_DATA_OFF(inl) ((inl) ? 48u : 32u)

SPW_INLINE uint8_t *mlx5_eth_tx_wqe(const struct mlx5_eth_queue *q, uint32_t pos)
{
	return q->sq + (size_t)(pos & q->sq_mask) * SPW_PRM_WQE_BB_BYTES;
}

/* Builds a frame that fits the inline part: padded there, without a data segment. The device pads
 * it to 60 bytes. */
static SPW_COLD void mlx5_eth_tx_short(uint8_t *wqe, const uint8_t *frame, uint32_t len,
				       uint32_t qpn_ds)
{
	memset(wqe + TX_INLINE_OFF, 0, MLX5_TX_INLINE_BYTES);
	memcpy(wqe + TX_INLINE_OFF, frame, len);
	spw_prm_st16(wqe + TX_INLINE_OFF - 2, MLX5_TX_INLINE_BYTES);
	spw_prm_st32(wqe + 4, qpn_ds - 1); /* one segment less */
}

SPW_INLINE void mlx5_eth_tx_build(const struct mlx5_eth_queue *q, uint32_t pos,
				  const struct spw_desc *desc, const unsigned flags)
{
	const uint32_t inl = flags & MLX5_F_INLINE ? MLX5_TX_INLINE_BYTES : 0;
	const uint8_t *frame = spw_pool_slot_addr(q->pool, desc->slot) + desc->offset;
	uint8_t *wqe = mlx5_eth_tx_wqe(q, pos), *data = wqe + TX_DATA_OFF(inl);

	spw_prm_st32(wqe, (pos & 0xffffu) << 8 | SPW_PRM_OP_SEND);
	spw_prm_st32(wqe + 4, q->qpn_ds);
	spw_prm_st64(wqe + 8, 0); /* no completion, no immediate */
	spw_prm_st64(wqe + TX_ETH_OFF, 0);
	spw_prm_st64(wqe + TX_ETH_OFF + 8, 0);
	if (inl && spw_unlikely(desc->len <= inl)) {
		mlx5_eth_tx_short(wqe, frame, desc->len, q->qpn_ds);
		return;
	}
	if (inl) {
		memcpy(wqe + TX_INLINE_OFF, frame, MLX5_TX_INLINE_BYTES);
		spw_prm_st16(wqe + TX_INLINE_OFF - 2, MLX5_TX_INLINE_BYTES);
	}
	spw_prm_st32(data, desc->len - inl); /* the whole word: bit 31 would mean inline data */
	spw_prm_wqe_data_set_lkey(data, q->sq_lkey);
	spw_prm_wqe_data_set_addr(data, (uintptr_t)frame + inl);
}

/* Rings for the cnt > 0 WQEs before sq_pi. One alone is copied to the register (BlueFlame). */
SPW_INLINE void mlx5_eth_tx_ring(struct mlx5_eth_queue *q, uint32_t cnt)
{
	mlx5_doorbell(q->sq_db, q->bf + q->bf_off, mlx5_eth_tx_wqe(q, q->sq_pi - 1), q->sq_pi,
		      cnt == 1 && q->bf_toggle);
	q->bf_off ^= q->bf_toggle;
}

/* Recycles the slots of the WQEs before `end` and counts their frames as sent. */
SPW_INLINE void mlx5_eth_tx_recycle_to(struct mlx5_eth_queue *q, uint32_t end, const unsigned flags)
{
	uint64_t bytes = 0;
	uint32_t n;

	for (uint32_t pos = q->sq_ci; pos != end; pos += n) {
		uint32_t idx = pos & q->sq_mask;

		n = SPW_MIN(end - pos, q->sq_mask + 1 - idx);
		mlx5_eth_put(q, &q->sq_slot[idx], n, flags);
		for (uint32_t i = 0; i < n; i++)
			bytes += q->sq_len[idx + i];
	}
	spw_thr_count(&q->stat.tx_frames, end - q->sq_ci);
	spw_thr_count(&q->stat.tx_bytes, bytes);
	q->sq_ci = end;
}

SPW_INLINE void mlx5_eth_tx_reap_body(struct mlx5_eth_queue *q, const unsigned flags)
{
	const uint8_t *cqe = mlx5_cqe_at(q->tx_cqe, q->tx_cq_mask, q->tx_cq_ci);
	uint32_t ci = q->tx_cq_ci;

	while (mlx5_cqe_plain(cqe, mlx5_own_want(ci >> q->tx_cq_log2, SPW_PRM_CQE_REQ, 0), 0)) {
		spw_dma_from_device(); /* [M1] */
		uint32_t done = (uint16_t)(spw_prm_cqe64_get_wqe_counter(cqe) + 1 - q->sq_ci);

		if (spw_unlikely(!spw_in_1_to(done, q->sq_pi - q->sq_ci))) {
			mlx5_eth_tx_fault(q, NULL);
			break;
		}
		mlx5_eth_tx_recycle_to(q, q->sq_ci + done, flags);
		if (flags & MLX5_F_SENT)
			mlx5_eth_sent_put(q, spw_prm_cqe64_get_timestamp(cqe));
		cqe = mlx5_cqe_at(q->tx_cqe, q->tx_cq_mask, ++ci);
	}
	if (ci == q->tx_cq_ci) {
		if (spw_unlikely(mlx5_cqe_owned(cqe, ci >> q->tx_cq_log2, 0)))
			mlx5_eth_tx_fault(q, cqe);
		return;
	}
	q->tx_cq_ci = ci;
	spw_dma_to_device(); /* [M2] */
	mlx5_cq_record_put(q->tx_cq_db, ci);
}

SPW_INLINE uint16_t mlx5_eth_tx_body(struct mlx5_eth_queue *q, struct spw_desc **desc, uint16_t cnt,
				     const unsigned flags)
{
	uint32_t pi = q->sq_pi, n;

	mlx5_eth_tx_reap_body(q, flags);
	if (spw_unlikely(q->tx_err.state != MLX5_ERR_NONE))
		return 0;
	n = SPW_MIN((uint32_t)cnt, q->sq_mask + 1 - (pi - q->sq_ci));
	if (!n)
		return 0;
	for (uint32_t i = 0; i < n; i++, pi++) {
		q->sq_slot[pi & q->sq_mask] = desc[i]->slot;
		q->sq_len[pi & q->sq_mask] = desc[i]->len;
		mlx5_eth_tx_build(q, pi, desc[i], flags);
	}
	spw_prm_st32(mlx5_eth_tx_wqe(q, pi - 1) + 8, SPW_PRM_CTRL_CE_CQE << 2);
	q->sq_pi = pi;
	q->lent_cnt -= n;
	mlx5_eth_tx_ring(q, n);
	return (uint16_t)n;
}

void mlx5_eth_tx_sent(struct mlx5_eth_queue *q, uint32_t end, const uint8_t *cqe)
{
	bool stamped = spw_prm_cqe64_get_opcode(cqe) == SPW_PRM_CQE_REQ;

	if (end == q->sq_ci)
		return;
	mlx5_eth_tx_recycle_to(q, end, q->flags);
	if (q->flags & MLX5_F_SENT)
		mlx5_eth_sent_put(q, stamped ? spw_prm_cqe64_get_timestamp(cqe) : 0);
}

void mlx5_eth_tx_reap(struct mlx5_eth_queue *q)
{
	mlx5_eth_tx_reap_body(q, q->flags);
}

#define TX_BOTH(X, name, f) X(name, f) X(name##_sent, (f) | MLX5_F_SENT)
#define TX_VARIANTS(X)                           \
	TX_BOTH(X, cyclic, 0)                    \
	TX_BOTH(X, cyclic_inline, MLX5_F_INLINE) \
	TX_BOTH(X, striding, MLX5_F_STRIDING)    \
	TX_BOTH(X, striding_inline, MLX5_F_STRIDING | MLX5_F_INLINE)

#define TX_DEFINE(name, f)                                                                       \
	static uint16_t mlx5_eth_tx_burst_##name(void *vq, struct spw_desc **desc, uint16_t cnt) \
	{                                                                                        \
		return mlx5_eth_tx_body(vq, desc, cnt, f);                                       \
	}
TX_VARIANTS(TX_DEFINE)

mlx5_tx_fn *mlx5_eth_tx_variant(unsigned flags)
{
	flags &= MLX5_F_STRIDING | MLX5_F_INLINE | MLX5_F_SENT;
#define TX_PICK(name, f)  \
	if (flags == (f)) \
		return mlx5_eth_tx_burst_##name;
	TX_VARIANTS(TX_PICK)
	return NULL;
}

int mlx5_eth_queue_sent_keep(struct mlx5_eth_queue *q, struct spw_port_queue *pq)
{
	q->sent.done = calloc(q->sq_mask + 1, sizeof(*q->sent.done));
	if (!q->sent.done)
		return spw_err(ENOMEM, "no memory for send completions");
	q->sent.mask = q->sq_mask;
	q->flags |= MLX5_F_SENT;
	pq->tx_burst = mlx5_eth_tx_variant(q->flags);
	return 0;
}
