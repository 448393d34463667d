/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Recovery of a queue whose CQ or SRQ failed. Its completions are lost, so all of its peers go down
 * with it, one by one as after any other error, but without a flush that anyone can read. Once all
 * are quiet, the objects of the queue are re-created and the peers may connect again.
 *
 *   control   mlx5_rc_async: counts the failure [M5]
 *   owner     mlx5_rc_check_failed: breaks every peer [M6]
 *             mlx5_rc_recover, in each events call: reports QUEUE_ERROR; quiesces; when quiet,
 *             re-creates under spw_peer_conn_hold; reports QUEUE_BACK
 */
#include <errno.h>
#include <stdio.h>

#include "port/mlx5/rc/rc.h"
#include "port/rc_inline.h"

#define TRIES_MAX 100u /* then the device is reported as gone */

/* The control thread holds its turn (spw_peer_conn_hold), so obj is the one that the owner uses. A
 * late event of objects that were replaced matches none and is ignored. */
void mlx5_rc_async(void *arg, const struct ibv_async_event *event)
{
	const struct ibv_cq *cq = event->element.cq;
	struct mlx5_rc_port *rp =
		spw_container_of((struct port_peers *)arg, struct mlx5_rc_port, peers);

	for (uint16_t i = 0; i < rp->peers.base.queue_cnt; i++) {
		struct mlx5_rc_queue_ctl *rq = &rp->queue[i];
		const struct mlx5_rc_obj *obj = rq->obj;
		bool is_cq = obj &&
			     (cq == ibv_cq_ex_to_cq(obj->cq) || cq == ibv_cq_ex_to_cq(obj->tx_cq));

		if ((event->event_type == IBV_EVENT_CQ_ERR && is_cq) ||
		    (event->event_type == IBV_EVENT_SRQ_ERR && obj &&
		     obj->srq == event->element.srq))
			spw_thr_store_rel(&rq->failed_cnt,
					  rq->failed_cnt + 1); /* [M5 release, pairs with M6] */
	}
}

/* If a CQ or the SRQ failed, breaks every peer of the queue. */
static void mlx5_rc_check_failed(struct mlx5_rc_queue_ctl *rq)
{
	uint32_t failures = spw_thr_load_acq(&rq->failed_cnt); /* [M6 acquire, pairs with M5] */

	if (failures == rq->failed_handled)
		return;
	rq->failed_handled = failures;
	if (!rq->q.rc.failed)
		rq->failed_tsc = spw_tsc_now();
	rq->q.rc.failed = true;
	for (uint32_t i = 0; i < rq->q.rc.peer_cnt; i++)
		port_rc_break(&rq->q.rc, port_rc_peer_at(&rq->q.rc, i), SPW_PEER_WHY_QP_ERROR, 0);
}

/* A peer that control drains: its send completions are lost with the CQ, so the slots of its send
 * ring return without them. Idempotent. */
static void mlx5_rc_peer_quiesce(struct mlx5_rc_queue_ctl *rq, uint32_t local)
{
	struct port_rc_peer *p = port_rc_peer_at(&rq->q.rc, local);

	if (spw_peer_state(port_rc_conn_peer(&rq->q.rc, local)) != SPW_PEER_DRAIN)
		return;
	port_rc_break(&rq->q.rc, p, SPW_PEER_WHY_PEER_GONE, 0);
	port_rc_tx_lost(&rq->q.rc, p, p->sq_pi);
}

/* True if the NIC no longer touches memory of this peer (its QP is in ERR, RESET or INIT) and no
 * slot of it is lent or in TX. */
static bool mlx5_rc_peer_is_quiet(const struct mlx5_rc_queue_ctl *rq, uint32_t local)
{
	const struct port_rc_peer *p = port_rc_peer_at(&rq->q.rc, local);

	switch (spw_peer_state(port_rc_conn_peer(&rq->q.rc, local))) {
	case SPW_PEER_DOWN:
	case SPW_PEER_POST:
		return p->side == SPW_PEER_SIDE_DOWN;
	case SPW_PEER_DRAIN:
		return (p->side == SPW_PEER_SIDE_BROKEN || p->side == SPW_PEER_SIDE_DOWN) &&
		       p->sq_ci == p->sq_pi && p->out == 0;
	default:
		return false;
	}
}

static void mlx5_rc_peers_quiesce(struct mlx5_rc_queue_ctl *rq)
{
	for (uint32_t i = 0; i < rq->q.rc.peer_cnt; i++)
		mlx5_rc_peer_quiesce(rq, i);
}

static bool mlx5_rc_peers_are_quiet(const struct mlx5_rc_queue_ctl *rq)
{
	for (uint32_t i = 0; i < rq->q.rc.peer_cnt; i++)
		if (!mlx5_rc_peer_is_quiet(rq, i))
			return false;
	return true;
}

/* Slots that the old objects held return to the peers when the new ones are laid. */
static int mlx5_rc_recreate(struct mlx5_rc_queue_ctl *rq)
{
	struct mlx5_rc_obj *obj = NULL;
	int rc = mlx5_rc_obj_make(rq, &obj);

	rc = rc ? rc : mlx5_rc_lay(rq, obj);
	if (rc) {
		mlx5_rc_obj_free(rq, obj);
		return rc;
	}
	if (rq->plan.flags & PORT_RC_SRQ)
		mlx5_rc_settle(&rq->q.rc);
	for (uint32_t i = 0; i < rq->q.rc.peer_cnt; i++) {
		struct spw_peer *peer = port_rc_conn_peer(&rq->q.rc, i);

		if (spw_peer_state(peer) == SPW_PEER_DRAIN)
			spw_peer_drained(rq->port->peers.conn, peer);
	}
	return 0;
}

/* The old objects are destroyed after the release: destroying one waits until the control thread
 * has acknowledged its events. */
static int mlx5_rc_recreate_locked(struct mlx5_rc_queue_ctl *rq)
{
	struct mlx5_rc_obj *was = rq->obj;
	int rc = -EAGAIN;

	if (!spw_peer_conn_hold(rq->port->peers.conn))
		return rc; /* the next call tries again */
	mlx5_rc_peers_quiesce(rq);
	if (mlx5_rc_peers_are_quiet(rq))
		rc = mlx5_rc_recreate(rq);
	spw_peer_conn_release(rq->port->peers.conn);
	if (!rc)
		mlx5_rc_obj_free(rq, was);
	return rc;
}

static uint16_t mlx5_rc_recover_report(struct mlx5_rc_queue_ctl *rq, enum spw_port_event_kind kind,
				       struct spw_port_event *event)
{
	uint64_t outage = spw_tsc_to_ns(&rq->port->dev.rdma.tsc, spw_tsc_now() - rq->failed_tsc);

	*event =
		(struct spw_port_event){.kind = kind, .queue = rq->q.rc.index, .outage_ns = outage};
	if (kind == SPW_PORT_EVENT_QUEUE_BACK)
		snprintf(event->text, sizeof(event->text), "its queues are back after %llu us",
			 (unsigned long long)outage / 1000);
	else
		snprintf(event->text, sizeof(event->text),
			 "a completion queue or a shared receive queue failed%s",
			 kind == SPW_PORT_EVENT_DEVICE_GONE ? " and cannot be recovered" : "");
	return 1;
}

/* Once all peers are quiet, re-creates all objects of the queue. Returns: events written, 0 .. 1.
 */
static uint16_t mlx5_rc_recover(struct mlx5_rc_queue_ctl *rq, struct spw_port_event *event)
{
	int rc;

	if (!rq->failed_reported) {
		rq->failed_reported = true;
		return mlx5_rc_recover_report(rq, SPW_PORT_EVENT_QUEUE_ERROR, event);
	}
	if (rq->tries > TRIES_MAX)
		return 0;
	mlx5_rc_peers_quiesce(rq);
	if (!mlx5_rc_peers_are_quiet(rq))
		return 0;
	rc = mlx5_rc_recreate_locked(rq);
	if (rc == 0) {
		rq->q.rc.failed = rq->failed_reported = false;
		rq->tries = 0;
		port_rc_count_err(&rq->q.rc, SPW_PORT_ERR_queue_reset, 1);
		return mlx5_rc_recover_report(rq, SPW_PORT_EVENT_QUEUE_BACK, event);
	}
	if (rc != -EAGAIN && ++rq->tries > TRIES_MAX)
		return mlx5_rc_recover_report(rq, SPW_PORT_EVENT_DEVICE_GONE, event);
	return 0;
}

/* A queue whose CQ failed recovers as a whole; its peers' turns wait meanwhile. */
uint16_t mlx5_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct mlx5_rc_queue_ctl *rq =
		spw_container_of((struct mlx5_rc_queue *)vq, struct mlx5_rc_queue_ctl, q);
	uint16_t n = 0;

	mlx5_rc_check_failed(rq);
	if (rq->q.rc.failed && cnt)
		n = mlx5_rc_recover(rq, event);
	return (uint16_t)(n + port_rc_events(vq, event + n, (uint16_t)(cnt - n)));
}
