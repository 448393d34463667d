/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC: the owner's turns in the life of a peer (rc_conn.h has the table), outside the bursts, and the end of a queue.
 */
#include <time.h>

#include "port/mlx5/mlx5_rc.h"

#define DRAIN_NS 200000000ull /* what the device has not flushed by then it will not */

/* ---- turns ---------------------------------------------------------------------------------------------------- */

static void turn_up(struct mlx5_rc_queue *rq, struct rc_peer *peer, struct spw_mlx5_rc_peer *p)
{
	const struct rc_remote *r = &peer->remote;
	const struct spw_mlx5_rc_remote remote = {
		.credits = r->credit_cnt, .msg_max = r->slot_bytes, .slot_addr = r->slot_addr, .slot_stride = r->slot_stride,
		.slot_rkey = r->slot_rkey, .ring_rkey = r->ring_rkey, .ring_addr = r->ring_addr, .ring_cnt = r->ring_cnt,
	};

	if (spw_mlx5_rc_up(&rq->q, p, &remote))
		spw_mlx5_rc_break(&rq->q, p, MLX5_RC_SYN_PROTOCOL);
}

static void turn_broken(struct mlx5_rc_queue *rq, struct rc_peer *peer, const struct spw_mlx5_rc_peer *p)
{
	bool protocol = p->err.syndrome == MLX5_RC_SYN_PROTOCOL;

	rc_peer_fail(rq->port->conn, peer, protocol ? RC_WHY_PROTOCOL : RC_WHY_QP_ERROR, p->err.syndrome);
}

/* The receives; op=send: with a key that the device takes. Who used a bad one comes here with that error. */
static void turn_post(struct mlx5_rc_queue *rq, struct rc_peer *peer, struct spw_mlx5_rc_peer *p)
{
	uint32_t lkey = peer->op == RC_OP_SEND ? rq->lkey : peer->lkey;

	if (peer->op == RC_OP_SEND && p->err.syndrome == SPW_PRM_SYN_LOCAL_PROT_ERR &&
	    !rdma_dev_key_renew(&rq->port->dev.rdma, rq->pool->region->id, p->lkey, &lkey))
		rq->lkey = lkey;
	p->err.syndrome = MLX5_RC_SYN_NONSENSE;
	spw_mlx5_rc_arm(&rq->q, p, lkey, peer->ring_out_lkey);
	rc_peer_posted(rq->port->conn, peer);
}

static void turn_drain(struct mlx5_rc_queue *rq, struct rc_peer *peer, struct spw_mlx5_rc_peer *p)
{
	spw_mlx5_rc_break(&rq->q, p, MLX5_RC_SYN_GONE);
	spw_mlx5_rc_mark(p);
	if (!spw_mlx5_rc_drained(&rq->q, p))
		return;
	spw_mlx5_rc_home(&rq->q, p);
	rc_peer_drained(rq->port->conn, peer);
}

static void turn(struct mlx5_rc_queue *rq, struct rc_peer *peer, struct spw_mlx5_rc_peer *p)
{
	switch (rc_peer_state(peer)) {
	case RC_POST:
		if (p->state == MLX5_RC_DOWN && !rq->dead)
			turn_post(rq, peer, p);
		break;
	case RC_UP:
		if (p->state == MLX5_RC_ARMED)
			turn_up(rq, peer, p);
		if (p->state == MLX5_RC_BROKEN)
			turn_broken(rq, peer, p);
		break;
	case RC_DRAIN:
		if (!rq->dead)
			turn_drain(rq, peer, p);
		break;
	default: /* control's */
		break;
	}
}

uint16_t mlx5_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct mlx5_rc_queue *rq = spw_container_of((struct spw_mlx5_rc_queue *)vq, struct mlx5_rc_queue, q);
	uint16_t n = 0;

	spw_mlx5_rc_reap(&rq->q);
	mlx5_rc_mend_look(rq);
	for (uint32_t i = 0; i < rq->plan.peers; i++)
		turn(rq, mlx5_rc_conn_peer(rq, i), &rq->q.peer[i]);
	if (rq->dead && cnt)
		n = mlx5_rc_mend(rq, event);
	return (uint16_t)(n + rc_conn_events(rq->port->conn, rq->index, event + n, (uint16_t)(cnt - n)));
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

/* Messages that arrived and that nobody will poll: they were never lent. */
static void bury_messages(struct spw_mlx5_rc_queue *q, const struct spw_port_queue *pq)
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

static bool is_quiet(const struct spw_mlx5_rc_queue *q)
{
	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		const struct spw_mlx5_rc_peer *p = &q->peer[i];

		if (p->state != MLX5_RC_DOWN && (p->sq_ci != p->sq_pi || p->rq_ci != p->rq_pi))
			return false;
	}
	return true;
}

void mlx5_rc_drain(struct mlx5_rc_queue *rq)
{
	const struct spw_port_queue *pq = &rq->port->base.queue[rq->index];
	const struct timespec nap = {.tv_nsec = 100000};
	uint64_t since = spw_tsc_now(), limit = spw_tsc_from_ns(&rq->port->dev.rdma.tsc, DRAIN_NS);

	for (uint32_t i = 0; i < rq->plan.peers; i++) {
		spw_mlx5_rc_break(&rq->q, &rq->q.peer[i], MLX5_RC_SYN_GONE);
		spw_mlx5_rc_mark(&rq->q.peer[i]);
	}
	do {
		bury_messages(&rq->q, pq);
		spw_mlx5_rc_reap(&rq->q);
		nanosleep(&nap, NULL);
	} while (!is_quiet(&rq->q) && spw_tsc_now() - since < limit);
	bury_messages(&rq->q, pq);
}
