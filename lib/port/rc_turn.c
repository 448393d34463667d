/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The owner's turns in the states of a peer (the table in peer/spw_peer.h), and draining at stop.
 * Runs outside the bursts.
 *
 *   control thread                 owner (here)
 *   DOWN ─ exchange ─► POST        port_rc_turn_post: receives posted ─► POSTED
 *   POSTED ─ QP to RTS ─► UP       port_rc_turn_up: greeting ... an error: FAIL
 *   FAIL ─ QP to ERR ─► DRAIN      port_rc_turn_drain: all has completed ─► DRAINED
 */
#include "port/rc_inline.h"
#include "port/rc_port.h"

/* Completions that the device wrote late, after port_rc_peer_is_drained() had given them up, were
 * written before the QP went to RESET. They must be read (and dropped) first: those of the new
 * connection have the same QP number and would be taken for them, and the CQ has room for one lap
 * of each. */
static bool port_rc_may_post(struct port_rc_queue *q, struct port_rc_peer *p)
{
	return p->side == SPW_PEER_SIDE_DOWN && p->out == 0 && !q->ops->has_unread(q, p);
}

/* Posts the receives. op=send: after a local protection error the key is replaced first, where the
 * driver can give receives that are posted another one. */
static void port_rc_turn_post(struct port_rc_queue *q, struct port_rc_peer *p,
			      struct spw_peer *peer)
{
	uint32_t lkey = peer->op == SPW_PEER_OP_SEND ? q->lkey : peer->lkey;

	if (peer->op == SPW_PEER_OP_SEND && q->ops->begin && p->why == SPW_PEER_WHY_QP_ERROR &&
	    p->code == IBV_WC_LOC_PROT_ERR &&
	    !rdma_dev_key_replace(q->port->dev, q->pool->region->id, p->lkey, &lkey))
		q->lkey = lkey;
	p->code = 0;
	port_rc_post(q, p, lkey, peer->ring_out_lkey);
	spw_peer_posted(q->port->conn, peer);
}

/* A value that port_rc_up refuses breaks the peer. */
static void port_rc_turn_up(struct port_rc_queue *q, struct port_rc_peer *p,
			    const struct spw_peer *peer)
{
	if (port_rc_up(q, p, &peer->remote))
		port_rc_break(q, p, SPW_PEER_WHY_PROTOCOL, 0);
	else
		q->ops->grant(q, p); /* the greeting; the send ring is empty, so there is room */
}

/* Has everything completed, or will nothing more? The QP is in ERR, so the device has finished with
 * the rings; one that writes no flush must not occupy the peer for ever. Its time does not run
 * while completions wait to be read: then this lcore is late, not the device. Slots that are lent,
 * or in TX to another peer, have no deadline: they return. */
static bool port_rc_peer_is_drained(struct port_rc_queue *q, struct port_rc_peer *p)
{
	if (port_rc_is_drained(q, p))
		return true;
	if (q->ops->has_unread(q, p)) {
		p->drain = (struct rdma_drain){0};
		return false;
	}
	if (!rdma_drain_is_over(q->port->dev, &p->drain))
		return false;
	port_rc_tx_lost(q, p, p->sq_pi);
	return p->out == 0;
}

/* Called in each events call until the drain is over; break and mark do something the first time
 * only. */
static void port_rc_turn_drain(struct port_rc_queue *q, struct port_rc_peer *p,
			       struct spw_peer *peer)
{
	port_rc_break(q, p, SPW_PEER_WHY_PEER_GONE, 0);
	q->ops->mark(q, p);
	if (!port_rc_peer_is_drained(q, p))
		return;
	port_rc_reset(q, p);
	spw_peer_drained(q->port->conn, peer);
}

static void port_rc_turn(struct port_rc_queue *q, struct port_rc_peer *p, struct spw_peer *peer)
{
	switch (spw_peer_state(peer)) {
	case SPW_PEER_POST:
		if (!q->failed && port_rc_may_post(q, p))
			port_rc_turn_post(q, p, peer);
		break;
	case SPW_PEER_UP:
		if (p->side == SPW_PEER_SIDE_POSTED)
			port_rc_turn_up(q, p, peer);
		if (p->side == SPW_PEER_SIDE_BROKEN)
			spw_peer_fail(q->port->conn, peer, p->why, p->code);
		else if (spw_peer_credit_heard(&p->tx, &p->rx))
			spw_peer_heard(peer);
		break;
	case SPW_PEER_DRAIN:
		if (!q->failed)
			port_rc_turn_drain(q, p, peer);
		break;
	default: /* control's turn */
		break;
	}
}

uint16_t port_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct port_rc_queue *q = vq;

	q->ops->reap(q);
	for (uint32_t i = 0; i < q->peer_cnt; i++)
		port_rc_turn(q, port_rc_peer_at(q, i), port_rc_conn_peer(q, i));
	return spw_peer_conn_events(q->port->conn, q->index, event, cnt);
}

/* ---- stop ---- */

/* Messages that arrived and that nobody will poll: counts them as flushed, not as received. */
static void port_rc_discard(struct port_rc_queue *q)
{
	const struct spw_port_queue *pq = &q->port->base.queue[q->index];
	struct spw_desc desc[SPW_BURST_MAX];
	uint64_t bytes = 0;
	uint16_t n = pq->rx_burst(q, desc, SPW_BURST_MAX);

	for (uint16_t i = 0; i < n; i++) {
		port_rc_release(q, &desc[i].slot, 1);
		bytes += desc[i].len;
	}
	spw_thr_store_rlx(&q->stat.rx_frames, q->stat.rx_frames - n);
	spw_thr_store_rlx(&q->stat.rx_bytes, q->stat.rx_bytes - bytes);
	port_rc_count_drop(q, SPW_PORT_DROP_rx_flushed, n);
}

static bool port_rc_drain_is_over(const struct port_rc_queue *q)
{
	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		const struct port_rc_peer *p = port_rc_peer_at(q, i);

		if (p->side != SPW_PEER_SIDE_DOWN && (p->sq_ci != p->sq_pi || p->rq_ci != p->rq_pi))
			return false;
	}
	return true;
}

/* Waits for the acknowledgements of what was sent; what has none in time is flushed. */
void port_rc_send_out(struct port_rc_queue *q)
{
	struct rdma_drain drain = {0};
	bool more = true;

	while (more && q->in_tx_cnt) {
		more = rdma_drain_wait(q->port->dev, &drain);
		q->ops->reap(q);
	}
}

/* The lcores have stopped, so this thread owns the queue. Bursts go on taking CQEs because that is
 * how slots return. */
void port_rc_drain(struct port_rc_queue *q)
{
	struct rdma_drain drain = {0};
	bool more;

	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		struct port_rc_peer *p = port_rc_peer_at(q, i);

		port_rc_break(q, p, SPW_PEER_WHY_STOP, 0);
		q->ops->mark(q, p);
	}
	do {
		more = rdma_drain_wait(q->port->dev, &drain);
		port_rc_discard(q);
		q->ops->reap(q);
	} while (more && !port_rc_drain_is_over(q));
	port_rc_discard(q);
}
