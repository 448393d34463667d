/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC: a CQ or an SRQ that failed takes all peers of its queue with it, and its completions are lost. The peers go down one by
 * one as after any other error, but for their flush, which nobody will see; when nothing of them is under way any more, all
 * objects of the queue are made anew, and the peers come back.
 */
#include <errno.h>
#include <stdio.h>

#include "base/spw_err.h"
#include "port/mlx5/mlx5_rc.h"

#define TRIES_MAX 100u /* then the device is taken for gone */

/* Control stands in its turn (rc_conn_hold), so obj is what the owner uses; a late event of objects that were replaced since
 * says nothing. */
void mlx5_rc_told(void *arg, const struct ibv_async_event *event)
{
	const struct ibv_cq *cq = event->element.cq;
	struct mlx5_rc_port *rp = arg;

	for (uint16_t i = 0; i < rp->base.queue_cnt; i++) {
		struct mlx5_rc_queue *rq = &rp->queue[i];
		const struct mlx5_rc_obj *obj = rq->obj;
		bool is_cq = obj && (cq == ibv_cq_ex_to_cq(obj->cq) || cq == ibv_cq_ex_to_cq(obj->tx_cq));

		if ((event->event_type == IBV_EVENT_CQ_ERR && is_cq) ||
		    (event->event_type == IBV_EVENT_SRQ_ERR && obj && obj->srq == event->element.srq))
			spw_thr_store_rel(&rq->dead_told, rq->dead_told + 1); /* [M5 release, pairs with M6] */
	}
}

void mlx5_rc_mend_look(struct mlx5_rc_queue *rq)
{
	uint32_t told = spw_thr_load_acq(&rq->dead_told); /* [M6 acquire, pairs with M5] */

	if (told == rq->dead_seen)
		return;
	rq->dead_seen = told;
	if (!rq->dead)
		rq->dead_tsc = spw_tsc_now();
	rq->dead = true;
	for (uint32_t i = 0; i < rq->plan.peers; i++)
		spw_mlx5_rc_break(&rq->q, &rq->q.peer[i], MLX5_RC_SYN_NONSENSE);
}

/* Is it the owner's turn, or nobody's, and nothing of the peer lent? Its QP is in ERR, RESET or INIT then, and touches nothing. */
static bool is_still(struct mlx5_rc_queue *rq, uint32_t local)
{
	struct spw_mlx5_rc_peer *p = &rq->q.peer[local];

	switch (rc_peer_state(mlx5_rc_conn_peer(rq, local))) {
	case RC_DOWN: return p->state == MLX5_RC_DOWN;
	case RC_POST: return p->state == MLX5_RC_DOWN;
	case RC_DRAIN:
		spw_mlx5_rc_break(&rq->q, p, MLX5_RC_SYN_GONE);
		spw_mlx5_rc_tx_lost(&rq->q, p, p->sq_pi);
		return p->away == 0;
	default: return false;
	}
}

static bool all_still(struct mlx5_rc_queue *rq)
{
	bool still = true;

	for (uint32_t i = 0; i < rq->plan.peers; i++)
		still = is_still(rq, i) && still;
	return still;
}

/* The slots that the NIC had are the peers' again as soon as the new objects are laid. */
static int remake(struct mlx5_rc_queue *rq)
{
	struct mlx5_rc_obj *obj = NULL;
	int rc = mlx5_rc_obj_make(rq, &obj);

	rc = rc ? rc : mlx5_rc_lay(rq, obj);
	if (rc) {
		mlx5_rc_obj_free(rq, obj);
		return rc;
	}
	if (rq->plan.flags & MLX5_RC_SRQ)
		spw_mlx5_rc_arm_shared(&rq->q);
	for (uint32_t i = 0; i < rq->plan.peers; i++) {
		struct rc_peer *peer = mlx5_rc_conn_peer(rq, i);

		if (rc_peer_state(peer) == RC_DRAIN)
			rc_peer_drained(rq->port->conn, peer);
	}
	return 0;
}

/* The old objects go when control moves again: destroying one waits until control has acknowledged the events of it. */
static int remake_held(struct mlx5_rc_queue *rq)
{
	struct mlx5_rc_obj *was = rq->obj;
	int rc = -EAGAIN;

	rc_conn_hold(rq->port->conn);
	if (all_still(rq))
		rc = remake(rq);
	rc_conn_let(rq->port->conn);
	if (!rc)
		mlx5_rc_obj_free(rq, was);
	return rc;
}

static uint16_t tell(struct mlx5_rc_queue *rq, enum spw_port_event_kind kind, struct spw_port_event *event)
{
	uint64_t outage = spw_tsc_to_ns(&rq->port->dev.rdma.tsc, spw_tsc_now() - rq->dead_tsc);

	*event = (struct spw_port_event){ .kind = kind, .queue = rq->index, .outage_ns = outage };
	if (kind == SPW_PORT_EVENT_QUEUE_BACK)
		snprintf(event->text, sizeof(event->text), "its queues are back after %llu us", (unsigned long long)outage / 1000);
	else
		snprintf(event->text, sizeof(event->text), "a completion queue or a shared receive queue failed%s",
			 kind == SPW_PORT_EVENT_DEVICE_GONE ? " and cannot be mended" : "");
	return 1;
}

uint16_t mlx5_rc_mend(struct mlx5_rc_queue *rq, struct spw_port_event *event)
{
	int rc;

	if (!rq->dead_said) {
		rq->dead_said = true;
		return tell(rq, SPW_PORT_EVENT_QUEUE_ERROR, event);
	}
	if (rq->tries > TRIES_MAX || !all_still(rq))
		return 0;
	rc = remake_held(rq);
	if (rc == 0) {
		rq->dead = rq->dead_said = false;
		rq->tries = 0;
		spw_thr_count(&rq->q.stat.err[SPW_PORT_ERR_queue_reset], 1);
		return tell(rq, SPW_PORT_EVENT_QUEUE_BACK, event);
	}
	if (rc != -EAGAIN && ++rq->tries > TRIES_MAX)
		return tell(rq, SPW_PORT_EVENT_DEVICE_GONE, event);
	return 0;
}
