/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC receive: completions become descriptors, control messages become credits. What a burst and the
 * releases before it have freed is posted again, in chains of one peer. An error or a breach of the
 * protocol ends its own peer only (port_rc_break); port/rc_turn.c reports it.
 *
 *   ibv_poll_cq ─┬─ error      peer BROKEN, its receive returns
 *                ├─ 0 bytes    control message: credits
 *                └─ message    credit and slot checked ─► lent
 *   settle       receives posted ─► messages that waited, credits that are due
 */
#include <arpa/inet.h>
#include <string.h>

#include "port/rc_inline.h"
#include "port/verbs/rc/rc.h"

#define RECV_CHAIN 32u

/* ---- posting receives ---- */

/* wr_id: the queue's peer in the upper half, the slot in the lower. */
static uint64_t verbs_rc_recv_id(const struct verbs_rc_queue *q, const struct verbs_rc_peer *p,
				 uint32_t slot)
{
	return (uint64_t)(p - verbs_rc_peer_at(q, 0)) << 32 | slot;
}

/* What was posted is the device's. An SRQ completes in any order, so its slots are marked. */
static void verbs_rc_posted(struct verbs_rc_queue *q, struct port_rc_peer *p, const uint32_t *slot,
			    uint32_t cnt)
{
	const bool write = q->rc.flags & PORT_RC_WRITE;

	q->rc.srq_posted += q->srq ? cnt : 0;
	for (uint32_t i = 0; i < cnt && !write && q->srq; i++)
		q->rc.slot_state[slot[i]] = PORT_RC_GRANTED;
	for (uint32_t i = 0; i < cnt && !q->srq; i++)
		p->slot_of[p->rq_pi++ & p->rq_mask] = write ? PORT_RC_NO_SLOT : slot[i];
}

/* The device has finished with a receive. */
static void verbs_rc_completed(struct verbs_rc_queue *q, struct port_rc_peer *p, uint32_t slot)
{
	if (!q->srq) {
		p->rq_ci++;
		return;
	}
	q->rc.srq_posted--;
	if (!(q->rc.flags & PORT_RC_WRITE))
		q->rc.slot_state[slot] = PORT_RC_FREE;
}

/* Posts cnt receives in one call; op=write: without SGE. Returns: how many were posted. */
static uint32_t verbs_rc_post_chain(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				    const uint32_t *slot, uint32_t cnt)
{
	const bool write = q->rc.flags & PORT_RC_WRITE;
	struct ibv_recv_wr wr[RECV_CHAIN], *bad = NULL;
	struct ibv_sge sge[RECV_CHAIN];
	int error;

	for (uint32_t i = 0; i < cnt; i++) {
		const uint32_t id = write ? PORT_RC_NO_SLOT : slot[i];

		if (!write)
			sge[i] = (struct ibv_sge){
				.addr = (uintptr_t)spw_pool_slot_addr(q->rc.pool, id),
				.length = q->rc.room_bytes,
				.lkey = q->srq ? q->rc.lkey : p->rc.lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = verbs_rc_recv_id(q, p, id),
					     .sg_list = write ? NULL : &sge[i],
					     .num_sge = !write,
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL};
	}
	error = q->srq ? ibv_post_srq_recv(q->srq, wr, &bad) : ibv_post_recv(p->qp, wr, &bad);
	if (spw_unlikely(error)) {
		cnt = (uint32_t)(bad - wr);
		port_rc_break(&q->rc, &p->rc, SPW_PEER_WHY_QP_ERROR, IBV_WC_LOC_QP_OP_ERR);
	}
	verbs_rc_posted(q, &p->rc, slot, cnt);
	return cnt;
}

/* Posts what the stack has, last in first out; op=write: what the queue takes. */
static void verbs_rc_post(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
			  struct port_rc_stack *stack, uint32_t room)
{
	const bool write = q->rc.flags & PORT_RC_WRITE;

	for (;;) {
		uint32_t n = SPW_MIN(SPW_MIN(room, RECV_CHAIN), write ? room : stack->cnt),
			 slot[RECV_CHAIN];

		for (uint32_t i = 0; i < n && !write; i++)
			slot[i] = stack->slot[stack->cnt - 1 - i];
		if (!n || !(n = verbs_rc_post_chain(q, p, slot, n)))
			return;
		room -= n;
		stack->cnt -= write ? 0 : n;
	}
}

/* Shared receives are posted for nobody: they name the first peer. */
void verbs_rc_settle(struct port_rc_queue *rc)
{
	struct verbs_rc_queue *q = verbs_rc_queue_of(rc);

	if (q->srq && rc->srq_posted < q->srq_cnt)
		verbs_rc_post(q, verbs_rc_peer_at(q, 0), &rc->stack, q->srq_cnt - rc->srq_posted);
	for (uint32_t i = 0; i < rc->todo_cnt && !q->srq; i++) {
		struct port_rc_peer *p = rc->todo[i];

		if (port_rc_is_live(p))
			verbs_rc_post(q, verbs_rc_peer_of(p), &p->own,
				      p->credits + SPW_PEER_CTRL_RESERVE - (p->rq_pi - p->rq_ci));
	}
	port_rc_serve(rc, verbs_rc_send_waiting, verbs_rc_grant);
}

void verbs_rc_srq_empty(struct port_rc_queue *rc)
{
	for (uint32_t slot = 0; slot < rc->pool->slot_cnt; slot++)
		if (rc->slot_state[slot] == PORT_RC_GRANTED) {
			rc->slot_state[slot] = PORT_RC_FREE;
			rc->stack.slot[rc->stack.cnt++] = slot;
		}
	rc->srq_posted = 0;
}

/* ---- completions ---- */

/* A shared receive belongs to the peer whose QP it completed on. */
static struct verbs_rc_peer *verbs_rc_peer_of_wc(const struct verbs_rc_queue *q,
						 const struct ibv_wc *wc)
{
	for (uint32_t i = 0; i < q->rc.peer_cnt && q->srq; i++)
		if (verbs_rc_peer_at(q, i)->qpn == wc->qp_num)
			return verbs_rc_peer_at(q, i);
	return verbs_rc_peer_at(q, (uint32_t)(wc->wr_id >> 32));
}

/* A message longer than the slot is a breach by the peer; all else is an error of the device. */
static SPW_COLD void verbs_rc_rx_error(struct verbs_rc_queue *q, struct port_rc_peer *p,
				       const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		port_rc_count_cqe_error(&q->rc, wc->status);
	port_rc_break(&q->rc, p,
		      wc->status == IBV_WC_LOC_LEN_ERR ? SPW_PEER_WHY_PROTOCOL
						       : SPW_PEER_WHY_QP_ERROR,
		      wc->status);
	port_rc_rx_unused(&q->rc, p, (uint32_t)wc->wr_id);
}

/* Whether a completion is a message that the peer may have sent. Returns: false: its receive is
 * unused. op=write: *slot is that of the immediate. */
static bool verbs_rc_rx_takes(struct verbs_rc_queue *q, struct port_rc_peer *p,
			      const struct ibv_wc *wc, uint32_t *slot)
{
	const uint32_t imm = wc->wc_flags & IBV_WC_WITH_IMM ? ntohl(wc->imm_data) : 0;
	const bool with_imm = wc->wc_flags & IBV_WC_WITH_IMM,
		   write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;

	if (!write && with_imm && wc->byte_len == 0) {
		port_rc_rx_control(&q->rc, p, imm);
		return false;
	}
	if (spw_unlikely(p->side == SPW_PEER_SIDE_BROKEN)) {
		port_rc_count_drop(&q->rc, SPW_PORT_DROP_rx_flushed, 1);
		return false;
	}
	if (spw_unlikely(write != !!(q->rc.flags & PORT_RC_WRITE)))
		return port_rc_breach(&q->rc, p);
	if (!write)
		return port_rc_rx_sent(&q->rc, p, *slot, wc->byte_len, q->rc.flags) ||
		       port_rc_breach(&q->rc, p);
	return port_rc_rx_written(&q->rc, p, imm, wc->byte_len, slot) || port_rc_breach(&q->rc, p);
}

/* One completion. Returns: true if *desc is filled. */
static bool verbs_rc_rx_one(struct verbs_rc_queue *q, const struct ibv_wc *wc,
			    struct spw_desc *desc)
{
	struct port_rc_peer *p = &verbs_rc_peer_of_wc(q, wc)->rc;
	const bool imm = !(q->rc.flags & PORT_RC_WRITE) && wc->wc_flags & IBV_WC_WITH_IMM;
	uint32_t slot = (uint32_t)wc->wr_id;

	verbs_rc_completed(q, p, slot);
	port_rc_enlist(&q->rc, p);
	if (spw_unlikely(wc->status != IBV_WC_SUCCESS)) {
		verbs_rc_rx_error(q, p, wc);
		return false;
	}
	if (!verbs_rc_rx_takes(q, p, wc, &slot)) {
		port_rc_rx_unused(&q->rc, p, slot);
		return false;
	}
	*desc = (struct spw_desc){
		.slot = slot,
		.len = wc->byte_len,
		.meta = imm ? ntohl(wc->imm_data) : 0,
		.peer = p->index,
		.flags = SPW_DESC_MSG | (imm ? SPW_DESC_IMM : 0),
		.region = q->rc.pool->region->id,
		.port = q->rc.port->base.index,
	};
	return true;
}

/* Completions that has_unread looked at come first. */
static uint32_t verbs_rc_poll(struct verbs_rc_queue *q, struct ibv_wc *wc, uint32_t cnt)
{
	const uint32_t n = SPW_MIN(cnt, q->held);
	int got;

	if (spw_unlikely(n)) {
		memcpy(wc, &q->wc[q->held_at], n * sizeof(*wc));
		q->held -= n;
		q->held_at += n;
		return n;
	}
	got = ibv_poll_cq(q->rx_cq, (int)cnt, wc);
	return got > 0 ? (uint32_t)got : 0;
}

/* Takes all send completions, and looks at the receive CQ without taking: what it polls is held for
 * the next burst. As many of others as it can hold may hide one of this peer's. */
bool verbs_rc_has_unread(struct port_rc_queue *rc, struct port_rc_peer *peer)
{
	struct verbs_rc_queue *q = verbs_rc_queue_of(rc);
	int got;

	verbs_rc_reap_all(rc);
	memmove(q->wc, &q->wc[q->held_at], q->held * sizeof(*q->wc));
	q->held_at = 0;
	got = ibv_poll_cq(q->rx_cq, (int)(SPW_BURST_MAX - q->held), &q->wc[q->held]);
	q->held += got > 0 ? (uint32_t)got : 0;
	for (uint32_t i = 0; i < q->held; i++)
		if (q->wc[i].qp_num == verbs_rc_peer_of(peer)->qpn)
			return true;
	return q->held == SPW_BURST_MAX;
}

uint16_t verbs_rc_rx(void *vq, struct spw_desc *desc, uint16_t cnt)
{
	struct verbs_rc_queue *q = vq;
	struct ibv_wc wc[SPW_BURST_MAX];
	uint64_t bytes = 0;
	uint32_t got;
	uint16_t n = 0;

	if (q->rc.in_tx_cnt)
		verbs_rc_reap(&q->rc);
	got = verbs_rc_poll(q, wc, cnt); /* its own acquire orders the payload */
	for (uint32_t i = 0; i < got; i++)
		if (verbs_rc_rx_one(q, &wc[i], &desc[n]))
			bytes += desc[n++].len;
	if (got || q->rc.todo_cnt)
		verbs_rc_settle(&q->rc);
	q->rc.lent_cnt += n;
	spw_thr_count(&q->rc.stat.rx_frames, n);
	spw_thr_count(&q->rc.stat.rx_bytes, bytes);
	return n;
}
