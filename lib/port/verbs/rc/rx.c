/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC receive: completions become descriptors, control messages become credits. Released slots are
 * posted or granted again. An error or a breach of the protocol ends its own peer only
 * (verbs_rc_fault); turn.c reports it.
 *
 *   ibv_poll_cq ─┬─ error      peer BROKEN, its receive returns
 *                ├─ 0 bytes    control message: credits ─► messages that waited are sent
 *                └─ message    credit and slot checked ─► lent
 *   release      op=send: posted again, in chains of one peer      op=write: granted again
 *                slots of no peer: to the pool
 */
#include <arpa/inet.h>
#include <errno.h>

#include "port/verbs/rc/rc.h"

#define RECV_CHAIN 32u

/* The first reason counts. Nothing is sent or posted for the peer from here on. */
void verbs_rc_fault(struct verbs_rc_peer *p, enum spw_peer_why why, uint32_t code)
{
	if (!verbs_rc_is_live(p))
		return;
	p->side = SPW_PEER_SIDE_BROKEN;
	p->why = why;
	p->code = code;
}

/* ---- posting receives ---- */

/* wr_id: the queue's peer in the upper half, the slot (or VERBS_NONE) in the lower. */
static uint64_t verbs_rc_recv_id(uint32_t peer, uint32_t slot)
{
	return (uint64_t)peer << 32 | slot;
}

/* Posts cnt receives in one call; slot NULL: without SGE. Returns: how many were posted. */
static uint32_t verbs_rc_post_chain(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				    const uint32_t *slot, uint32_t cnt)
{
	struct ibv_recv_wr wr[RECV_CHAIN], *bad = NULL;
	struct ibv_sge sge[RECV_CHAIN];
	int error;

	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t id = slot ? slot[i] : VERBS_NONE;

		if (slot)
			sge[i] = (struct ibv_sge){
				.addr = (uintptr_t)spw_pool_slot_addr(q->pool, id),
				.length = (uint32_t)SPW_MIN(q->pool->slot_bytes, SPW_DESC_LEN_MAX),
				.lkey = p->rc->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = verbs_rc_recv_id((uint32_t)(p - q->peer), id),
					     .sg_list = slot ? &sge[i] : NULL,
					     .num_sge = slot != NULL,
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL};
	}
	error = q->srq ? ibv_post_srq_recv(q->srq, wr, &bad) : ibv_post_recv(p->qp, wr, &bad);
	if (spw_unlikely(error)) {
		cnt = (uint32_t)(bad - wr);
		verbs_rc_fault(p, SPW_PEER_WHY_QP_ERROR, IBV_WC_LOC_QP_OP_ERR);
	}
	if (!q->srq)
		p->recv_out += cnt;
	for (uint32_t i = 0; i < cnt && slot; i++)
		q->slot[slot[i]].where = VERBS_POSTED;
	return cnt;
}

/* op=write: posts again what immediates and control messages consumed. */
static void verbs_rc_post_due(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	while (p->recv_due && (q->srq || verbs_rc_is_live(p))) {
		uint32_t n = SPW_MIN(p->recv_due, RECV_CHAIN);

		if (verbs_rc_post_chain(q, p, NULL, n) != n)
			return;
		p->recv_due -= n;
	}
}

/* Before a connection: slots that are lent still are posted when they are released. */
static int verbs_rc_post_slots(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	uint32_t slot[RECV_CHAIN], n = 0;

	for (uint32_t i = 0; i < p->cnt; i++) {
		if (q->slot[p->first + i].where == VERBS_FREE)
			slot[n++] = p->first + i;
		if (n == RECV_CHAIN || (n && i + 1 == p->cnt)) {
			if (verbs_rc_post_chain(q, p, slot, n) != n)
				return -EIO;
			n = 0;
		}
	}
	return 0;
}

int verbs_rc_post_all(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	if (q->op == SPW_PEER_OP_SEND)
		return verbs_rc_post_slots(q, p);
	p->recv_due = p->rc->recv_cnt;
	verbs_rc_post_due(q, p);
	return p->recv_due ? -EIO : 0;
}

/* ---- returned slots ---- */

/* Slots of one peer that are posted together. */
struct again {
	struct verbs_rc_peer *peer;
	uint32_t slot[RECV_CHAIN], cnt;
};

/* A receive that is posted again is a credit that may be advertised again; of a peer that is gone,
 * only the slot returns to the SRQ. */
static void verbs_rc_post_again(struct verbs_rc_queue *q, struct again *a)
{
	struct verbs_rc_peer *p = a->peer;
	const bool live = verbs_rc_is_live(p);
	const uint32_t n = verbs_rc_post_chain(q, p, a->slot, a->cnt);

	p->rx.returned += live ? n : 0;
	a->cnt = 0;
}

/* op=send: an SRQ serves all peers, so its slots are posted again whatever the state of this one.
 */
static void verbs_rc_receive_again(struct verbs_rc_queue *q, struct again *a,
				   struct verbs_rc_peer *p, uint32_t slot)
{
	if (!q->srq && !verbs_rc_is_live(p))
		return;
	if (a->cnt && (a->peer != p || a->cnt == RECV_CHAIN))
		verbs_rc_post_again(q, a);
	a->peer = p;
	a->slot[a->cnt++] = slot;
}

/* op=write: grants the slot again, if the peer is live. */
static void verbs_rc_grant_again(struct verbs_rc_queue *q, struct verbs_rc_peer *p, uint32_t slot)
{
	if (!verbs_rc_is_live(p))
		return;
	q->slot[slot].where = VERBS_POSTED;
	p->rc->ring_out[p->rx.returned++ & (SPW_PEER_CREDIT_MAX - 1)] =
		spw_cpu_to_be32(slot - p->first);
}

void verbs_rc_recycle(struct verbs_rc_queue *q, const uint32_t *slot, uint32_t cnt)
{
	struct again again = {.cnt = 0};

	for (uint32_t i = 0; i < cnt; i++) {
		struct verbs_slot *s = &q->slot[slot[i]];

		if (s->peer == VERBS_NO_PEER) {
			s->where = VERBS_POOL;
			spw_pool_put(q->pool, &slot[i], 1);
			continue;
		}
		q->peer[s->peer].out--;
		s->where = VERBS_FREE;
		if (q->op == SPW_PEER_OP_SEND)
			verbs_rc_receive_again(q, &again, &q->peer[s->peer], slot[i]);
		else
			verbs_rc_grant_again(q, &q->peer[s->peer], slot[i]);
	}
	if (again.cnt)
		verbs_rc_post_again(q, &again);
}

/* Control messages are sent after all slots are back, once per run of slots of the same peer. */
void verbs_rc_release(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct verbs_rc_queue *q = vq;
	uint16_t last = VERBS_NO_PEER;

	verbs_rc_recycle(q, slot, cnt);
	for (uint16_t i = 0; i < cnt; i++) {
		const uint16_t peer = q->slot[slot[i]].peer;

		if (peer != VERBS_NO_PEER && peer != last)
			verbs_rc_send_due_credits(q, &q->peer[peer]);
		last = peer;
	}
	q->lent_cnt -= cnt;
}

uint16_t verbs_rc_lend(void *vq, uint32_t *slot, uint16_t cnt)
{
	struct verbs_rc_queue *q = vq;
	uint32_t n = spw_pool_get(q->pool, slot, cnt);

	for (uint32_t i = 0; i < n; i++)
		q->slot[slot[i]].where = VERBS_LENT;
	q->lent_cnt += n;
	return (uint16_t)n;
}

/* ---- completions ---- */

static struct verbs_rc_peer *verbs_rc_peer_of(struct verbs_rc_queue *q, const struct ibv_wc *wc)
{
	if (!q->srq)
		return &q->peer[wc->wr_id >> 32];
	for (uint32_t i = 0; i < q->peer_cnt; i++)
		if (q->by_qpn[i] == wc->qp_num)
			return &q->peer[i];
	return &q->peer[wc->wr_id >> 32]; /* must not happen; any peer serves to recycle the slot */
}

/* op=send: a receive completed without a message: posts it again. */
static void verbs_rc_repost(struct verbs_rc_queue *q, struct verbs_rc_peer *p, uint32_t slot)
{
	q->slot[slot].where = VERBS_FREE;
	if (q->srq || verbs_rc_is_live(p))
		verbs_rc_post_chain(q, p, &slot, 1);
}

/* A receive completed without a message, in either mode. */
static void verbs_rc_rx_unused(struct verbs_rc_queue *q, struct verbs_rc_peer *p, uint32_t slot)
{
	if (slot != VERBS_NONE)
		verbs_rc_repost(q, p, slot);
	else
		p->recv_due++;
}

static SPW_COLD void verbs_rc_rx_error(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				       const struct ibv_wc *wc, uint32_t slot)
{
	if (wc->status != IBV_WC_WR_FLUSH_ERR) {
		spw_thr_count(&q->stat.err[SPW_PORT_ERR_cqe_error], 1);
		spw_thr_count(&q->status[wc->status % SPW_ARRAY_CNT(q->status)], 1);
		/* A message longer than the slot is a breach by the peer; all else is an error of
		 * the device. */
		verbs_rc_fault(p,
			       wc->status == IBV_WC_LOC_LEN_ERR ? SPW_PEER_WHY_PROTOCOL
								: SPW_PEER_WHY_QP_ERROR,
			       wc->status);
	} else {
		verbs_rc_fault(p, SPW_PEER_WHY_QP_ERROR, wc->status);
	}
	verbs_rc_rx_unused(q, p, slot);
}

/* A control message has no payload; its immediate is the peer's cumulative count of credits.
 * Messages that waited for them leave at once. */
static void verbs_rc_rx_control(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				const struct ibv_wc *wc, uint32_t slot)
{
	if (p->side != SPW_PEER_SIDE_BROKEN &&
	    (!(wc->wc_flags & IBV_WC_WITH_IMM) ||
	     !spw_peer_tx_credit_take(&p->tx, ntohl(wc->imm_data))))
		verbs_rc_fault(p, SPW_PEER_WHY_PROTOCOL, 0);
	verbs_rc_rx_unused(q, p, slot);
	verbs_rc_push(q, p);
}

/* A message of a peer that is no longer trusted: its slot returns, the message is counted. */
static SPW_COLD bool verbs_rc_rx_drop(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				      uint32_t slot)
{
	spw_thr_count(&q->stat.dropped[SPW_PORT_DROP_rx_flushed], 1);
	verbs_rc_rx_unused(q, p, slot);
	return false;
}

/* op=write: the slot that the immediate names, if the peer may have written there. */
static bool verbs_rc_written_slot(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				  const struct ibv_wc *wc, uint32_t *slot_out)
{
	const uint32_t n = ntohl(wc->imm_data);

	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || n >= p->cnt || !p->granted[n] ||
	    wc->byte_len > q->pool->slot_bytes)
		return false;
	p->granted[n] = 0;
	*slot_out = p->first + n;
	return true;
}

/* One message. Returns: true if *desc is filled. */
static bool verbs_rc_rx_message(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				const struct ibv_wc *wc, uint32_t slot, struct spw_desc *desc)
{
	const bool is_write = q->op == SPW_PEER_OP_WRITE;

	if (spw_unlikely(p->side == SPW_PEER_SIDE_BROKEN))
		return verbs_rc_rx_drop(q, p, slot);
	if (spw_unlikely(wc->byte_len == 0 || !spw_peer_rx_credit_take(&p->rx) ||
			 (is_write && !verbs_rc_written_slot(q, p, wc, &slot)))) {
		verbs_rc_fault(p, SPW_PEER_WHY_PROTOCOL, wc->opcode);
		return verbs_rc_rx_drop(q, p, is_write ? VERBS_NONE : slot);
	}
	if (is_write)
		p->recv_due++;
	q->slot[slot].where = VERBS_LENT;
	q->slot[slot].peer = (uint16_t)(p - q->peer);
	p->out++;
	*desc = (struct spw_desc){
		.slot = slot,
		.len = wc->byte_len,
		.meta = !is_write && (wc->wc_flags & IBV_WC_WITH_IMM) ? ntohl(wc->imm_data) : 0,
		.peer = p->rc->index,
		.flags = SPW_DESC_MSG |
			 (!is_write && (wc->wc_flags & IBV_WC_WITH_IMM) ? SPW_DESC_IMM : 0),
		.region = q->region_id,
		.port = q->port->peers.base.index,
	};
	return true;
}

/* A poll that returns fewer than it asked for has emptied the CQ: turn.c counts those to know when
 * an SRQ holds nothing of a broken peer any more. */
uint16_t verbs_rc_rx(void *vq, struct spw_desc *desc, uint16_t cnt)
{
	struct verbs_rc_queue *q = vq;
	struct ibv_wc wc[SPW_BURST_MAX];
	uint64_t bytes = 0;
	uint16_t n = 0;
	int got;

	if (q->sqe_out)
		verbs_rc_reap(q);
	got = ibv_poll_cq(q->rx_cq, cnt, wc); /* its own acquire orders the payload */
	q->empty_polls += got < cnt;
	for (int i = 0; i < got; i++) {
		const uint32_t slot = (uint32_t)wc[i].wr_id;
		struct verbs_rc_peer *p = verbs_rc_peer_of(q, &wc[i]);

		if (!q->srq)
			p->recv_out--;
		if (spw_unlikely(wc[i].status != IBV_WC_SUCCESS))
			verbs_rc_rx_error(q, p, &wc[i], slot);
		else if (wc[i].opcode == IBV_WC_RECV && wc[i].byte_len == 0)
			verbs_rc_rx_control(q, p, &wc[i], slot);
		else if (verbs_rc_rx_message(q, p, &wc[i], slot, &desc[n]))
			bytes += desc[n++].len;
	}
	if (got > 0 && q->op == SPW_PEER_OP_WRITE)
		for (uint32_t i = 0; i < q->peer_cnt; i++)
			if (q->peer[i].recv_due)
				verbs_rc_post_due(q, &q->peer[i]);
	q->lent_cnt += n;
	spw_thr_count(&q->stat.rx_frames, n);
	spw_thr_count(&q->stat.rx_bytes, bytes);
	return n;
}
