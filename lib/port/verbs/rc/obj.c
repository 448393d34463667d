/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects and tables of a queue of mode=rc: CQs, SRQ, QPs, and one entry per slot and per peer.
 * Called by port.c at set-up, stop and close.
 *
 * Sizes. A receive CQ holds the receives of all its peers, a send CQ their send queues, so neither
 * can overrun. Peer i of queue q is entry q + i * queue_cnt of the port's table, and owns slots [i
 * * share, (i + 1) * share) of the queue's part of its pool.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/peer_slots.h"
#include "port/verbs/rc/rc.h"

#define SQ_MIN 32u
#define SQ_MAX 512u

static int verbs_rc_no_memory(uint32_t cnt)
{
	return spw_err(ENOMEM, "no memory for the tables of %u peers", cnt);
}

/* The peers' slots leave the pool for good; what remains serves lend_burst. */
static int verbs_rc_take_slots(struct verbs_rc_queue *q, uint32_t total)
{
	int rc = port_slots_take(q->pool, q->slot_first, total);

	for (uint32_t i = 0; i < total && !rc; i++)
		q->slot[q->slot_first + i].where = VERBS_FREE;
	return rc;
}

/* Checked against the device here, because ibv_create_cq answers with a bare EINVAL. */
static int verbs_rc_make_cqs(struct verbs_rc_queue *q, uint32_t recv_cnt, uint32_t send_cnt)
{
	struct ibv_context *ctx = q->port->dev.ctx;
	const uint32_t max = (uint32_t)q->port->dev.attr.orig_attr.max_cqe;

	if (recv_cnt > max || send_cnt > max)
		return spw_err(ENOSPC,
			       "%u receives and %u sends need longer completion queues than the "
			       "device's %u: use fewer "
			       "credits= or fewer peers",
			       recv_cnt, send_cnt, max);
	q->rx_cq = ibv_create_cq(ctx, (int)SPW_MAX(recv_cnt, 1u), NULL, NULL, 0);
	if (q->rx_cq)
		q->tx_cq = ibv_create_cq(ctx, (int)SPW_MAX(send_cnt, 1u), NULL, NULL, 0);
	return q->tx_cq ? 0 : spw_err(errno, "no completion queue: %s", strerror(errno));
}

static int verbs_rc_make_srq(struct verbs_rc_queue *q, uint32_t recv_cnt)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = recv_cnt, .max_sge = 1}};

	q->srq = ibv_create_srq(q->port->dev.pd, &attr);
	return q->srq ? 0
		      : spw_err(errno,
				"no shared receive queue of %u: %s; use srq=0, or fewer peers "
				"(peer_max=)",
				recv_cnt, strerror(errno));
}

/* The QP belongs to the peer's protection domain: it reaches that peer's memory and no other. */
static int verbs_rc_make_qp(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = q->tx_cq,
		.recv_cq = q->rx_cq,
		.srq = q->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = p->sq_mask + 1,
			.max_send_sge = 1,
			.max_recv_wr = q->srq ? 0 : p->rc->recv_cnt,
			.max_recv_sge = q->srq ? 0 : 1},
	};

	p->qp = ibv_create_qp(p->rc->pd, &attr);
	if (!p->qp)
		return spw_err(errno,
			       "no RC queue pair with %u receives and %u sends: %s; use fewer "
			       "peers (peer_max=) or credits=",
			       attr.cap.max_recv_wr, attr.cap.max_send_wr, strerror(errno));
	p->rc->qp = p->qp;
	q->by_qpn[p - q->peer] = p->qp->qp_num;
	return 0;
}

/* rdma_rxe keeps the route of an RC QP through RESET (Linux drivers/infiniband/sw/rxe/rxe_net.c,
 * rxe_find_route: the dst of the QP's socket), so a QP that was connected to its own port sends to
 * the loopback interface ever after. */
int verbs_rc_qp_again(struct verbs_rc_queue *q, struct verbs_rc_peer *p)
{
	const int rc = ibv_destroy_qp(p->qp);

	if (rc)
		return spw_err(rc, "a QP that was connected to itself is not destroyed: %s",
			       strerror(rc));
	p->qp = p->rc->qp = NULL;
	return verbs_rc_make_qp(q, p);
}

/* Entries of a send queue: twice the credits, within SQ_MIN, SQ_MAX and the limit of the device. */
static uint32_t verbs_rc_sq_size(const struct verbs_rc_queue *q, uint32_t credits,
				 uint32_t ring_size)
{
	uint32_t want = ring_size ? ring_size : SPW_MIN(SPW_MAX(2 * credits, SQ_MIN), SQ_MAX);
	const uint32_t max = (uint32_t)q->port->dev.attr.orig_attr.max_qp_wr;

	want = spw_pow2_ceil32(SPW_MAX(want, SQ_MIN));
	while (want > max && want > SQ_MIN)
		want /= 2;
	return want;
}

/* After an error verbs_rc_queue_free releases the tables, and lib/peer what it made. */
static int verbs_rc_make_peer(struct verbs_rc_queue *q, uint32_t i, uint32_t share,
			      uint32_t ring_size)
{
	struct verbs_rc_peer *p = &q->peer[i];
	const uint32_t index = q->index + i * q->port->peers.base.queue_cnt;
	const uint32_t first = q->slot_first + i * share;
	const struct spw_peer_memory memory = port_slots_memory(q->pool, first, share, q->lkey);
	int rc = spw_peer_conn_peer_setup(q->port->peers.conn, index, &memory);

	p->rc = spw_peer_conn_peer(q->port->peers.conn, index);
	p->first = first;
	p->cnt = share;
	p->wait_head = p->wait_tail = VERBS_NONE;
	p->sq_mask = verbs_rc_sq_size(q, p->rc->credit_cnt, ring_size) - 1;
	for (uint32_t s = 0; s < share; s++)
		q->slot[p->first + s] =
			(struct verbs_slot){.peer = (uint16_t)i, .where = VERBS_FREE};
	if (rc)
		return rc;
	p->sq_slot = malloc((p->sq_mask + 1) * sizeof(*p->sq_slot));
	p->granted = calloc(share, 1);
	return p->sq_slot && p->granted ? 0 : verbs_rc_no_memory(q->peer_cnt);
}

/* The sentinel VERBS_NO_PEER marks slots that no peer owns. */
static int verbs_rc_make_tables(struct verbs_rc_queue *q)
{
	const uint32_t peers = spw_peer_conn_peer_cnt(q->port->peers.conn),
		       step = q->port->peers.base.queue_cnt;

	q->peer_cnt = q->index < peers ? (peers - q->index + step - 1) / step : 0;
	q->slot = calloc(q->pool->slot_cnt, sizeof(*q->slot));
	q->peer = calloc(SPW_MAX(q->peer_cnt, 1u), sizeof(*q->peer));
	q->by_qpn = calloc(SPW_MAX(q->peer_cnt, 1u), sizeof(*q->by_qpn));
	if (!q->slot || !q->peer || !q->by_qpn)
		return verbs_rc_no_memory(q->peer_cnt);
	for (uint32_t i = 0; i < q->pool->slot_cnt; i++)
		q->slot[i].peer = VERBS_NO_PEER;
	return 0;
}

/* All receives of an SRQ are posted once, for all peers, before any of them connects. */
static int verbs_rc_fill_srq(struct verbs_rc_queue *q)
{
	int rc = 0;

	for (uint32_t i = 0; i < q->peer_cnt && !rc; i++)
		rc = verbs_rc_post_all(q, &q->peer[i]);
	return rc ? spw_err(-rc, "its shared receive queue cannot be filled") : 0;
}

/* The order is that of the references: tables and slots, the peers' memory and PDs, CQs, SRQ, QPs.
 * The peers come first because their credits decide how long the CQs must be. */
int verbs_rc_queue_make(struct verbs_rc_queue *q, const struct spw_port_queue_conf *conf)
{
	uint32_t share = 0, recv_cnt = 0, send_cnt = 0;
	int rc = spw_peer_conn_share(q->port->peers.conn, q->index, port_conf_slots(conf), &share);

	q->pool = conf->pool;
	q->slot_first = conf->slot_first;
	rc = rc ? rc : verbs_rc_make_tables(q);
	rc = rc ? rc : verbs_rc_take_slots(q, share * q->peer_cnt);
	for (uint32_t i = 0; i < q->peer_cnt && !rc; i++) {
		rc = verbs_rc_make_peer(q, i, share, conf->ring_size);
		recv_cnt += rc ? 0 : q->peer[i].rc->recv_cnt;
		send_cnt += q->peer[i].sq_mask + 1;
	}
	rc = rc ? rc : verbs_rc_make_cqs(q, recv_cnt, send_cnt);
	if (!rc && q->port->peers.conf.srq && recv_cnt)
		rc = verbs_rc_make_srq(q, recv_cnt);
	for (uint32_t i = 0; i < q->peer_cnt && !rc; i++)
		rc = verbs_rc_make_qp(q, &q->peer[i]);
	if (!rc && q->srq)
		rc = verbs_rc_fill_srq(q);
	return rc;
}

/* After stop: nothing is posted any more. Messages that still waited count as flushed. */
void verbs_rc_queue_unmake(struct verbs_rc_queue *q)
{
	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		if (q->peer[i].qp)
			ibv_destroy_qp(q->peer[i].qp);
		q->peer[i].qp = NULL;
	}
	for (uint32_t i = 0; q->slot && i < q->pool->slot_cnt; i++) {
		struct verbs_slot *s = &q->slot[i];

		if (s->where == VERBS_TX) {
			q->stat.tx_flushed++;
			q->tx_cnt--;
		}
		s->peer = VERBS_NO_PEER; /* lent ones go to the pool when released */
		if (s->where == VERBS_LENT || s->where == VERBS_POOL)
			continue;
		s->where = VERBS_POOL;
		spw_pool_put(q->pool, &i, 1);
	}
}

void verbs_rc_queue_free(struct verbs_rc_queue *q)
{
	if (q->srq)
		ibv_destroy_srq(q->srq);
	if (q->rx_cq)
		ibv_destroy_cq(q->rx_cq);
	if (q->tx_cq)
		ibv_destroy_cq(q->tx_cq);
	for (uint32_t i = 0; q->peer && i < q->peer_cnt; i++) {
		free(q->peer[i].sq_slot);
		free(q->peer[i].granted);
	}
	free(q->slot);
	free(q->by_qpn);
	free(q->peer);
}
