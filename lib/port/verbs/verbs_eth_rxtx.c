/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The bursts of mode=eth. An error completion ends its direction of the queue until events has mended it.
 */
#include "port/verbs/verbs_eth.h"

#define CHAIN 32u

/* ---- receive -------------------------------------------------------------------------------------- */

static uint32_t post(struct verbs_eth_queue *q, const uint32_t *slot, uint32_t cnt)
{
	struct ibv_recv_wr wr[CHAIN], *bad = NULL;
	struct ibv_sge sge[CHAIN];

	for (uint32_t i = 0; i < cnt; i++) {
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)spw_pool_slot_addr(q->pool, slot[i]), .length = q->frame_max,
					  .lkey = q->rx_lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = slot[i], .sg_list = &sge[i], .num_sge = 1,
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL};
	}
	if (spw_unlikely(ibv_post_wq_recv(q->rx.wq, wr, &bad)))
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

/* One completion after the other, by ibv_start_poll or by ibv_poll_cq; each has its own acquire, which orders the frame. */
struct rx_poll {
	struct ibv_wc wc[SPW_BURST_MAX];
	int at, cnt;
};

struct rx_one {
	uint32_t slot, len, status, flags;
	uint64_t stamp;
};

SPW_INLINE bool poll_first(struct verbs_eth_queue *q, struct rx_poll *p, int max, const bool extended)
{
	struct ibv_poll_cq_attr attr = {0};

	p->at = 0;
	p->cnt = extended ? max : ibv_poll_cq(q->rx.cq, max, p->wc);
	return extended ? ibv_start_poll(q->rx.ex, &attr) == 0 : p->cnt > 0;
}

SPW_INLINE bool poll_next(struct verbs_eth_queue *q, struct rx_poll *p, const bool extended)
{
	bool more = ++p->at < p->cnt;

	if (!extended || (more && ibv_next_poll(q->rx.ex) == 0))
		return more;
	ibv_end_poll(q->rx.ex);
	return false;
}

SPW_INLINE struct rx_one poll_read(struct verbs_eth_queue *q, const struct rx_poll *p, const bool extended)
{
	struct ibv_cq_ex *ex = q->rx.ex;
	const struct ibv_wc *wc = &p->wc[p->at];

	if (!extended)
		return (struct rx_one){.slot = (uint32_t)wc->wr_id, .status = wc->status, .len = wc->byte_len, .flags = wc->wc_flags};
	if (spw_unlikely(ex->status != IBV_WC_SUCCESS))
		return (struct rx_one){.slot = (uint32_t)ex->wr_id, .status = ex->status};
	return (struct rx_one){.slot = (uint32_t)ex->wr_id, .len = ibv_wc_read_byte_len(ex), .flags = ibv_wc_read_wc_flags(ex),
			       .stamp = ibv_wc_read_completion_ts(ex)};
}

static SPW_COLD void rx_error(struct verbs_eth_queue *q, const struct rx_one *one)
{
	if (one->status != IBV_WC_WR_FLUSH_ERR)
		spw_thr_count(&q->stat.dropped[one->status == IBV_WC_LOC_LEN_ERR ? SPW_PORT_DROP_too_long
										 : SPW_PORT_DROP_rx_flushed], 1);
	spw_pool_put(q->pool, &one->slot, 1);
	verbs_eth_fault(q, &q->rx_fault, one->status);
}

SPW_INLINE uint16_t rx_body(struct verbs_eth_queue *q, struct spw_desc *desc, uint16_t cnt, const bool extended)
{
	struct rx_poll poll;
	uint64_t bytes = 0;
	uint16_t n = 0;
	bool came;

	if (q->sq_pi != q->sq_ci)
		verbs_eth_reap(q);
	came = poll_first(q, &poll, cnt, extended);
	for (bool more = came; more; more = poll_next(q, &poll, extended)) {
		const struct rx_one one = poll_read(q, &poll, extended);

		q->posted[one.slot] = 0;
		q->recv_out--;
		if (spw_unlikely(one.status != IBV_WC_SUCCESS)) {
			rx_error(q, &one);
			continue;
		}
		desc[n++] = (struct spw_desc){
			.slot = one.slot, .len = one.len, .region = q->region_id, .port = q->port->base.index, .nic_stamp = one.stamp,
			.flags = (uint16_t)((one.flags & IBV_WC_IP_CSUM_OK ? q->csum_flags : 0) | (extended ? SPW_DESC_NIC_STAMP : 0)),
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

static uint16_t rx_extended(void *vq, struct spw_desc *desc, uint16_t cnt)
{
	return rx_body(vq, desc, cnt, true);
}

static uint16_t rx_plain(void *vq, struct spw_desc *desc, uint16_t cnt)
{
	return rx_body(vq, desc, cnt, false);
}

/* Completions that nobody polled go first, for no device promises that a reset takes them along. */
void verbs_eth_rx_home(struct verbs_eth_queue *q)
{
	const bool extended = q->rx.ex;
	struct rx_poll poll;

	while (poll_first(q, &poll, SPW_BURST_MAX, extended))
		for (bool more = true; more; more = poll_next(q, &poll, extended)) {
			const struct rx_one one = poll_read(q, &poll, extended);

			spw_thr_count(&q->stat.dropped[SPW_PORT_DROP_rx_flushed], one.status == IBV_WC_SUCCESS);
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

static void release(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct verbs_eth_queue *q = vq;

	spw_pool_put(q->pool, slot, cnt);
	q->lent_cnt -= cnt;
	if (q->recv_out < q->ring && !q->rx_fault.bad && q->port->started)
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
	int got = ibv_poll_cq(q->tx.cq, SPW_ARRAY_CNT(wc), wc);

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
		verbs_eth_fault(q, &q->tx_fault, wc[i].status);
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
	if (!n || spw_unlikely(q->tx_fault.bad))
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		const struct spw_desc *d = desc[i];
		const uint32_t pos = q->sq_pi + i;

		q->tx_slot[pos & q->sq_mask] = d->slot;
		q->tx_len[pos & q->sq_mask] = d->len;
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)spw_pool_slot_addr(q->pool, d->slot) + d->offset, .length = d->len,
					  .lkey = q->tx_lkey};
		wr[i] = (struct ibv_send_wr){.wr_id = pos, .sg_list = &sge[i], .num_sge = 1, .opcode = IBV_WR_SEND,
					     .send_flags = i + 1 == n ? IBV_SEND_SIGNALED : 0, .next = i + 1 < n ? &wr[i + 1] : NULL};
	}
	if (spw_unlikely(ibv_post_send(q->tx.qp, wr, &bad))) {
		n = (uint16_t)(bad - wr);
		verbs_eth_fault(q, &q->tx_fault, IBV_WC_LOC_QP_OP_ERR); /* the last that went out has no completion: mending brings it home */
	}
	q->sq_pi += n;
	q->lent_cnt -= n;
	return n;
}

void verbs_eth_calls(struct verbs_eth_queue *q, struct spw_port_queue *pq)
{
	*pq = (struct spw_port_queue){.rx_burst = q->rx.ex ? rx_extended : rx_plain, .release_burst = release,
				      .tx_burst = tx, .events = verbs_eth_events,
				      .lend_burst = lend, .q = q, .no_slot = &q->stat.err[SPW_PORT_ERR_no_slot]};
}
