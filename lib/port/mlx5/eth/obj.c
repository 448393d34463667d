/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Creates the objects of one raw Ethernet queue through rdma-core and reports where their memory
 * is. Called by eth/port.c at set-up and by eth/recover.c; source: mlx5dv_init_obj(3).
 *
 *   receive   CQ (mlx5_cq_make) ─► WQ ─► mlx5dv_init_obj: address, doorbell record, entry size
 *   send      CQ ─► thread domain ─► raw packet QP ─► mlx5dv_init_obj: the same, and the register
 *
 * States: WQ RESET ─► RDY; QP RESET ─► INIT ─► RTR ─► RTS. A reset clears the ring's indices on the
 * NIC's side; eth/err.c clears them on ours.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/mlx5/eth/eth.h"

/* A failure to destroy is logged and leaks: nothing else can be done about it. */
static void mlx5_eth_check_free(int rc, const char *what)
{
	if (rc)
		spw_warn("mlx5: %s was not destroyed: %s", what, strerror(rc));
}

/* ---- receive ---- */

/* mlx5dv_create_wq() leaves out what the inline ibv_create_wq() adds to every provider's WQ: the
 * context, by which events name the queue, and the lock of the count of events. */
static struct ibv_wq *mlx5_eth_wq_create_striding(struct mlx5_dev *dev,
						  const struct mlx5_eth_plan *plan,
						  struct ibv_wq_init_attr *attr)
{
	struct mlx5dv_wq_init_attr dv_attr = {
		.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
		.striding_rq_attrs = {.single_stride_log_num_of_bytes = plan->stride_log2,
				      .single_wqe_log_num_of_strides = plan->strides_log2},
	};
	struct ibv_wq *wq = mlx5dv_create_wq(dev->rdma.ctx, attr, &dv_attr);

	if (!wq)
		return NULL;
	wq->wq_context = attr->wq_context;
	wq->events_completed = 0;
	pthread_mutex_init(&wq->mutex, NULL);
	pthread_cond_init(&wq->cond, NULL);
	return wq;
}

static struct ibv_wq *mlx5_eth_wq_create(struct mlx5_dev *dev, const struct mlx5_eth_plan *plan,
					 struct rdma_side *side, struct ibv_cq_ex *cq)
{
	struct ibv_wq_init_attr attr = {
		.wq_context = side,
		.wq_type = IBV_WQT_RQ,
		.max_wr = plan->rq_cnt,
		.max_sge = plan->flags & MLX5_F_SPLIT ? 2 : 1,
		.pd = dev->rdma.pd,
		.cq = ibv_cq_ex_to_cq(cq),
	};

	return plan->flags & MLX5_F_STRIDING ? mlx5_eth_wq_create_striding(dev, plan, &attr)
					     : ibv_create_wq(dev->rdma.ctx, &attr);
}

/* Where rdma-core has put the ring: from here on it is plain memory. */
static int mlx5_eth_wq_memory(const struct mlx5_eth_plan *plan, struct mlx5_eth_rx_obj *rx,
			      uint32_t lkey, uint32_t head_lkey)
{
	struct mlx5dv_rwq dv = {0};
	struct mlx5dv_obj obj = {.rwq = {.in = rx->wq, .out = &dv}};
	int rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ);

	if (rc)
		return spw_err(rc, "mlx5dv_init_obj of a receive queue: %s", strerror(rc));
	rx->rqmem = (struct mlx5_rqmem){
		.buf = dv.buf,
		.dbrec = (spw_be32 *)dv.dbrec,
		.cnt = dv.wqe_cnt,
		.stride = dv.stride,
		.lkey = lkey,
		.head_lkey = head_lkey,
		.strides_log2 = plan->strides_log2,
	};
	return 0;
}

/* side is the context of both objects, by which events name this direction. On an error nothing is
 * left. */
int mlx5_eth_rx_make(struct mlx5_dev *dev, const struct mlx5_eth_plan *plan, struct rdma_side *side,
		     uint32_t lkey, uint32_t head_lkey, struct mlx5_eth_rx_obj *rx)
{
	int rc;

	memset(rx, 0, sizeof(*rx));
	rc = mlx5_cq_make(&dev->rdma, plan->cq_cnt,
			  (plan->flags & MLX5_F_COMPRESSED ? MLX5_CQ_COMPRESSED : 0) |
				  (plan->flags & MLX5_F_STAMP ? MLX5_CQ_STAMPS : 0),
			  side, &rx->cq, &rx->cqmem);
	if (rc)
		return rc;
	rx->wq = mlx5_eth_wq_create(dev, plan, side, rx->cq);
	rc = rx->wq ? mlx5_eth_wq_memory(plan, rx, lkey, head_lkey)
		    : rdma_raw_denied("a receive queue");
	if (rc)
		mlx5_eth_rx_free(rx);
	return rc;
}

/* The WQ goes before the CQ that it uses. Zeroed is fine. */
void mlx5_eth_rx_free(struct mlx5_eth_rx_obj *rx)
{
	if (rx->wq)
		mlx5_eth_check_free(ibv_destroy_wq(rx->wq), "a receive queue");
	mlx5_cq_free(rx->cq);
	memset(rx, 0, sizeof(*rx));
}

/* ---- send ---- */

/* Gives the send queue a doorbell register that no other queue writes: in verbs, a thread domain.
 */
static void mlx5_eth_own_register(struct mlx5_dev *dev, struct mlx5_eth_tx_obj *tx)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_parent_domain_init_attr pd_attr = {.pd = dev->rdma.pd};

	tx->td = ibv_alloc_td(dev->rdma.ctx, &td_attr);
	if (!tx->td)
		return;
	pd_attr.td = tx->td;
	tx->pd = ibv_alloc_parent_domain(dev->rdma.ctx, &pd_attr);
	if (tx->pd)
		return;
	ibv_dealloc_td(tx->td);
	tx->td = NULL;
}

/* The register is shared with other queues unless a thread domain was granted; then BlueFlame is
 * not used. */
static int mlx5_eth_sq_memory(struct mlx5_eth_tx_obj *tx, uint32_t lkey)
{
	struct mlx5dv_qp dv = {.comp_mask = MLX5DV_QP_MASK_RAW_QP_HANDLES};
	struct mlx5dv_obj obj = {.qp = {.in = tx->qp, .out = &dv}};
	int rc = mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP);

	if (rc)
		return spw_err(rc, "mlx5dv_init_obj of a send queue: %s", strerror(rc));
	tx->sqmem = (struct mlx5_sqmem){
		.buf = dv.sq.buf,
		.dbrec = (spw_be32 *)&dv.dbrec[MLX5_SND_DBR],
		.cnt = dv.sq.wqe_cnt,
		.qpn = dv.comp_mask & MLX5DV_QP_MASK_RAW_QP_HANDLES && dv.sqn ? dv.sqn
									      : tx->qp->qp_num,
		.lkey = lkey,
		.bf = dv.bf.reg,
		.bf_bytes = tx->td ? dv.bf.size : 0,
	};
	return 0;
}

/* As mlx5_eth_rx_make. A raw packet QP also wants a receive CQ, although it receives nothing. */
int mlx5_eth_tx_make(struct mlx5_dev *dev, const struct mlx5_eth_plan *plan, struct rdma_side *side,
		     uint32_t lkey, struct mlx5_eth_tx_obj *tx)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = side,
		.qp_type = IBV_QPT_RAW_PACKET,
		.cap = {.max_send_wr = plan->sq_cnt, .max_send_sge = 1},
	};
	int rc;

	memset(tx, 0, sizeof(*tx));
	rc = mlx5_cq_make(&dev->rdma, plan->sq_cnt, plan->tx_stamps ? MLX5_CQ_STAMPS : 0, side,
			  &tx->cq, &tx->cqmem);
	if (rc)
		return rc;
	mlx5_eth_own_register(dev, tx);
	attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(tx->cq);
	tx->qp = ibv_create_qp(tx->pd ? tx->pd : dev->rdma.pd, &attr);
	rc = tx->qp ? mlx5_eth_sq_memory(tx, lkey) : rdma_raw_denied("a send queue");
	if (rc)
		mlx5_eth_tx_free(tx);
	return rc;
}

/* In the opposite order of creation. Zeroed is fine. */
void mlx5_eth_tx_free(struct mlx5_eth_tx_obj *tx)
{
	if (tx->qp)
		mlx5_eth_check_free(ibv_destroy_qp(tx->qp), "a send queue");
	mlx5_cq_free(tx->cq);
	if (tx->pd)
		ibv_dealloc_pd(tx->pd);
	if (tx->td)
		ibv_dealloc_td(tx->td);
	memset(tx, 0, sizeof(*tx));
}
