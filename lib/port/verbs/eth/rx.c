/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive bursts of mode=eth: polls the CQ, fills descriptors, posts receives. Two variants of one
 * inline body: extended (ibv_start_poll, with timestamps) and plain (ibv_poll_cq). obj.c creates
 * the CQ and the WQ; recover.c resets them.
 *
 * An error completion ends this direction of the queue until verbs_eth_events recovers it. The one
 * exception is a frame longer than its WQE: it costs that frame only, and the WQ stays ready
 * (mlx5/eth/err.c names the sources).
 *
 * A slot is in a receive as long as posted[slot] is 1; posted[] finds the slots of a WQ that was
 * reset without completions.
 *
 *   slot    pool ─ refill: post ─► posted[slot] = 1 ─ completion ─► lent ─ release ─► pool
 *                                       └ reset without completion: verbs_eth_rx_return ─► pool
 *
 * wr_id is the slot, so a completion names it and no ring of slots is needed. Every ibv call is one
 * through the provider's table: this is the driver for devices that lib/port/mlx5 does not know.
 */
#include "port/verbs/eth/eth.h"

#define CHAIN 32u

/* ---- receive ---- */

/* Posts a chain in one call. A device that refuses part of it has posted the entries before *bad.
 */
static uint32_t verbs_eth_rx_post(struct verbs_eth_queue *q, const uint32_t *slot, uint32_t cnt)
{
	struct ibv_recv_wr wr[CHAIN], *bad = NULL;
	struct ibv_sge sge[CHAIN];

	for (uint32_t i = 0; i < cnt; i++) {
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)spw_pool_slot_addr(q->pool, slot[i]),
					  .length = q->frame_max,
					  .lkey = q->rx_lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = slot[i],
					     .sg_list = &sge[i],
					     .num_sge = 1,
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL};
	}
	if (spw_unlikely(ibv_post_wq_recv(q->rx.wq, wr, &bad)))
		cnt = (uint32_t)(bad - wr);
	for (uint32_t i = 0; i < cnt; i++)
		q->posted[slot[i]] = 1;
	q->recv_out += cnt;
	return cnt;
}

/* Fills the receive queue as far as the pool allows. Stops at the first refusal; the next burst
 * tries again. */
void verbs_eth_refill(struct verbs_eth_queue *q)
{
	while (q->recv_out < q->ring) {
		uint32_t slot[CHAIN], want = SPW_MIN(q->ring - q->recv_out, CHAIN);
		uint32_t n = spw_pool_get(q->pool, slot, want),
			 done = n ? verbs_eth_rx_post(q, slot, n) : 0;

		if (done < n)
			spw_pool_put(q->pool, slot + done, n - done);
		if (n < want)
			spw_thr_count(&q->stat.err[SPW_PORT_ERR_no_slot], 1);
		if (done < want)
			return;
	}
}

/* Iterates over completions, by ibv_start_poll or ibv_poll_cq. Each call has its own acquire, which
 * orders the frame's bytes. */
struct rx_poll {
	struct ibv_wc wc[SPW_BURST_MAX];
	int at, cnt;
};

struct rx_one {
	uint32_t slot, len, status, flags;
	uint64_t stamp;
};

SPW_INLINE bool verbs_eth_poll_first(struct verbs_eth_queue *q, struct rx_poll *p, int max,
				     const bool extended)
{
	struct ibv_poll_cq_attr attr = {0};

	p->at = 0;
	p->cnt = extended ? max : ibv_poll_cq(q->rx.cq, max, p->wc);
	return extended ? ibv_start_poll(q->rx.ex, &attr) == 0 : p->cnt > 0;
}

/* ibv_end_poll must follow every successful ibv_start_poll, also when the burst is full. */
SPW_INLINE bool verbs_eth_poll_next(struct verbs_eth_queue *q, struct rx_poll *p,
				    const bool extended)
{
	bool more = ++p->at < p->cnt;

	if (!extended || (more && ibv_next_poll(q->rx.ex) == 0))
		return more;
	ibv_end_poll(q->rx.ex);
	return false;
}

/* An extended CQ reads fields one by one through functions of the provider; of an error only status
 * and wr_id are valid. */
SPW_INLINE struct rx_one verbs_eth_poll_read(struct verbs_eth_queue *q, const struct rx_poll *p,
					     const bool extended)
{
	struct ibv_cq_ex *ex = q->rx.ex;
	const struct ibv_wc *wc = &p->wc[p->at];

	if (!extended)
		return (struct rx_one){.slot = (uint32_t)wc->wr_id,
				       .status = wc->status,
				       .len = wc->byte_len,
				       .flags = wc->wc_flags};
	if (spw_unlikely(ex->status != IBV_WC_SUCCESS))
		return (struct rx_one){.slot = (uint32_t)ex->wr_id, .status = ex->status};
	return (struct rx_one){.slot = (uint32_t)ex->wr_id,
			       .len = ibv_wc_read_byte_len(ex),
			       .flags = ibv_wc_read_wc_flags(ex),
			       .stamp = ibv_wc_read_completion_ts(ex)};
}

/* A flush had no frame; a frame longer than its WQE is the sender's doing; all else was lost by the
 * device. */
static void verbs_eth_rx_count_bad(struct verbs_eth_queue *q, uint32_t status)
{
	if (status != IBV_WC_WR_FLUSH_ERR)
		spw_thr_count(
			&q->stat.dropped[status == IBV_WC_LOC_LEN_ERR ? SPW_PORT_DROP_too_long
								      : SPW_PORT_DROP_rx_flushed],
			1);
}

static SPW_COLD void verbs_eth_rx_error(struct verbs_eth_queue *q, const struct rx_one *one)
{
	verbs_eth_rx_count_bad(q, one->status);
	spw_pool_put(q->pool, &one->slot, 1);
	if (one->status == IBV_WC_LOC_LEN_ERR)
		spw_thr_count(&q->stat.err[SPW_PORT_ERR_cqe_error], 1);
	else
		verbs_eth_fault(q, &q->rx_fault, one->status);
}

/* Takes send completions first, because they free slots for the refill at the end. */
SPW_INLINE uint16_t verbs_eth_rx_body(struct verbs_eth_queue *q, struct spw_desc *desc,
				      uint16_t cnt, const bool extended)
{
	struct rx_poll poll;
	uint64_t bytes = 0;
	uint16_t n = 0;
	bool came;

	if (q->sq_pi != q->sq_ci)
		verbs_eth_reap(q);
	came = verbs_eth_poll_first(q, &poll, cnt, extended);
	for (bool more = came; more; more = verbs_eth_poll_next(q, &poll, extended)) {
		const struct rx_one one = verbs_eth_poll_read(q, &poll, extended);

		q->posted[one.slot] = 0;
		q->recv_out--;
		if (spw_unlikely(one.status != IBV_WC_SUCCESS)) {
			verbs_eth_rx_error(q, &one);
			continue;
		}
		desc[n++] = (struct spw_desc){
			.slot = one.slot,
			.len = one.len,
			.region = q->region_id,
			.port = q->port->eth.base.index,
			.nic_stamp = one.stamp,
			.flags = (one.flags & IBV_WC_IP_CSUM_OK ? q->csum_flags : 0) |
				 (extended ? SPW_DESC_NIC_STAMP : 0),
		};
		bytes += one.len;
	}
	if (came && !q->rx_fault.bad)
		verbs_eth_refill(q);
	q->lent_cnt += n;
	spw_thr_count(&q->stat.rx_frames, n);
	spw_thr_count(&q->stat.rx_bytes, bytes);
	return n;
}

static uint16_t verbs_eth_rx_extended(void *vq, struct spw_desc *desc, uint16_t cnt)
{
	return verbs_eth_rx_body(vq, desc, cnt, true);
}

static uint16_t verbs_eth_rx_plain(void *vq, struct spw_desc *desc, uint16_t cnt)
{
	return verbs_eth_rx_body(vq, desc, cnt, false);
}

/* Takes unpolled completions first: verbs does not promise that a reset removes them from the CQ.
 */
void verbs_eth_rx_return(struct verbs_eth_queue *q)
{
	const bool extended = q->rx.ex;
	struct rx_poll poll;

	while (verbs_eth_poll_first(q, &poll, SPW_BURST_MAX, extended))
		for (bool more = true; more; more = verbs_eth_poll_next(q, &poll, extended)) {
			const struct rx_one one = verbs_eth_poll_read(q, &poll, extended);

			if (one.status == IBV_WC_SUCCESS)
				spw_thr_count(&q->stat.dropped[SPW_PORT_DROP_rx_flushed], 1);
			else
				verbs_eth_rx_count_bad(q, one.status);
			q->recv_out -= q->posted[one.slot];
			spw_pool_put(q->pool, &one.slot, q->posted[one.slot]);
			q->posted[one.slot] = 0;
		}
	for (uint32_t i = 0; i < q->pool->slot_cnt && q->recv_out; i++) {
		if (!q->posted[i])
			continue;
		q->posted[i] = 0;
		q->recv_out--;
		spw_pool_put(q->pool, &i, 1);
	}
}

static void verbs_eth_release(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;

	spw_pool_put(q->pool, slot, cnt);
	q->lent_cnt -= cnt;
	if (q->recv_out < q->ring && !q->rx_fault.bad && q->port->eth.started)
		verbs_eth_refill(q);
}

static uint16_t verbs_eth_lend(void *vq, uint32_t *slot, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;
	uint32_t n = spw_pool_get(q->pool, slot, cnt);

	q->lent_cnt += n;
	return (uint16_t)n;
}

void verbs_eth_calls(struct verbs_eth_queue *q, struct spw_port_queue *pq)
{
	*pq = (struct spw_port_queue){.rx_burst = q->rx.ex ? verbs_eth_rx_extended
							   : verbs_eth_rx_plain,
				      .release_burst = verbs_eth_release,
				      .tx_burst = verbs_eth_tx,
				      .events = verbs_eth_events,
				      .lend_burst = verbs_eth_lend,
				      .q = q,
				      .no_slot = &q->stat.err[SPW_PORT_ERR_no_slot]};
}
