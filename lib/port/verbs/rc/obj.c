/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects of a queue of mode=rc: CQs, SRQ, QPs. Called by port.c at set-up, stop and close.
 *
 *   queue   rx_cq ◄── receives of all peers        tx_cq ◄── sends of all peers
 *           srq, with srq=1: the receives of all peers in one ring
 *   peer    QP in the protection domain of that peer, so that its keys reach no other's memory
 *
 * Made in this order and destroyed in the reverse one: the device refuses to destroy a CQ or an SRQ
 * that a QP still uses. The QPs go first and by a call of their own, because rc_port.c takes the
 * slots back in between (port_rc_queue_close).
 *
 * Sizes. A receive CQ holds the receives of all its peers, a send CQ their send queues, so neither
 * can overrun. A device may round a ring up; what is posted remains within sq_limit and recv_cnt,
 * by which the CQs are sized.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/verbs/rc/rc.h"

/* Entries of a peer's send queue: at least; at most, where the set-up leaves the choice. */
#define SQ_MIN 32u
#define SQ_MAX 512u

static struct rdma_dev *verbs_rc_dev(const struct verbs_rc_queue *q)
{
	return q->rc.port->dev;
}

/* Checked against the device here, because ibv_create_cq answers with a bare EINVAL. */
static int verbs_rc_make_cqs(struct verbs_rc_queue *q, uint32_t recv_cnt, uint32_t send_cnt)
{
	struct ibv_context *ctx = verbs_rc_dev(q)->ctx;
	const uint32_t max = (uint32_t)verbs_rc_dev(q)->attr.orig_attr.max_cqe;

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

	q->srq_cnt = recv_cnt;
	q->srq = ibv_create_srq(verbs_rc_dev(q)->pd, &attr);
	return q->srq ? 0
		      : spw_err(errno,
				"no shared receive queue of %u: %s; use srq=0, or fewer peers "
				"(peer_max=)",
				recv_cnt, strerror(errno));
}

/* max_send_wr is the limit that port_rc_attach has set, so attach comes first. With an SRQ the QP
 * has no receive ring of its own. */
static int verbs_rc_make_qp(struct verbs_rc_queue *q, uint32_t local)
{
	struct verbs_rc_peer *p = verbs_rc_peer_at(q, local);
	struct spw_peer *peer = port_rc_conn_peer(&q->rc, local);
	struct ibv_qp_init_attr attr = {
		.send_cq = q->tx_cq,
		.recv_cq = q->rx_cq,
		.srq = q->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = p->rc.sq_limit,
			.max_send_sge = 1,
			.max_recv_wr = q->srq ? 0 : peer->recv_cnt,
			.max_recv_sge = q->srq ? 0 : 1},
	};

	p->qp = peer->qp = ibv_create_qp(peer->pd, &attr);
	if (!p->qp)
		return spw_err(errno,
			       "no RC queue pair with %u receives and %u sends: %s; use fewer "
			       "peers (peer_max=) or credits=",
			       attr.cap.max_recv_wr, attr.cap.max_send_wr, strerror(errno));
	p->qpn = p->qp->qp_num;
	return 0;
}

/* rdma_rxe keeps the route of an RC QP through RESET (Linux drivers/infiniband/sw/rxe/rxe_net.c,
 * rxe_find_route: the dst of the QP's socket), so a QP that was connected to its own port sends to
 * the loopback interface ever after. */
int verbs_rc_qp_again(struct port_rc_queue *rc)
{
	struct verbs_rc_queue *q = verbs_rc_queue_of(rc);
	const int err = ibv_destroy_qp(verbs_rc_peer_at(q, 0)->qp);

	if (err)
		return spw_err(err, "a QP that was connected to itself is not destroyed: %s",
			       strerror(err));
	return verbs_rc_make_qp(q, 0);
}

/* Entries of a send queue: twice the credits, within SQ_MIN, SQ_MAX and the limit of the device. */
static uint32_t verbs_rc_sq_size(const struct verbs_rc_queue *q, uint32_t credits,
				 uint32_t ring_size)
{
	uint32_t want = ring_size ? ring_size : SPW_MIN(SPW_MAX(2 * credits, SQ_MIN), SQ_MAX);
	const uint32_t max = (uint32_t)verbs_rc_dev(q)->attr.orig_attr.max_qp_wr;

	want = spw_pow2_ceil32(SPW_MAX(want, SQ_MIN));
	while (want > max && want > SQ_MIN)
		want /= 2;
	return want;
}

/* The tables first: the QP's number and sizes are noted in them. */
static int verbs_rc_make_peer(struct verbs_rc_queue *q, uint32_t local, uint32_t sq_cnt,
			      uint32_t recv_cnt)
{
	const struct port_rc_peer_conf conf =
		port_rc_peer_conf_of(&q->rc, local, sq_cnt, q->srq ? 0 : spw_pow2_ceil32(recv_cnt));
	int rc = port_rc_attach(&q->rc, local, &conf);

	return rc ? rc : verbs_rc_make_qp(q, local);
}

static const struct port_rc_ops verbs_rc_ops = {
	.settle = verbs_rc_settle,
	.reap = verbs_rc_reap,
	.grant = verbs_rc_grant,
	.mark = verbs_rc_mark,
	.has_unread = verbs_rc_has_unread,
	.srq_empty = verbs_rc_srq_empty,
};

/* The peers of a queue are alike: what the first one has, each has. */
int verbs_rc_queue_make(struct verbs_rc_queue *q, const struct spw_port_queue_conf *conf)
{
	const struct port_peers *pp = q->rc.port;
	const struct spw_peer *peer = port_rc_conn_peer(&q->rc, 0);
	const struct port_rc_queue_conf qc = {
		.pool = q->rc.pool,
		.ops = &verbs_rc_ops,
		.flags = (pp->conf.srq ? PORT_RC_SRQ : 0) |
			 (pp->conf.op == SPW_PEER_OP_WRITE ? PORT_RC_WRITE : 0),
		.peer_bytes = sizeof(struct verbs_rc_peer),
		.peer_cnt = q->rc.peer_cnt,
		.index_cnt = pp->conf.peer_max,
		.index = q->rc.index,
		.port = pp->base.index,
	};
	const uint32_t sq_cnt = verbs_rc_sq_size(q, peer->credit_cnt, conf->ring_size);
	int rc = port_rc_queue_init(&q->rc, &qc);

	rc = rc ? rc : verbs_rc_make_cqs(q, qc.peer_cnt * peer->recv_cnt, qc.peer_cnt * sq_cnt);
	if (!rc && pp->conf.srq)
		rc = verbs_rc_make_srq(q, qc.peer_cnt * peer->recv_cnt);
	for (uint32_t i = 0; i < qc.peer_cnt && !rc; i++)
		rc = verbs_rc_make_peer(q, i, sq_cnt, peer->recv_cnt);
	return rc;
}

void verbs_rc_destroy_qps(struct port_rc_queue *rc)
{
	for (uint32_t i = 0; rc->peer && i < rc->peer_cnt; i++) {
		struct verbs_rc_peer *p = verbs_rc_peer_at(verbs_rc_queue_of(rc), i);

		if (p->qp)
			ibv_destroy_qp(p->qp);
		p->qp = NULL;
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
	port_rc_queue_fini(&q->rc);
}
