/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC send: messages as far as the peer has granted credits, the credits that we give, and send
 * completions. Some entries are signaled; a completion stands for all entries before it.
 *
 *   tx_burst ─► the peer's ring of waiting messages ─ credit, room ─► send queue ─ completion ─►
 * slot
 *
 * Everything passes that ring, even if it can be sent at once: so the order of messages to a peer
 * is the order of tx_burst, and one call posts a chain of them.
 */
#include <arpa/inet.h>

#include "port/rc_inline.h"
#include "port/verbs/rc/rc.h"

#define SEND_CHAIN 32u
#define REAP_MAX   16

/* wr_id: the queue's peer in the upper half, the position in the lower. */
static uint64_t verbs_rc_send_id(const struct verbs_rc_queue *q, const struct verbs_rc_peer *p,
				 uint32_t pos)
{
	return (uint64_t)(p - verbs_rc_peer_at(q, 0)) << 32 | pos;
}

/* Signals one entry in a quarter of the send queue, so that slots and entries return in time; the
 * last entry of a chain of messages is signaled as well. */
static unsigned verbs_rc_signal_flag(struct port_rc_peer *p)
{
	if (p->sq_pi - p->sq_signal < p->sq_limit / 4)
		return 0;
	p->sq_signal = p->sq_pi + 1;
	return IBV_SEND_SIGNALED;
}

/* ---- messages ---- */

/* One work request for the message w; the immediate is the slot's number (WRITE) or the user's.
 * op=write: slot is what the peer granted next. */
static void verbs_rc_tx_fill(const struct verbs_rc_queue *q, const struct verbs_rc_peer *p,
			     const struct port_rc_wait *w, uint32_t slot, struct ibv_send_wr *wr,
			     struct ibv_sge *sge)
{
	const struct spw_peer_remote *to = &p->rc.remote;

	*sge = (struct ibv_sge){.addr = (uintptr_t)spw_pool_slot_addr(q->rc.pool, w->slot) +
					w->offset,
				.length = w->len,
				.lkey = p->rc.lkey};
	*wr = (struct ibv_send_wr){.wr_id = verbs_rc_send_id(q, p, p->rc.sq_pi),
				   .sg_list = sge,
				   .num_sge = 1,
				   .imm_data = htonl(w->meta),
				   .opcode = w->flags & SPW_DESC_IMM ? IBV_WR_SEND_WITH_IMM
								     : IBV_WR_SEND};
	if (!(q->rc.flags & PORT_RC_WRITE))
		return;
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htonl(slot);
	wr->wr.rdma.remote_addr = to->slot_addr + (uint64_t)slot * to->slot_stride;
	wr->wr.rdma.rkey = to->slot_rkey;
}

/* Takes messages that wait into one chain. Returns: how many. */
static uint32_t verbs_rc_tx_chain(struct verbs_rc_queue *q, struct verbs_rc_peer *p,
				  struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	struct port_rc_peer *rc = &p->rc;
	uint32_t n = 0, slot = 0;

	while (n < SEND_CHAIN && rc->wait_ci != rc->wait_pi && port_rc_tx_has_room(rc) &&
	       port_rc_tx_slot(&q->rc, rc, &slot, q->rc.flags)) {
		const struct port_rc_wait *w = &rc->wait[rc->wait_ci++ & rc->wait_mask];

		verbs_rc_tx_fill(q, p, w, slot, &wr[n], &sge[n]);
		rc->tx.used++;
		wr[n].send_flags = verbs_rc_signal_flag(rc);
		port_rc_tx_posted(rc, w->slot, w->len);
		if (n)
			wr[n - 1].next = &wr[n];
		n++;
	}
	if (n) {
		wr[n - 1].send_flags = IBV_SEND_SIGNALED;
		rc->sq_signal = rc->sq_pi;
	}
	return n;
}

/* These were not posted: their slots return, and the connection ends. */
static SPW_COLD void verbs_rc_tx_refused(struct verbs_rc_queue *q, struct port_rc_peer *p,
					 uint32_t cnt)
{
	const uint32_t end = p->sq_pi - cnt;

	port_rc_break(&q->rc, p, SPW_PEER_WHY_QP_ERROR, IBV_WC_LOC_QP_OP_ERR);
	for (; p->sq_pi != end; p->sq_pi--) {
		port_rc_recycle(&q->rc, p->sent[(p->sq_pi - 1) & p->sq_mask].slot, q->rc.flags);
		q->rc.in_tx_cnt--;
		spw_thr_count(&q->rc.stat.tx_flushed, 1);
	}
	p->sq_signal = end - 1; /* none of those that are left is known to be signaled */
}

void verbs_rc_send_waiting(struct port_rc_queue *rc, struct port_rc_peer *to)
{
	struct verbs_rc_queue *q = verbs_rc_queue_of(rc);
	struct verbs_rc_peer *p = verbs_rc_peer_of(to);
	struct ibv_send_wr wr[SEND_CHAIN], *bad = NULL;
	struct ibv_sge sge[SEND_CHAIN];
	uint32_t n;

	while ((n = verbs_rc_tx_chain(q, p, wr, sge)) > 0)
		if (spw_unlikely(ibv_post_send(p->qp, wr, &bad))) {
			verbs_rc_tx_refused(q, to, n - (uint32_t)(bad - wr));
			return;
		}
}

/* Queues a message; where the ring is full, after what it holds was sent as far as possible. */
static bool verbs_rc_tx_one(struct verbs_rc_queue *q, struct port_rc_peer *p,
			    const struct spw_desc *d)
{
	if (d->len == 0)
		return false;
	if (port_rc_tx_later(p, d))
		return true;
	verbs_rc_send_waiting(&q->rc, p);
	return port_rc_tx_later(p, d);
}

uint16_t verbs_rc_tx(void *vq, struct spw_desc **desc, uint16_t cnt)
{
	struct verbs_rc_queue *q = vq;
	struct port_rc_peer *p, *last = NULL;
	uint16_t taken = 0;

	verbs_rc_reap(&q->rc);
	for (uint16_t i = 0; i < cnt; i++) {
		struct spw_desc *d = desc[i];

		p = port_rc_tx_peer(&q->rc, d->peer);
		if (!verbs_rc_tx_one(q, p, d))
			continue;
		q->rc.lent_cnt--;
		q->rc.in_tx_cnt++;
		if (last && last != p)
			verbs_rc_send_waiting(&q->rc, last);
		last = p;
		desc[i] = desc[taken]; /* accepted ones move to the front, in order */
		desc[taken++] = d;
	}
	if (last)
		verbs_rc_send_waiting(&q->rc, last);
	if (spw_unlikely(taken < cnt))
		port_rc_count_err(&q->rc, SPW_PORT_ERR_no_credit, cnt - taken);
	return taken;
}

/* ---- credits ---- */

/* Posts an entry that carries no message. */
static void verbs_rc_post_control(struct port_rc_queue *rc, struct port_rc_peer *to,
				  struct ibv_send_wr *wr)
{
	struct verbs_rc_peer *p = verbs_rc_peer_of(to);
	struct ibv_send_wr *bad;

	wr->wr_id = verbs_rc_send_id(verbs_rc_queue_of(rc), p, to->sq_pi);
	if (spw_unlikely(ibv_post_send(p->qp, wr, &bad)))
		port_rc_break(rc, to, SPW_PEER_WHY_QP_ERROR, IBV_WC_LOC_QP_OP_ERR);
	else
		port_rc_tx_posted(to, PORT_RC_NO_SLOT, 0);
}

/* op=write: writes grants to the peer's ring. */
static void verbs_rc_grant_write(struct port_rc_queue *rc, struct port_rc_peer *to, uint32_t first,
				 uint32_t cnt)
{
	const struct spw_peer_remote *remote = &to->remote;
	spw_be32 *list = &to->ring_out[first & (SPW_PEER_CREDIT_MAX - 1)];
	struct ibv_sge sge = {.addr = (uintptr_t)list,
			      .length = cnt * (uint32_t)sizeof(spw_be32),
			      .lkey = to->ring_lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = verbs_rc_signal_flag(to),
		.wr.rdma = {.remote_addr = remote->ring_addr +
					   (first & (remote->ring_cnt - 1)) * sizeof(spw_be32),
			    .rkey = remote->ring_rkey},
	};

	port_rc_grant_slots(rc, to, list, cnt);
	verbs_rc_post_control(rc, to, &wr);
}

void verbs_rc_grant(struct port_rc_queue *rc, struct port_rc_peer *to)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM};

	port_rc_grant_lists(rc, to, verbs_rc_grant_write);
	wr.imm_data = htonl(to->rx.advertised);
	wr.send_flags = verbs_rc_signal_flag(to);
	verbs_rc_post_control(rc, to, &wr);
	spw_thr_count(&rc->control_tx, 1);
}

void verbs_rc_mark(struct port_rc_queue *rc, struct port_rc_peer *to)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (to->sq_ci == to->sq_pi || to->sq_signal == to->sq_pi)
		return;
	verbs_rc_post_control(rc, to, &wr);
	to->sq_signal = to->sq_pi;
}

/* ---- completions ---- */

/* The unsignaled entries before an error were sent; the entry itself was not. In a flush that is
 * unknown, so all of them count as flushed. */
static SPW_COLD void verbs_rc_tx_error(struct port_rc_queue *rc, struct port_rc_peer *p,
				       const struct ibv_wc *wc, uint32_t pos)
{
	if (wc->status != IBV_WC_WR_FLUSH_ERR) {
		port_rc_count_cqe_error(rc, wc->status);
		port_rc_tx_return(rc, p, pos, rc->flags);
	}
	port_rc_break(rc, p, SPW_PEER_WHY_QP_ERROR, wc->status);
	port_rc_tx_lost(rc, p, pos + 1);
}

/* Returns: how many completions were taken, 0 .. REAP_MAX. */
static int verbs_rc_reap_some(struct port_rc_queue *rc)
{
	struct ibv_wc wc[REAP_MAX];
	int got = ibv_poll_cq(verbs_rc_queue_of(rc)->tx_cq, REAP_MAX, wc);

	for (int i = 0; i < got; i++) {
		struct port_rc_peer *p = port_rc_peer_at(rc, (uint32_t)(wc[i].wr_id >> 32));
		const uint32_t pos = (uint32_t)wc[i].wr_id;

		if (spw_unlikely(pos - p->sq_ci >= p->sq_pi - p->sq_ci))
			continue; /* must not happen: no such entry is posted */
		if (spw_unlikely(wc[i].status != IBV_WC_SUCCESS)) {
			verbs_rc_tx_error(rc, p, &wc[i], pos);
			continue;
		}
		port_rc_tx_return(rc, p, pos + 1, rc->flags);
		port_rc_enlist(rc, p);
	}
	return got;
}

void verbs_rc_reap(struct port_rc_queue *rc)
{
	verbs_rc_reap_some(rc);
}

void verbs_rc_reap_all(struct port_rc_queue *rc)
{
	while (verbs_rc_reap_some(rc) == REAP_MAX)
		;
}
