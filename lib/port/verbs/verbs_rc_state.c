/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The owner's part of a peer's states (rdma/rc_conn.h).
 */
#include <string.h>

#include "port/verbs/verbs_rc.h"

static void on_post(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	p->sq_pi = p->sq_ci = p->sq_signaled = 0;
	p->wait_head = p->wait_tail = VERBS_NONE;
	p->posted = true;
	rc_rx_credit_start(&p->rx, p->rc->credit_cnt);
	if (q->op == RC_OP_WRITE) {
		for (uint32_t i = 0; i < p->cnt; i++)
			q->slot[p->first + i].where = VERBS_POSTED;
		memset(p->granted, 1, p->cnt);
		for (uint32_t i = 0; i < RC_CREDIT_MAX; i++) /* the first W are granted in this order */
			p->rc->ring_in[i] = spw_cpu_to_be32(i);
	}
	if (!q->srq && verbs_rc_post_all(q, p))
		verbs_rc_fault(p, RC_WHY_QP_ERROR, IBV_WC_LOC_QP_OP_ERR);
	rc_peer_posted(q->port->conn, p->rc);
}

static void on_up(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	if (!p->up) {
		p->up = true;
		rc_tx_credit_start(&p->tx, p->rc->remote.credit_cnt);
	}
	if (p->dead) {
		rc_peer_fail(q->port->conn, p->rc, p->why, p->code);
		return;
	}
	verbs_rc_tell_credits(q, p);
	verbs_rc_push(q, p);
}

/* Is everything of the QP back that will come back? On an SRQ nothing says so but the end of the completion queue. */
static bool is_quiet(const struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	if (p->sq_pi != p->sq_ci || p->recv_out)
		return false;
	if (!q->srq)
		return true;
	if (!p->drain_mark)
		p->drain_mark = q->empty_polls + 1;
	return q->empty_polls > p->drain_mark;
}

static void on_drain(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	p->dead = true; /* what still comes is dropped */
	p->up = false;
	if (!p->draining)
		verbs_rc_mark_end(q, p);
	p->draining = true;
	verbs_rc_flush(q, p);
	if (!is_quiet(q, p) || p->out || p->tx_to)
		return;
	if (!q->srq)
		p->recv_due = 0;
	for (uint32_t i = 0; i < p->cnt && q->op == RC_OP_WRITE; i++)
		q->slot[p->first + i].where = VERBS_HOME;
	p->posted = p->dead = p->draining = false;
	p->drain_mark = 0;
	rc_peer_drained(q->port->conn, p->rc);
}

uint16_t verbs_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct verbs_rc_queue *q = vq;

	verbs_rc_reap(q);
	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		struct verbs_rc_peer *p = &q->peer[i];

		switch (rc_peer_state(p->rc)) {
		case RC_POST: on_post(q, p); break;
		case RC_UP: on_up(q, p); break;
		case RC_DRAIN: on_drain(q, p); break;
		default: break;
		}
	}
	return rc_conn_events(q->port->conn, q->index, event, cnt);
}
