/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The bursts of mode=eth. An error completion ends its direction of the queue until events has mended it.
 */
#include <stdio.h>

#include "port/verbs/verbs_eth.h"

#define CHAIN 32u

/* ---- receive -------------------------------------------------------------------------------------- */

static uint32_t post(struct verbs_eth_queue *q, const uint32_t *slot, uint32_t cnt)
{
	struct ibv_recv_wr wr[CHAIN], *bad = NULL;
	struct ibv_sge sge[CHAIN];

	for (uint32_t i = 0; i < cnt; i++) {
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)spw_pool_slot_addr(q->pool, slot[i]), .length = q->frame_max,
					  .lkey = q->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = slot[i], .sg_list = &sge[i], .num_sge = 1,
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL};
	}
	if (spw_unlikely(ibv_post_wq_recv(q->wq, wr, &bad)))
		cnt = (uint32_t)(bad - wr);
	for (uint32_t i = 0; i < cnt; i++)
		q->posted[slot[i]] = 1;
	q->recv_out += cnt;
	return cnt;
}

void verbs_eth_refill(struct verbs_eth_queue *q)
{
	while (q->recv_out < q->ring) {
		uint32_t slot[CHAIN], want = SPW_MIN(q->ring - q->recv_out, CHAIN);
		uint32_t n = spw_pool_get(q->pool, slot, want), done = n ? post(q, slot, n) : 0;

		if (done < n)
			spw_pool_put(q->pool, slot + done, n - done);
		if (n < want)
			spw_thr_count(&q->stat.err[SPW_PORT_ERR_no_slot], 1);
		if (done < want)
			return;
	}
}

static SPW_COLD void fault(struct verbs_eth_queue *q, bool *side, uint32_t status)
{
	if (status != IBV_WC_WR_FLUSH_ERR)
		spw_thr_count(&q->stat.err[SPW_PORT_ERR_cqe_error], 1);
	if (!*side) {
		q->bad_tsc = spw_tsc_now();
		q->status = status;
		q->told_bad = false;
	}
	*side = true;
}

static SPW_COLD void rx_error(struct verbs_eth_queue *q, const struct ibv_wc *wc, uint32_t slot)
{
	spw_thr_count(&q->stat.dropped[wc->status == IBV_WC_LOC_LEN_ERR ? SPW_PORT_DROP_too_long : SPW_PORT_DROP_rx_flushed],
		      wc->status != IBV_WC_WR_FLUSH_ERR);
	spw_pool_put(q->pool, &slot, 1);
	fault(q, &q->rx_bad, wc->status);
}

static uint16_t rx(void *vq, struct spw_desc *desc, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;
	struct ibv_wc wc[SPW_BURST_MAX];
	uint64_t bytes = 0;
	uint16_t n = 0;
	int got;

	if (q->sq_pi != q->sq_ci)
		verbs_eth_reap(q);
	got = ibv_poll_cq(q->rx_cq, cnt, wc); /* its own acquire orders the frame */
	for (int i = 0; i < got; i++) {
		const uint32_t slot = (uint32_t)wc[i].wr_id;

		q->posted[slot] = 0;
		q->recv_out--;
		if (spw_unlikely(wc[i].status != IBV_WC_SUCCESS)) {
			rx_error(q, &wc[i], slot);
			continue;
		}
		desc[n++] = (struct spw_desc){
			.slot = slot, .len = wc[i].byte_len, .region = q->region_id, .port = q->port->base.index,
			.flags = wc[i].wc_flags & IBV_WC_IP_CSUM_OK ? q->csum_flags : 0,
		};
		bytes += wc[i].byte_len;
	}
	if (got > 0 && !q->rx_bad)
		verbs_eth_refill(q);
	q->lent_cnt += n;
	spw_thr_count(&q->stat.rx_frames, n);
	spw_thr_count(&q->stat.rx_bytes, bytes);
	return n;
}

/* Completions that nobody polled go first, for no device promises that a reset takes them along. */
void verbs_eth_rx_home(struct verbs_eth_queue *q)
{
	struct ibv_wc wc[16];
	int got = 1;

	while (got > 0) {
		got = ibv_poll_cq(q->rx_cq, SPW_ARRAY_CNT(wc), wc);
		for (int i = 0; i < got; i++) {
			const uint32_t slot = (uint32_t)wc[i].wr_id;

			spw_thr_count(&q->stat.dropped[SPW_PORT_DROP_rx_flushed], wc[i].status == IBV_WC_SUCCESS);
			q->recv_out -= q->posted[slot];
			spw_pool_put(q->pool, &slot, q->posted[slot]);
			q->posted[slot] = 0;
		}
	}
	for (uint32_t i = 0; i < q->pool->slot_cnt && q->recv_out; i++) {
		if (!q->posted[i])
			continue;
		q->posted[i] = 0;
		q->recv_out--;
		spw_pool_put(q->pool, &i, 1);
	}
}

static void release(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;

	spw_pool_put(q->pool, slot, cnt);
	q->lent_cnt -= cnt;
	if (q->recv_out < q->ring && !q->rx_bad && q->port->started)
		verbs_eth_refill(q);
}

static uint16_t lend(void *vq, uint32_t *slot, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;
	uint32_t n = spw_pool_get(q->pool, slot, cnt);

	q->lent_cnt += n;
	return (uint16_t)n;
}

/* ---- send ----------------------------------------------------------------------------------------- */

static void done(struct verbs_eth_queue *q, uint32_t end, bool sent)
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
	int got = ibv_poll_cq(q->tx_cq, SPW_ARRAY_CNT(wc), wc);

	for (int i = 0; i < got; i++) {
		const uint32_t pos = (uint32_t)wc[i].wr_id;

		if (spw_unlikely(pos - q->sq_ci >= q->sq_pi - q->sq_ci))
			continue; /* of before a reset, which brought it home */
		if (spw_likely(wc[i].status == IBV_WC_SUCCESS)) {
			done(q, pos + 1, true);
			continue;
		}
		if (wc[i].status != IBV_WC_WR_FLUSH_ERR)
			done(q, pos, true); /* those before it had no completion because they were good */
		done(q, pos + 1, false);
		fault(q, &q->tx_bad, wc[i].status);
	}
}

void verbs_eth_tx_home(struct verbs_eth_queue *q)
{
	done(q, q->sq_pi, false);
}

static uint16_t tx(void *vq, struct spw_desc **desc, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;
	struct ibv_send_wr wr[SPW_BURST_MAX], *bad = NULL;
	struct ibv_sge sge[SPW_BURST_MAX];
	uint16_t n;

	verbs_eth_reap(q);
	n = (uint16_t)SPW_MIN(cnt, q->sq_mask + 1 - (q->sq_pi - q->sq_ci));
	if (!n || spw_unlikely(q->tx_bad))
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		const struct spw_desc *d = desc[i];
		const uint32_t pos = q->sq_pi + i;

		q->tx_slot[pos & q->sq_mask] = d->slot;
		q->tx_len[pos & q->sq_mask] = d->len;
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)spw_pool_slot_addr(q->pool, d->slot) + d->offset, .length = d->len,
					  .lkey = q->lkey};
		wr[i] = (struct ibv_send_wr){.wr_id = pos, .sg_list = &sge[i], .num_sge = 1, .opcode = IBV_WR_SEND,
					     .send_flags = i + 1 == n ? IBV_SEND_SIGNALED : 0, .next = i + 1 < n ? &wr[i + 1] : NULL};
	}
	if (spw_unlikely(ibv_post_send(q->qp, wr, &bad))) {
		n = (uint16_t)(bad - wr);
		fault(q, &q->tx_bad, IBV_WC_LOC_QP_OP_ERR); /* the last that went out has no completion: mending brings it home */
	}
	q->sq_pi += n;
	q->lent_cnt -= n;
	return n;
}

/* ---- events --------------------------------------------------------------------------------------- */

static uint16_t tell(struct verbs_eth_queue *q, struct spw_port_event *event, enum spw_port_event_kind kind, uint64_t outage_ns)
{
	*event = (struct spw_port_event){.kind = kind, .queue = q->index, .code = q->status, .outage_ns = outage_ns};
	snprintf(event->text, sizeof(event->text), "%.40s: %s", q->port->base.name, kind == SPW_PORT_EVENT_QUEUE_BACK
		 ? "the queue is back" : ibv_wc_status_str((enum ibv_wc_status)q->status));
	return 1;
}

static bool mend_rx(struct verbs_eth_queue *q)
{
	if (verbs_eth_rx_reset(q))
		return false;
	verbs_eth_rx_home(q);
	if (verbs_eth_rx_ready(q))
		return false;
	q->rx_bad = false;
	verbs_eth_refill(q);
	return true;
}

static bool mend_tx(struct verbs_eth_queue *q)
{
	if (verbs_eth_tx_reset(q))
		return false;
	verbs_eth_tx_home(q);
	if (verbs_eth_tx_ready(q))
		return false;
	q->tx_bad = false;
	return true;
}

static SPW_COLD uint16_t mend(struct verbs_eth_queue *q, struct spw_port_event *event, uint16_t cnt)
{
	uint16_t n = 0;

	if (!q->told_bad)
		n = tell(q, event, SPW_PORT_EVENT_QUEUE_ERROR, 0);
	q->told_bad = true;
	if ((q->rx_bad && !mend_rx(q)) || (q->tx_bad && !mend_tx(q)) || n == cnt)
		return n;
	spw_thr_count(&q->stat.err[SPW_PORT_ERR_queue_reset], 1);
	return (uint16_t)(n + tell(q, &event[n], SPW_PORT_EVENT_QUEUE_BACK,
				   spw_tsc_to_ns(&q->port->dev.tsc, spw_tsc_now() - q->bad_tsc)));
}

static uint16_t events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;
	uint16_t n = 0;

	verbs_eth_reap(q);
	if (spw_unlikely((q->rx_bad || q->tx_bad) && cnt))
		n = mend(q, event, cnt);
	else if (q->recv_out < q->ring)
		verbs_eth_refill(q);
	return (uint16_t)(n + rdma_ctl_events(q->port->ctl, q->index, event + n, (uint16_t)(cnt - n)));
}

void verbs_eth_calls(struct verbs_eth_queue *q, struct spw_port_queue *pq)
{
	*pq = (struct spw_port_queue){.rx_burst = rx, .release_burst = release, .tx_burst = tx, .events = events,
				      .lend_burst = lend, .q = q, .no_slot = &q->stat.err[SPW_PORT_ERR_no_slot]};
}
