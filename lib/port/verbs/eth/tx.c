/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Send bursts of mode=eth: posts frames and takes their completions. Only the last frame of a burst
 * is signaled; its completion returns the slots of all frames up to it.
 *
 * Positions in the send queue run freely; wr_id carries the position, so a completion that a reset
 * has already accounted for is recognised and ignored.
 *
 *   sq_ci                 sq_pi
 *     | burst  S | burst  S |      S: signaled; wr_id is its position
 *
 * A completion stands for all positions from sq_ci up to its own.
 */
#include "port/verbs/eth/eth.h"

/* Returns the slots of all positions before end, and counts them as sent or flushed. */
static void verbs_eth_tx_done(struct verbs_eth_queue *q, uint32_t end, bool sent)
{
	while (q->sq_ci != end) {
		const uint32_t at = q->sq_ci++ & q->sq_mask;

		spw_pool_put(q->pool, &q->tx_slot[at], 1);
		if (sent) {
			spw_thr_count(&q->stat.tx_frames, 1);
			spw_thr_count(&q->stat.tx_bytes, q->tx_len[at]);
		} else {
			spw_thr_count(&q->stat.tx_flushed, 1);
		}
	}
}

void verbs_eth_reap(struct verbs_eth_queue *q)
{
	struct ibv_wc wc[16];
	int got = ibv_poll_cq(q->tx.cq, SPW_ARRAY_CNT(wc), wc);

	for (int i = 0; i < got; i++) {
		const uint32_t pos = (uint32_t)wc[i].wr_id;

		if (spw_unlikely(pos - q->sq_ci >= q->sq_pi - q->sq_ci))
			continue; /* from before a reset, which has returned its slot */
		if (spw_likely(wc[i].status == IBV_WC_SUCCESS)) {
			verbs_eth_tx_done(q, pos + 1, true);
			continue;
		}
		if (wc[i].status != IBV_WC_WR_FLUSH_ERR)
			verbs_eth_tx_done(q, pos, true); /* unsignaled frames before it were sent */
		verbs_eth_tx_done(q, pos + 1, false);
		verbs_eth_fault(q, &q->tx_fault, wc[i].status);
	}
}

/* After a reset: whatever has not completed by now was not sent. */
void verbs_eth_tx_return(struct verbs_eth_queue *q)
{
	verbs_eth_tx_done(q, q->sq_pi, false);
}

uint16_t verbs_eth_tx(void *vq, struct spw_desc **desc, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;
	struct ibv_send_wr wr[SPW_BURST_MAX], *bad = NULL;
	struct ibv_sge sge[SPW_BURST_MAX];
	uint16_t n;

	verbs_eth_reap(q);
	n = (uint16_t)SPW_MIN(cnt, q->sq_mask + 1 - (q->sq_pi - q->sq_ci));
	if (!n || spw_unlikely(q->tx_fault.bad))
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		const struct spw_desc *d = desc[i];
		const uint32_t pos = q->sq_pi + i;

		q->tx_slot[pos & q->sq_mask] = d->slot;
		q->tx_len[pos & q->sq_mask] = d->len;
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)spw_pool_slot_addr(q->pool, d->slot) +
						  d->offset,
					  .length = d->len,
					  .lkey = q->tx_lkey};
		wr[i] = (struct ibv_send_wr){.wr_id = pos,
					     .sg_list = &sge[i],
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = i + 1 == n ? IBV_SEND_SIGNALED : 0,
					     .next = i + 1 < n ? &wr[i + 1] : NULL};
	}
	if (spw_unlikely(ibv_post_send(q->tx.qp, wr, &bad))) {
		n = (uint16_t)(bad - wr);
		verbs_eth_fault(q, &q->tx_fault,
				IBV_WC_LOC_QP_OP_ERR); /* the last posted frame is unsignaled:
							  recovery returns it */
	}
	q->sq_pi += n;
	q->lent_cnt -= n;
	return n;
}
