/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC: the objects of a queue and of its peers, made through rdma-core, and the memory behind them.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/mlx5/mlx5_rc.h"

#define INLINE_MAX 44u /* bytes of a message that fit a send WQE of one basic block */

static void check_free(int rc, const char *what)
{
	if (rc)
		spw_warn("mlx5 rc: %s was not destroyed: %s", what, strerror(rc));
}

/* ---- queue -------------------------------------------------------------------------------------------------- */

static int srq_make(struct mlx5_rc_queue *rq)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = rq->plan.peers * rq->plan.recvs, .max_sge = 1}};
	struct mlx5dv_srq dv = {0};
	struct mlx5dv_obj obj = {.srq.out = &dv};
	int rc;

	rq->srq = ibv_create_srq(rq->port->dev.rdma.pd, &attr);
	if (!rq->srq)
		return spw_err(errno, "a shared receive queue of %u entries: %s", rq->plan.peers * rq->plan.recvs, strerror(errno));
	obj.srq.in = rq->srq;
	rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ);
	if (rc)
		return spw_err(rc, "mlx5dv_init_obj of a shared receive queue: %s", strerror(rc));
	rq->srqmem = (struct spw_mlx5_rqmem){
		.buf = dv.buf, .dbrec = (spw_be32 *)dv.dbrec, .cnt = dv.tail + 1, .stride = dv.stride, .lkey = rq->lkey,
	};
	return 0;
}

/* The CQs are sized for all that can be under way, so nobody has to publish an index and they cannot overrun. */
int mlx5_rc_obj_make(struct mlx5_rc_queue *rq)
{
	struct ibv_td_init_attr td_attr = {0};
	int rc = 0;

	rq->td = ibv_alloc_td(rq->port->dev.rdma.ctx, &td_attr);
	if (rq->plan.flags & MLX5_RC_SRQ)
		rc = srq_make(rq);
	if (!rc && rq->plan.cq_cnt < rq->srqmem.cnt)
		rq->plan.cq_cnt = rq->srqmem.cnt;
	rc = rc ? rc : mlx5_cq_make(&rq->port->dev, rq->plan.cq_cnt, false, rq, &rq->cq, &rq->cqmem);
	return rc ? rc : mlx5_cq_make(&rq->port->dev, rq->plan.tx_cq_cnt, false, rq, &rq->tx_cq, &rq->tx_cqmem);
}

void mlx5_rc_obj_free(struct mlx5_rc_queue *rq)
{
	if (rq->srq)
		check_free(ibv_destroy_srq(rq->srq), "a shared receive queue");
	mlx5_cq_free(rq->cq);
	mlx5_cq_free(rq->tx_cq);
	if (rq->td)
		ibv_dealloc_td(rq->td);
	rq->srq = NULL;
	rq->cq = rq->tx_cq = NULL;
	rq->td = NULL;
}

/* ---- peers -------------------------------------------------------------------------------------------------- */

/* Small messages must not land in the CQE: the slot is where the executor looks. */
static struct ibv_qp *qp_create(struct mlx5_rc_queue *rq, struct rc_peer *peer, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = peer,
		.send_cq = ibv_cq_ex_to_cq(rq->tx_cq),
		.recv_cq = ibv_cq_ex_to_cq(rq->cq),
		.srq = rq->srq,
		.cap = {.max_send_wr = rq->plan.sq_limit, .max_send_sge = 1, .max_inline_data = INLINE_MAX,
			.max_recv_wr = rq->srq ? 0 : rq->plan.recvs, .max_recv_sge = rq->srq ? 0 : 1},
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

static int qp_memory(const struct mlx5_rc_queue *rq, const struct rc_peer *peer, const struct mlx5_rc_side *side,
		     struct spw_mlx5_rc_peermem *mem)
{
	struct mlx5dv_qp dv = {0};
	struct mlx5dv_obj obj = {.qp = {.in = side->qp, .out = &dv}};
	int rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP);

	if (rc)
		return spw_err(rc, "mlx5dv_init_obj of a queue pair: %s", strerror(rc));
	*mem = (struct spw_mlx5_rc_peermem){
		.rq = {.buf = dv.rq.buf, .dbrec = (spw_be32 *)&dv.dbrec[MLX5_RCV_DBR], .cnt = dv.rq.wqe_cnt, .stride = dv.rq.stride},
		.sq = {.buf = dv.sq.buf, .dbrec = (spw_be32 *)&dv.dbrec[MLX5_SND_DBR], .cnt = dv.sq.wqe_cnt,
		       .qpn = side->qp->qp_num, .bf = dv.bf.reg, .bf_bytes = side->domain ? dv.bf.size : 0},
		.sq_limit = rq->plan.sq_limit,
		.ring_out = peer->ring_out,
		.ring_in = peer->ring_in,
		.index = peer->index,
		.slot_first = peer->slot_first,
		.slot_cnt = peer->slot_cnt,
		.credits = peer->credit_cnt,
	};
	return 0;
}

int mlx5_rc_qp_make(struct mlx5_rc_queue *rq, struct rc_peer *peer, struct mlx5_rc_side *side,
		    struct spw_mlx5_rc_peermem *mem_out)
{
	struct ibv_parent_domain_init_attr pd_attr = {.pd = peer->pd, .td = rq->td};

	if (rq->td)
		side->domain = ibv_alloc_parent_domain(rq->port->dev.rdma.ctx, &pd_attr);
	side->qp = qp_create(rq, peer, side->domain ? side->domain : peer->pd);
	if (!side->qp)
		return spw_err(errno, "a queue pair for peer %u (%u sends, %u receives): %s", peer->index, rq->plan.sq_limit,
			       rq->srq ? 0 : rq->plan.recvs, strerror(errno));
	peer->qp = side->qp;
	return qp_memory(rq, peer, side, mem_out);
}

void mlx5_rc_qp_free(struct mlx5_rc_side *side)
{
	if (side->qp)
		check_free(ibv_destroy_qp(side->qp), "a queue pair");
	if (side->domain)
		check_free(ibv_dealloc_pd(side->domain), "a parent domain");
	*side = (struct mlx5_rc_side){0};
}
