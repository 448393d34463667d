/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The owner's turns in the states of a peer (the table in peer/spw_peer.h): POST, UP and DRAIN.
 * verbs_rc_events runs outside the bursts.
 *
 *   control thread                 owner (here)
 *   DOWN ─ exchange ─► POST        verbs_rc_turn_post: receives posted ─► POSTED
 *   POSTED ─ QP to RTS ─► UP       verbs_rc_turn_up: greeting, credits ... FAIL
 *   FAIL ─ QP to ERR ─► DRAIN      verbs_rc_turn_drain: all has completed ─► DRAINED
 *
 * One peer after the other, a switch on its state: what is the control thread's turn is skipped.
 */
#include <string.h>

#include "port/verbs/rc/rc.h"

/* A fresh connection: indices and credits from 0. All receives must be posted before the other side
 * may send. */
static void verbs_rc_turn_post(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	p->sq_pi = p->sq_ci = p->sq_signaled = 0;
	p->wait_head = p->wait_tail = VERBS_NONE;
	p->side = SPW_PEER_SIDE_POSTED;
	spw_peer_rx_credit_start(&p->rx, p->rc->credit_cnt);
	p->tx = (struct spw_peer_tx_credit){0};
	if (q->op == SPW_PEER_OP_WRITE) {
		for (uint32_t i = 0; i < p->cnt; i++)
			q->slot[p->first + i].where = VERBS_POSTED;
		memset(p->granted, 1, p->cnt);
		for (uint32_t i = 0; i < SPW_PEER_CREDIT_MAX;
		     i++) /* the first W are granted in this order */
			p->rc->ring_in[i] = spw_cpu_to_be32(i);
	}
	if (!q->srq && verbs_rc_post_all(q, p))
		verbs_rc_fault(p, SPW_PEER_WHY_QP_ERROR, IBV_WC_LOC_QP_OP_ERR);
	spw_peer_posted(q->port->peers.conn, p->rc);
}

/* Greets once; then reports what broke, and sends what waited for credits. */
static void verbs_rc_turn_up(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	if (p->side == SPW_PEER_SIDE_POSTED) {
		p->side = SPW_PEER_SIDE_UP;
		spw_peer_tx_credit_start(&p->tx, p->rc->remote.credit_cnt);
		verbs_rc_greet(q, p);
	}
	if (spw_peer_credit_heard(&p->tx, &p->rx))
		spw_peer_heard(p->rc);
	if (p->side == SPW_PEER_SIDE_BROKEN) {
		spw_peer_fail(q->port->peers.conn, p->rc, p->why, p->code);
		return;
	}
	verbs_rc_send_due_credits(q, p);
	verbs_rc_push(q, p);
}

/* True if every receive and send of the QP has completed. With an SRQ nothing counts receives per
 * QP: the CQ must have been polled empty once more after the drain began. */
static bool verbs_rc_is_drained(const struct verbs_rc_queue *q, const struct verbs_rc_peer *p)
{
	if (p->sq_pi != p->sq_ci || p->recv_out)
		return false;
	return !q->srq || (p->drain_mark && q->empty_polls > p->drain_mark);
}

/* The first call in which all sends have completed starts the count of empty polls. */
static void verbs_rc_drain_mark(const struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	if (q->srq && !p->drain_mark && p->sq_pi == p->sq_ci && !p->recv_out)
		p->drain_mark = q->empty_polls + 1;
}

/* Whether the device will flush no more. Its time may have passed while this lcore stood still, so
 * what it wrote is read first: a poll that begins afterwards finds the CQ empty. */
static bool verbs_rc_drain_gives_up(const struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	if (!rdma_drain_is_over(&q->port->dev, &p->drain))
		return false;
	if (!p->late_mark)
		p->late_mark = q->empty_polls + 1;
	return q->empty_polls >= p->late_mark;
}

/* The QP is in ERR. Ends when every receive and send has completed, and every slot of the peer has
 * been returned: only then may another peer get the entry. */
static void verbs_rc_turn_drain(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	p->side = SPW_PEER_SIDE_BROKEN;
	if (!p->marked)
		verbs_rc_mark_end(q, p);
	p->marked = true;
	verbs_rc_flush(q, p);
	if (verbs_rc_drain_gives_up(q, p))
		verbs_rc_lost(q, p);
	verbs_rc_drain_mark(q, p);
	if (!verbs_rc_is_drained(q, p) || p->out || p->tx_to)
		return;
	if (!q->srq)
		p->recv_due = 0;
	for (uint32_t i = 0; i < p->cnt && q->op == SPW_PEER_OP_WRITE; i++)
		q->slot[p->first + i].where = VERBS_FREE;
	p->side = SPW_PEER_SIDE_DOWN;
	p->marked = false;
	p->drain_mark = p->late_mark = 0;
	p->drain = (struct rdma_drain){0};
	spw_peer_drained(q->port->peers.conn, p->rc);
}

uint16_t verbs_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct verbs_rc_queue *q = vq;

	verbs_rc_reap(q);
	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		struct verbs_rc_peer *p = &q->peer[i];

		switch (spw_peer_state(p->rc)) {
		case SPW_PEER_POST:
			verbs_rc_turn_post(q, p);
			break;
		case SPW_PEER_UP:
			verbs_rc_turn_up(q, p);
			break;
		case SPW_PEER_DRAIN:
			verbs_rc_turn_drain(q, p);
			break;
		default:
			break;
		}
	}
	return spw_peer_conn_events(q->port->peers.conn, q->index, event, cnt);
}
