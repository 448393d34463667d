/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The owner's turns in the states of a peer (the table in peer/spw_peer.h), and draining at stop.
 * mlx5_rc_events runs outside the bursts: it reaps, checks for a failed CQ, gives each peer its
 * turn, and returns events.
 */
#include "port/mlx5/rc/rc.h"

/* ---- turns ---- */

/* A value that mlx5_rc_up refuses breaks the peer; the next branch of mlx5_rc_turn() reports it as
 * a breach. */
static void mlx5_rc_turn_up(struct mlx5_rc_queue_ctl *rq, struct spw_peer *peer,
			    struct mlx5_rc_peer *p)
{
	const struct spw_peer_remote *r = &peer->remote;
	const struct mlx5_rc_remote remote = {
		.credits = r->credit_cnt,
		.msg_max = r->slot_bytes,
		.slot_addr = r->slot_addr,
		.slot_stride = r->slot_stride,
		.slot_rkey = r->slot_rkey,
		.ring_rkey = r->ring_rkey,
		.ring_addr = r->ring_addr,
		.ring_cnt = r->ring_cnt,
	};

	if (mlx5_rc_up(&rq->q, p, &remote))
		mlx5_rc_break(&rq->q, p, MLX5_RC_SYN_PROTOCOL);
	else
		mlx5_rc_grant(&rq->q,
			      p); /* the greeting; the send ring is empty, so there is room */
}

/* Any other syndrome is reported as it is: SPW_PEER_WHY_QP_ERROR carries it as code. */
static void mlx5_rc_turn_broken(struct mlx5_rc_queue_ctl *rq, struct spw_peer *peer,
				const struct mlx5_rc_peer *p)
{
	bool protocol = p->err.syndrome == MLX5_RC_SYN_PROTOCOL;

	spw_peer_fail(rq->port->peers.conn, peer,
		      protocol ? SPW_PEER_WHY_PROTOCOL : SPW_PEER_WHY_QP_ERROR, p->err.syndrome);
}

/* Completions that the device wrote late, after mlx5_rc_peer_is_drained() had given them up, were
 * written before the QP went to RESET. They must be read (and dropped) first: those of the new
 * connection have the same QP number and would be taken for them, and the CQ has room for one lap
 * of each. */
static bool mlx5_rc_may_post(const struct mlx5_rc_queue *q, const struct mlx5_rc_peer *p)
{
	return p->side == SPW_PEER_SIDE_DOWN && p->out == 0 && !mlx5_rc_has_unread(q, p);
}

/* Posts the receives. op=send: after a local protection error the key is replaced first. */
static void mlx5_rc_turn_post(struct mlx5_rc_queue_ctl *rq, struct spw_peer *peer,
			      struct mlx5_rc_peer *p)
{
	uint32_t lkey = peer->op == SPW_PEER_OP_SEND ? rq->lkey : peer->lkey;

	if (peer->op == SPW_PEER_OP_SEND && p->err.syndrome == SPW_PRM_SYN_LOCAL_PROT_ERR &&
	    !rdma_dev_key_replace(&rq->port->dev.rdma, rq->pool->region->id, p->lkey, &lkey))
		rq->lkey = lkey;
	p->err.syndrome = MLX5_RC_SYN_BAD_CQE;
	mlx5_rc_post(&rq->q, p, lkey, peer->ring_out_lkey);
	spw_peer_posted(rq->port->peers.conn, peer);
}

/* Has everything completed, or will nothing more? The QP is in ERR, so the device has finished with
 * the rings; one that writes no flush must not occupy the peer for ever. Its time does not run
 * while completions wait to be read: then this lcore is late, not the device. Slots that are lent,
 * or in TX to another peer, have no deadline: they return. */
static bool mlx5_rc_peer_is_drained(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_peer *p)
{
	if (mlx5_rc_is_drained(&rq->q, p))
		return true;
	if (mlx5_rc_has_unread(&rq->q, p)) {
		p->drain = (struct rdma_drain){0};
		return false;
	}
	if (!rdma_drain_is_over(&rq->port->dev.rdma, &p->drain))
		return false;
	mlx5_rc_tx_lost(&rq->q, p, p->sq_pi);
	return p->out == 0;
}

/* Called in each events call until the drain is over; break and mark do something the first time
 * only. */
static void mlx5_rc_turn_drain(struct mlx5_rc_queue_ctl *rq, struct spw_peer *peer,
			       struct mlx5_rc_peer *p)
{
	mlx5_rc_break(&rq->q, p, MLX5_RC_SYN_GONE);
	mlx5_rc_mark(&rq->q, p);
	if (!mlx5_rc_peer_is_drained(rq, p))
		return;
	mlx5_rc_reset(&rq->q, p);
	spw_peer_drained(rq->port->peers.conn, peer);
}

static void mlx5_rc_turn(struct mlx5_rc_queue_ctl *rq, struct spw_peer *peer,
			 struct mlx5_rc_peer *p)
{
	switch (spw_peer_state(peer)) {
	case SPW_PEER_POST:
		if (mlx5_rc_may_post(&rq->q, p) && !rq->failed)
			mlx5_rc_turn_post(rq, peer, p);
		break;
	case SPW_PEER_UP:
		if (p->side == SPW_PEER_SIDE_POSTED)
			mlx5_rc_turn_up(rq, peer, p);
		if (p->side == SPW_PEER_SIDE_BROKEN)
			mlx5_rc_turn_broken(rq, peer, p);
		else if (spw_peer_credit_heard(&p->tx, &p->rx))
			spw_peer_heard(peer);
		break;
	case SPW_PEER_DRAIN:
		if (!rq->failed)
			mlx5_rc_turn_drain(rq, peer, p);
		break;
	default: /* control's turn */
		break;
	}
}

/* A queue whose CQ failed recovers as a whole; its peers' turns wait meanwhile. */
uint16_t mlx5_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct mlx5_rc_queue_ctl *rq =
		spw_container_of((struct mlx5_rc_queue *)vq, struct mlx5_rc_queue_ctl, q);
	uint16_t n = 0;

	mlx5_rc_reap(&rq->q);
	mlx5_rc_check_failed(rq);
	for (uint32_t i = 0; i < rq->plan.peers; i++)
		mlx5_rc_turn(rq, mlx5_rc_conn_peer(rq, i), &rq->q.peer[i]);
	if (rq->failed && cnt)
		n = mlx5_rc_recover(rq, event);
	return (uint16_t)(n + spw_peer_conn_events(rq->port->peers.conn, rq->index, event + n,
						   (uint16_t)(cnt - n)));
}

/* ---- stop ---- */

/* Messages that arrived and that nobody will poll: counts them as flushed, not as received. */
static void mlx5_rc_discard_messages(struct mlx5_rc_queue *q, const struct spw_port_queue *pq)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint64_t bytes = 0;
	uint16_t n = pq->rx_burst(q, desc, SPW_BURST_MAX);

	for (uint16_t i = 0; i < n; i++) {
		pq->release_burst(q, &desc[i].slot, 1);
		bytes += desc[i].len;
	}
	spw_thr_store_rlx(&q->stat.rx_frames, q->stat.rx_frames - n);
	spw_thr_store_rlx(&q->stat.rx_bytes, q->stat.rx_bytes - bytes);
	spw_thr_count(&q->stat.dropped[SPW_PORT_DROP_rx_flushed], n);
}

static bool mlx5_rc_drain_is_over(const struct mlx5_rc_queue *q)
{
	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		const struct mlx5_rc_peer *p = &q->peer[i];

		if (p->side != SPW_PEER_SIDE_DOWN && (p->sq_ci != p->sq_pi || p->rq_ci != p->rq_pi))
			return false;
	}
	return true;
}

/* The lcores have stopped, so this thread owns the queue. Bursts go on taking CQEs because that is
 * how slots return. */
void mlx5_rc_drain(struct mlx5_rc_queue_ctl *rq)
{
	const struct spw_port_queue *pq = &rq->port->peers.base.queue[rq->index];
	struct rdma_drain drain = {0};
	bool more;

	for (uint32_t i = 0; i < rq->plan.peers; i++) {
		mlx5_rc_break(&rq->q, &rq->q.peer[i], MLX5_RC_SYN_GONE);
		mlx5_rc_mark(&rq->q, &rq->q.peer[i]);
	}
	do {
		more = rdma_drain_wait(&rq->port->dev.rdma, &drain);
		mlx5_rc_discard_messages(&rq->q, pq);
		mlx5_rc_reap(&rq->q);
	} while (more && !mlx5_rc_drain_is_over(&rq->q));
	mlx5_rc_discard_messages(&rq->q, pq);
}
