/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/mlx5: raw Ethernet (mode=eth). Per queue a completion queue, a receive work queue, and a send queue with a
 * doorbell register of its own; over all queues one set of RSS QPs with flow rules in front.
 *
 *   frame ─► flow rule ─► RSS QP (Toeplitz) ─► indirection table ─► WQ of queue i ─► CQ of queue i
 *
 * After set-up the queues share nothing. When a queue has to be mended, its lcore does it from spw_port_queue.events, under
 * rdma_dev.lock where it touches what all share (steering, memory keys).
 */
#ifndef SPW_PORT_MLX5_ETH_H
#define SPW_PORT_MLX5_ETH_H

#include "port/mlx5/mlx5_dev.h"
#include "port/port_impl.h"
#include "port/rdma/rdma_ctl.h"
#include "port/rdma/rdma_flow.h"
#include "port/rdma/rdma_side.h"

/* ---- queues ------------------------------------------------------------------------------------------ */

struct mlx5_eth_queue;
struct mlx5_eth_port;

struct mlx5_rx_obj {
	struct ibv_cq_ex *cq;
	struct ibv_wq *wq;
	struct spw_mlx5_cqmem cqmem;
	struct spw_mlx5_rqmem rqmem;
};

struct mlx5_tx_obj {
	struct ibv_td *td;         /* a doorbell register of its own; NULL: the device gave none, the 8-byte doorbell it is */
	struct ibv_pd *pd;         /* parent domain over td; NULL: the device's */
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct spw_mlx5_cqmem cqmem;
	struct spw_mlx5_sqmem sqmem;
};

/* What the queue is made of, from profile, pool and device. */
struct mlx5_plan {
	unsigned flags;            /* enum spw_mlx5_flag */
	uint32_t rq_cnt, cq_cnt, sq_cnt, strides_log2, stride_log2;
	uint32_t refill_min;
	char why[160];             /* why not what the profile would like; "" it is */
};

struct mlx5_eth_queue {
	struct spw_mlx5_queue q;
	struct mlx5_eth_port *port;
	struct mlx5_plan plan;
	struct rdma_side rx_side, tx_side;
	struct mlx5_rx_obj rx;
	struct mlx5_tx_obj tx;
};

struct mlx5_eth_port {
	struct spw_port base;
	struct mlx5_dev dev;
	struct rdma_flow_conf flow;
	struct rdma_steer steer;
	struct rdma_ctl *ctl;
	struct ibv_wq *wq[SPW_PORT_QUEUE_MAX]; /* of the queues, as the indirection table wants them */
	bool started;
	bool drops_known;          /* out_of_buffer can be read */
	uint64_t drops_base;       /* of it at start */
	struct mlx5_eth_queue *queue;
};

SPW_INLINE struct mlx5_eth_port *mlx5_eth_of(struct spw_port *port)
{
	return spw_container_of(port, struct mlx5_eth_port, base);
}

/* ---- mlx5_plan.c ---- */

/* Purpose: sizes and variant of a queue. Errors: -EINVAL a ring that the pool cannot fill. */
int mlx5_plan_make(const struct mlx5_dev *dev, const struct spw_port_queue_conf *conf, struct mlx5_plan *plan_out);

/* ---- mlx5_obj.c: objects to memory ---- */

int mlx5_rx_make(struct mlx5_dev *dev, const struct mlx5_plan *plan, struct rdma_side *side, uint32_t lkey,
		 struct mlx5_rx_obj *rx_out);
void mlx5_rx_free(struct mlx5_rx_obj *rx);
int mlx5_tx_make(struct mlx5_dev *dev, const struct mlx5_plan *plan, struct rdma_side *side, uint32_t lkey,
		 struct mlx5_tx_obj *tx_out);
void mlx5_tx_free(struct mlx5_tx_obj *tx);
int mlx5_wq_state(struct ibv_wq *wq, enum ibv_wq_state state);
/* RESET, or RESET to ready to send. */
int mlx5_sq_reset(struct ibv_qp *qp);
int mlx5_sq_ready(const struct mlx5_dev *dev, struct ibv_qp *qp);

/* ---- mlx5_mend.c: spw_mlx5_ops over them ---- */

extern const struct spw_mlx5_ops mlx5_eth_ops;

#endif
