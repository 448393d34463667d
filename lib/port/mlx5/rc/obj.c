/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects of a queue and of its peers, created through rdma-core, and the memory behind them as
 * mlx5dv reports it. port.c creates them at set-up, recover.c after a CQ or the SRQ failed.
 *
 * What refers to what; each is destroyed before those that it points to:
 *
 *   QP of a peer --> receive CQ, send CQ, SRQ     shared by the peers of the queue
 *       |
 *       +--> parent domain --> PD of the peer     which memory it can reach
 *                  |
 *                  +---------> thread domain      a doorbell register for this queue alone
 *
 * Without a thread domain the QPs may share registers with others of the process, and doorbells are
 * written without BlueFlame (bf_bytes 0).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/mlx5/rc/rc.h"

#define INLINE_MAX 44u /* bytes of a message that fit a send WQE of one basic block */

/* EBUSY would mean that an object was destroyed out of order. The rest is destroyed
 * nevertheless. */
static void mlx5_rc_check_free(int rc, const char *what)
{
	if (rc)
		spw_warn("mlx5 rc: %s was not destroyed: %s", what, strerror(rc));
}

/* ---- what the peers share ---- */

/* libmlx5's free list runs from head to tail through all WQEs of a new SRQ, so tail + 1 is their
 * number. */
static int mlx5_rc_srq_make(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = rq,
		.attr = {.max_wr = rq->q.rc.peer_cnt * rq->plan.recvs, .max_sge = 1}};
	struct mlx5dv_srq dv = {0};
	struct mlx5dv_obj dv_obj = {.srq.out = &dv};
	int rc;

	obj->srq = ibv_create_srq(rq->port->dev.rdma.pd, &attr);
	if (!obj->srq)
		return spw_err(errno,
			       "a shared receive queue of %u entries: %s; use srq=0, or fewer "
			       "peers (peer_max=)",
			       rq->q.rc.peer_cnt * rq->plan.recvs, strerror(errno));
	dv_obj.srq.in = obj->srq;
	rc = mlx5dv_init_obj(&dv_obj, MLX5DV_OBJ_SRQ);
	if (rc)
		return spw_err(rc, "mlx5dv_init_obj of a shared receive queue: %s", strerror(rc));
	obj->srqmem = (struct mlx5_rqmem){
		.buf = dv.buf,
		.dbrec = (spw_be32 *)dv.dbrec,
		.cnt = dv.tail + 1,
		.stride = dv.stride,
		.lkey = rq->q.rc.lkey,
	};
	return 0;
}

/* The CQs hold a completion for everything that can be posted, so they cannot overrun. From
 * mlx5dv_init_obj on they are ours alone: libmlx5 leaves such a CQ as it is, even when one of its
 * QPs is reset (MLX5_CQ_FLAGS_DV_OWNED in rdma-core's providers/mlx5/cq.c). */
static int mlx5_rc_shared_make(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj)
{
	struct ibv_td_init_attr td_attr = {0};
	struct mlx5_dev *dev = &rq->port->dev;
	int rc = 0;

	obj->td = ibv_alloc_td(dev->rdma.ctx, &td_attr);
	if (rq->plan.flags & PORT_RC_SRQ)
		rc = mlx5_rc_srq_make(rq, obj);
	rc = rc ? rc
		: mlx5_cq_make(&dev->rdma, SPW_MAX(rq->plan.cq_cnt, obj->srqmem.cnt),
			       (rq->plan.flags & MLX5_RC_COMPRESSED ? MLX5_CQ_COMPRESSED : 0) |
				       (rq->plan.flags & MLX5_RC_STAMP ? MLX5_CQ_STAMPS : 0),
			       rq, &obj->cq, &obj->cqmem);
	return rc ? rc
		  : mlx5_cq_make(&dev->rdma, rq->plan.tx_cq_cnt, 0, rq, &obj->tx_cq,
				 &obj->tx_cqmem);
}

/* ---- peers ---- */

/* Small messages must not be scattered into the CQE: the executor reads the slot. */
static struct ibv_qp *mlx5_rc_qp_create(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj,
					struct spw_peer *peer, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = peer,
		.send_cq = ibv_cq_ex_to_cq(obj->tx_cq),
		.recv_cq = ibv_cq_ex_to_cq(obj->cq),
		.srq = obj->srq,
		.cap = {.max_send_wr = rq->plan.sq_limit,
			.max_send_sge = 1,
			.max_inline_data = INLINE_MAX,
			.max_recv_wr = obj->srq ? 0 : rq->plan.recvs,
			.max_recv_sge = obj->srq ? 0 : 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct mlx5dv_qp_init_attr dv_attr = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
	};

	return mlx5dv_create_qp(rq->port->dev.rdma.ctx, &attr, &dv_attr);
}

/* From here on the rings are written by queue.c alone; libmlx5 is used for states and destruction
 * only. */
static int mlx5_rc_qp_memory(const struct mlx5_rc_queue_ctl *rq, uint32_t local,
			     struct mlx5_rc_side *side)
{
	struct mlx5dv_qp dv = {0};
	struct mlx5dv_obj dv_obj = {.qp = {.in = side->qp, .out = &dv}};
	int rc = mlx5dv_init_obj(&dv_obj, MLX5DV_OBJ_QP);

	if (rc)
		return spw_err(rc, "mlx5dv_init_obj of a queue pair: %s", strerror(rc));
	side->mem = (struct mlx5_rc_peermem){
		.rq = {.buf = dv.rq.buf,
		       .dbrec = (spw_be32 *)&dv.dbrec[MLX5_RCV_DBR],
		       .cnt = dv.rq.wqe_cnt,
		       .stride = dv.rq.stride},
		.sq = {.buf = dv.sq.buf,
		       .dbrec = (spw_be32 *)&dv.dbrec[MLX5_SND_DBR],
		       .cnt = dv.sq.wqe_cnt,
		       .qpn = side->qp->qp_num,
		       .bf = dv.bf.reg,
		       .bf_bytes = side->domain ? dv.bf.size : 0},
		.rc = port_rc_peer_conf_of(&rq->q.rc, local, dv.sq.wqe_cnt, dv.rq.wqe_cnt),
	};
	side->mem.rc.sq_limit = rq->plan.sq_limit;
	return 0;
}

/* side is filled as objects are made: after a failure mlx5_rc_obj_free destroys those that
 * exist. */
static int mlx5_rc_qp_make(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj, uint32_t local)
{
	struct spw_peer *peer = port_rc_conn_peer(&rq->q.rc, local);
	struct mlx5_rc_side *side = &obj->side[local];
	struct ibv_parent_domain_init_attr pd_attr = {.pd = peer->pd, .td = obj->td};

	if (obj->td)
		side->domain = ibv_alloc_parent_domain(rq->port->dev.rdma.ctx, &pd_attr);
	side->qp = mlx5_rc_qp_create(rq, obj, peer, side->domain ? side->domain : peer->pd);
	if (!side->qp)
		return spw_err(errno,
			       "a queue pair for peer %u (%u sends, %u receives): %s; use fewer "
			       "peers (peer_max=) or credits=",
			       peer->index, rq->plan.sq_limit, obj->srq ? 0 : rq->plan.recvs,
			       strerror(errno));
	return mlx5_rc_qp_memory(rq, local, side);
}

/* ---- all of them ---- */

int mlx5_rc_obj_make(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj **obj_out)
{
	struct mlx5_rc_obj *obj = calloc(1, sizeof(*obj));
	int rc = obj ? mlx5_rc_shared_make(rq, obj)
		     : spw_err(ENOMEM, "no memory for the objects of queue %u", rq->q.rc.index);

	for (uint32_t i = 0; i < rq->q.rc.peer_cnt && !rc; i++)
		rc = mlx5_rc_qp_make(rq, obj, i);
	if (rc) {
		mlx5_rc_obj_free(rq, obj);
		return rc;
	}
	*obj_out = obj;
	return 0;
}

void mlx5_rc_obj_destroy_qps(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj)
{
	for (uint32_t i = 0; obj && i < rq->q.rc.peer_cnt; i++) {
		if (obj->side[i].qp)
			mlx5_rc_check_free(ibv_destroy_qp(obj->side[i].qp), "a queue pair");
		if (obj->side[i].domain)
			mlx5_rc_check_free(ibv_dealloc_pd(obj->side[i].domain), "a parent domain");
		obj->side[i] = (struct mlx5_rc_side){0};
	}
}

void mlx5_rc_obj_free(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj)
{
	mlx5_rc_obj_destroy_qps(rq, obj);
	if (!obj)
		return;
	if (obj->srq)
		mlx5_rc_check_free(ibv_destroy_srq(obj->srq), "a shared receive queue");
	mlx5_cq_free(obj->cq);
	mlx5_cq_free(obj->tx_cq);
	if (obj->td)
		ibv_dealloc_td(obj->td);
	free(obj);
}

/* The new queue is built beside the old one and replaces it only when complete: a failed recovery
 * can be tried again. Counters carry over, since they belong to the run. So does lent_cnt: no slot
 * of a peer is lent at this point (recover.c waits for it), but slots of the pool may be. */
int mlx5_rc_lay(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj)
{
	struct mlx5_rc_queue_conf qc = {
		.cq = obj->cqmem,
		.tx_cq = obj->tx_cqmem,
		.srq = obj->srqmem,
		.rc = {.pool = rq->q.rc.pool,
		       .flags = rq->plan.flags,
		       .peer_cnt = rq->q.rc.peer_cnt,
		       .index_cnt = rq->port->peers.conf.peer_max,
		       .index = rq->q.rc.index,
		       .port = rq->port->peers.base.index},
	};
	struct mlx5_rc_queue was = rq->q;
	int rc = mlx5_rc_queue_init(&rq->q, &qc);

	for (uint32_t i = 0; i < qc.rc.peer_cnt && !rc; i++)
		rc = mlx5_rc_attach(&rq->q, i, &obj->side[i].mem);
	if (rc) {
		mlx5_rc_queue_fini(&rq->q);
		rq->q = was;
		return rc;
	}
	mlx5_rc_queue_fini(&was);
	rq->obj = obj;
	for (uint32_t i = 0; i < qc.rc.peer_cnt; i++)
		port_rc_conn_peer(&rq->q.rc, i)->qp = obj->side[i].qp;
	return 0;
}
