/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC send: messages as far as the peer has granted credits, the credits that we give, and send
 * completions. A message without a credit waits in a list of its peer (verbs_rc_push sends it
 * later). Some entries are signaled; a completion stands for all entries before it.
 *
 *   tx_burst ─► wait list of the peer ─ credit, room ─► send queue ─ completion ─► recycle
 *                    └ peer is lost: flush ─► recycle, counted tx_flushed
 *
 * Everything passes the wait list, even if it can be sent at once: so the order of messages to a
 * peer is the order of tx_burst. VERBS_CTRL_SQE entries of each send queue are reserved for control
 * messages, since credits must flow even when messages fill the queue.
 */
#include <arpa/inet.h>

#include "port/verbs/rc/rc.h"

#define SEND_CHAIN 32u

/* wr_id: the queue's peer in the upper half, the position in the lower. */
static uint64_t verbs_rc_send_id(const struct verbs_rc_queue *q, const struct verbs_rc_peer *p,
				 uint32_t pos)
{
	return (uint64_t)(p - q->peer) << 32 | pos;
}

/* Free entries of the peer's send queue. */
static uint32_t verbs_rc_sq_room(const struct verbs_rc_peer *p)
{
	return p->sq_mask + 1 - (p->sq_pi - p->sq_ci);
}

/* Signals the last entry of a chain, and one in a quarter of the send queue, so that slots and
 * entries return in time. */
static unsigned verbs_rc_signal_flag(struct verbs_rc_peer *p, bool last)
{
	if (!last && p->sq_pi - p->sq_signaled < (p->sq_mask + 1) / 4)
		return 0;
	p->sq_signaled = p->sq_pi;
	return IBV_SEND_SIGNALED;
}

/* ---- messages ---- */

/* op=write: addresses the slot that the peer granted next. Returns: false: its number is out of
 * range. */
static bool verbs_rc_tx_target(struct verbs_rc_peer *p, struct ibv_send_wr *wr)
{
	const struct spw_peer_remote *to = &p->rc->remote;
	const uint32_t n = spw_be32_to_cpu(
		spw_dma_load(&p->rc->ring_in[p->tx.used & (SPW_PEER_CREDIT_MAX - 1)]));

	if (n >= to->credit_cnt)
		return false;
	wr->wr.rdma.remote_addr = to->slot_addr + (uint64_t)n * to->slot_stride;
	wr->wr.rdma.rkey = to->slot_rkey;
	wr->imm_data = htonl(n);
	return true;
}

/* One work request for one message; the immediate is the slot's number (WRITE) or the user's. */
static bool verbs_rc_tx_fill(struct verbs_rc_queue *q, struct verbs_rc_peer *p, uint32_t slot,
			     struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	const struct verbs_slot *s = &q->slot[slot];

	*sge = (struct ibv_sge){.addr = (uintptr_t)spw_pool_slot_addr(q->pool, slot) + s->offset,
				.length = s->len,
				.lkey = p->rc->lkey};
	*wr = (struct ibv_send_wr){.sg_list = sge,
				   .num_sge = 1,
				   .imm_data = htonl(s->imm),
				   .opcode = s->has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND};
	if (q->op == SPW_PEER_OP_SEND)
		return true;
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	return verbs_rc_tx_target(p, wr);
}

/* Unlinks the first message that waits; the list is linked through the slots. */
static uint32_t verbs_rc_take_waiting(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	const uint32_t slot = p->wait_head;

	p->wait_head = q->slot[slot].next;
	if (p->wait_head == VERBS_NONE)
		p->wait_tail = VERBS_NONE;
	return slot;
}

/* A message that will not be sent. */
static void verbs_rc_flush_one(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	const uint32_t slot = verbs_rc_take_waiting(q, p);

	q->tx_cnt--;
	p->tx_to--;
	spw_thr_count(&q->stat.tx_flushed, 1);
	verbs_rc_recycle(q, &slot, 1);
}

/* Sends up to max waiting messages in one call, max <= SEND_CHAIN. Returns: how many were posted.
 */
static uint32_t verbs_rc_push_some(struct verbs_rc_queue *q, struct verbs_rc_peer *p, uint32_t max)
{
	struct ibv_send_wr wr[SEND_CHAIN], *bad = NULL;
	struct ibv_sge sge[SEND_CHAIN];
	uint32_t n = 0;

	while (n < max && p->wait_head != VERBS_NONE) {
		const uint32_t slot = p->wait_head;

		if (spw_unlikely(
			    q->slot[slot].len >
			    p->rc->remote.slot_bytes)) { /* accepted before the limit was known */
			verbs_rc_flush_one(q, p);
			continue;
		}
		if (!verbs_rc_tx_fill(q, p, slot, &wr[n], &sge[n])) {
			verbs_rc_fault(p, SPW_PEER_WHY_PROTOCOL, 0);
			break;
		}
		verbs_rc_take_waiting(q, p);
		p->tx.used++;
		p->sq_slot[p->sq_pi & p->sq_mask] = slot;
		wr[n].wr_id = verbs_rc_send_id(q, p, p->sq_pi);
		wr[n].send_flags =
			verbs_rc_signal_flag(p, n + 1 == max || p->wait_head == VERBS_NONE);
		p->sq_pi++;
		if (n)
			wr[n - 1].next = &wr[n];
		n++;
	}
	if (!n)
		return 0;
	q->sqe_out += n;
	if (spw_unlikely(ibv_post_send(p->qp, wr, &bad))) {
		const uint32_t lost = n - (uint32_t)(bad - wr);

		/* These were not posted: return their slots, and end the connection. */
		for (uint32_t i = 0; i < lost; i++) {
			uint32_t slot = p->sq_slot[--p->sq_pi & p->sq_mask];

			q->tx_cnt--;
			p->tx_to--;
			spw_thr_count(&q->stat.tx_flushed, 1);
			verbs_rc_fault(p, SPW_PEER_WHY_QP_ERROR, IBV_WC_LOC_QP_OP_ERR);
			verbs_rc_recycle(q, &slot, 1);
		}
		q->sqe_out -= lost;
		return n - lost;
	}
	return n;
}

/* Three limits: credits, room in the send queue beyond the reserve, and the length of one chain. */
void verbs_rc_push(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	while (p->wait_head != VERBS_NONE && p->side == SPW_PEER_SIDE_UP &&
	       spw_peer_state(p->rc) == SPW_PEER_UP) {
		const uint32_t room = verbs_rc_sq_room(p);
		uint32_t max = SPW_MIN(spw_peer_tx_credit_left(&p->tx), SEND_CHAIN);

		max = SPW_MIN(max, room > VERBS_CTRL_SQE ? room - VERBS_CTRL_SQE : 0);
		if (!max || !verbs_rc_push_some(q, p, max))
			return;
	}
}

/* The slot changes from lent to TX here: from now on it is the driver's. */
static void verbs_rc_wait_in_line(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				  const struct spw_desc *d)
{
	struct verbs_slot *s = &q->slot[d->slot];

	p->tx_to++;
	s->where = VERBS_TX;
	s->next = VERBS_NONE;
	s->offset = d->offset;
	s->len = d->len;
	s->imm = d->meta;
	s->has_imm = (d->flags & SPW_DESC_IMM) != 0;
	if (p->wait_tail == VERBS_NONE)
		p->wait_head = d->slot;
	else
		q->slot[p->wait_tail].next = d->slot;
	p->wait_tail = d->slot;
	q->tx_cnt++;
	q->lent_cnt--;
}

/* The peer that a descriptor names; NULL: it is not live. A POSTED peer may have sent already, and
 * its echoes wait. */
static struct verbs_rc_peer *verbs_rc_to_peer(struct verbs_rc_queue *q, const struct spw_desc *d)
{
	const uint32_t n = d->peer / q->port->peers.base.queue_cnt;
	struct verbs_rc_peer *p =
		n < q->peer_cnt && d->peer % q->port->peers.base.queue_cnt == q->index ? &q->peer[n]
										       : NULL;

	return p && verbs_rc_is_live(p) ? p : NULL;
}

uint16_t verbs_rc_tx(void *vq, struct spw_desc **desc, uint16_t cnt)
{
	struct verbs_rc_queue *q = vq;
	struct verbs_rc_peer *p, *last = NULL;
	uint16_t taken = 0;

	verbs_rc_reap(q);
	for (uint16_t i = 0; i < cnt; i++) {
		struct spw_desc *d = desc[i];

		p = verbs_rc_to_peer(q, d);
		if (!p || d->len == 0 ||
		    (p->side == SPW_PEER_SIDE_UP && d->len > p->rc->remote.slot_bytes))
			continue;
		if (last && last != p)
			verbs_rc_push(q, last);
		last = p;
		verbs_rc_wait_in_line(q, p, d);
		desc[i] = desc[taken]; /* accepted ones move to the front, in order */
		desc[taken++] = d;
	}
	if (last)
		verbs_rc_push(q, last);
	if (spw_unlikely(taken < cnt))
		spw_thr_count(&q->stat.err[SPW_PORT_ERR_no_credit], cnt - taken);
	return taken;
}

void verbs_rc_flush(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	while (p->wait_head != VERBS_NONE)
		verbs_rc_flush_one(q, p);
}

/* ---- credits ---- */

/* Writes grants to the peer's ring, as many as are contiguous at both ends. Returns: entries. */
static uint32_t verbs_rc_write_grants(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				      uint32_t from, uint32_t cnt)
{
	const struct spw_peer_remote *to = &p->rc->remote;
	const uint32_t at = from & (SPW_PEER_CREDIT_MAX - 1), there = from & (to->ring_cnt - 1);
	uint32_t n = SPW_MIN(cnt, SPW_MIN(SPW_PEER_CREDIT_MAX - at, to->ring_cnt - there));
	struct ibv_sge sge = {.addr = (uintptr_t)&p->rc->ring_out[at],
			      .length = n * 4,
			      .lkey = p->rc->ring_out_lkey};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = verbs_rc_send_id(q, p, p->sq_pi),
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = verbs_rc_signal_flag(p, false),
					 .wr.rdma = {.remote_addr = to->ring_addr + 4ull * there,
						     .rkey = to->ring_rkey},
				 };

	if (ibv_post_send(p->qp, &wr, &bad)) {
		verbs_rc_fault(p, SPW_PEER_WHY_QP_ERROR, IBV_WC_LOC_QP_OP_ERR);
		return 0;
	}
	p->sq_slot[p->sq_pi++ & p->sq_mask] = VERBS_NONE;
	q->sqe_out++;
	for (uint32_t i = 0; i < n; i++)
		p->granted[spw_be32_to_cpu(p->rc->ring_out[at + i])] = 1;
	return n;
}

/* Writes the grants (op=write), then sends the control message that counts them. */
static void verbs_rc_send_credits(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	const uint32_t count = p->rx.returned;
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(count)};

	for (uint32_t from = p->rx.advertised; q->op == SPW_PEER_OP_WRITE && from != count;) {
		uint32_t n = verbs_rc_write_grants(q, p, from, count - from);

		if (!n)
			return;
		from += n;
	}
	wr.wr_id = verbs_rc_send_id(q, p, p->sq_pi);
	wr.send_flags = verbs_rc_signal_flag(p, false);
	if (ibv_post_send(p->qp, &wr, &bad)) {
		verbs_rc_fault(p, SPW_PEER_WHY_QP_ERROR, IBV_WC_LOC_QP_OP_ERR);
		return;
	}
	p->sq_slot[p->sq_pi++ & p->sq_mask] = VERBS_NONE;
	q->sqe_out++;
	p->rx.advertised = count;
}

void verbs_rc_greet(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	verbs_rc_send_credits(q, p);
}

void verbs_rc_send_due_credits(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	if (!spw_peer_rx_credit_due(&p->rx) || p->side != SPW_PEER_SIDE_UP ||
	    spw_peer_state(p->rc) != SPW_PEER_UP || verbs_rc_sq_room(p) < VERBS_CTRL_SQE)
		return;
	verbs_rc_send_credits(q, p);
}

/* Unsignaled entries that completed before the QP failed are not reported by the flush. The marker
 * is: its completion stands for all entries before it. */
void verbs_rc_mark_end(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	struct ibv_send_wr *bad, wr = {.wr_id = verbs_rc_send_id(q, p, p->sq_pi),
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	if (p->sq_pi == p->sq_ci || ibv_post_send(p->qp, &wr, &bad))
		return;
	p->sq_slot[p->sq_pi++ & p->sq_mask] = VERBS_NONE;
	q->sqe_out++;
}

/* ---- completions ---- */

/* Completes up to SPW_BURST_MAX entries, not beyond pos. */
static void verbs_rc_tx_done_some(struct verbs_rc_queue *q, struct verbs_rc_peer *p, uint32_t pos,
				  bool sent)
{
	uint32_t slot[SPW_BURST_MAX], n = 0;
	uint64_t bytes = 0;

	for (; p->sq_ci != pos + 1 && n < SPW_BURST_MAX; p->sq_ci++) {
		slot[n] = p->sq_slot[p->sq_ci & p->sq_mask];
		q->sqe_out--;
		if (slot[n] != VERBS_NONE)
			bytes += q->slot[slot[n++]].len;
	}
	q->tx_cnt -= n;
	p->tx_to -= n;
	spw_thr_count(sent ? &q->stat.tx_frames : &q->stat.tx_flushed, n);
	spw_thr_count(&q->stat.tx_bytes, sent ? bytes : 0);
	verbs_rc_recycle(q, slot, n);
}

/* In steps of a burst, so that the array of slots stays on the stack. */
static void verbs_rc_tx_done(struct verbs_rc_queue *q, struct verbs_rc_peer *p, uint32_t pos,
			     bool sent)
{
	while (p->sq_ci != pos + 1)
		verbs_rc_tx_done_some(q, p, pos, sent);
}

/* An error completion: the unsignaled entries before it were sent; the entry itself was not. In a
 * flush that is unknown, so all of them count as flushed. */
static SPW_COLD void verbs_rc_tx_error(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				       const struct ibv_wc *wc, uint32_t pos)
{
	if (wc->status != IBV_WC_WR_FLUSH_ERR) {
		spw_thr_count(&q->stat.err[SPW_PORT_ERR_cqe_error], 1);
		spw_thr_count(&q->status[wc->status % SPW_ARRAY_CNT(q->status)], 1);
		verbs_rc_tx_done(q, p, pos - 1, true);
	}
	verbs_rc_fault(p, SPW_PEER_WHY_QP_ERROR, wc->status);
	verbs_rc_tx_done(q, p, pos, false);
}

void verbs_rc_lost(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	if (p->sq_ci != p->sq_pi)
		verbs_rc_tx_done(q, p, p->sq_pi - 1, false);
	p->recv_out = 0;
	for (uint32_t i = 0; i < p->cnt && !q->srq; i++)
		if (q->slot[p->first + i].where == VERBS_POSTED)
			q->slot[p->first + i].where = VERBS_FREE;
}

void verbs_rc_reap(struct verbs_rc_queue *q)
{
	struct ibv_wc wc[16];
	int got = ibv_poll_cq(q->tx_cq, SPW_ARRAY_CNT(wc), wc);

	for (int i = 0; i < got; i++) {
		struct verbs_rc_peer *p = &q->peer[wc[i].wr_id >> 32];
		const uint32_t pos = (uint32_t)wc[i].wr_id;

		if (spw_unlikely(pos - p->sq_ci >= p->sq_pi - p->sq_ci))
			continue; /* must not happen: no such entry is posted */
		if (spw_unlikely(wc[i].status != IBV_WC_SUCCESS)) {
			verbs_rc_tx_error(q, p, &wc[i], pos);
			continue;
		}
		verbs_rc_tx_done(q, p, pos, true);
		verbs_rc_send_due_credits(q, p);
		verbs_rc_push(q, p);
	}
}
