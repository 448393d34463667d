/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/mlx5: raw Ethernet (mode=eth), its objects and control calls. The data path of a
 * queue is eth/queue.h. Per queue a completion queue, a receive work
 * queue, and a send queue with a doorbell register of its own; over all queues one set of RSS QPs
 * with flow rules in front.
 *
 *   frame ─► flow rule ─► RSS QP (Toeplitz) ─► indirection table ─► WQ of queue i ─► CQ of queue i
 *
 * After set-up the queues share nothing. A failed queue is recovered by its own lcore
 * in spw_port_queue.events, under rdma_dev.lock where it touches what all share (steering, memory
 * keys).
 */
#ifndef SPW_PORT_MLX5_ETH_H
#define SPW_PORT_MLX5_ETH_H

#include "port/eth_port.h"
#include "port/mlx5/dev.h"
#include "port/mlx5/eth/queue.h"
#include "rdma/spw_rdma_drain.h"
#include "rdma/spw_rdma_side.h"

/* ---- queues ---- */

struct mlx5_eth_queue_ctl;
struct mlx5_eth_port;

struct mlx5_eth_rx_obj {
	struct ibv_cq_ex *cq;
	struct ibv_wq *wq;
	struct mlx5_cqmem cqmem;
	struct mlx5_rqmem rqmem;
};

struct mlx5_eth_tx_obj {
	/* Gives the queue a doorbell register of its own; NULL: the device has none to give, so
	 * sends use the shared 8-byte doorbell. */
	struct ibv_td *td;
	struct ibv_pd *pd; /* parent domain over td; NULL: the device's */
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct mlx5_cqmem cqmem;
	struct mlx5_sqmem sqmem;
};

/* What the queue is made of, from profile, pool and device. */
struct mlx5_eth_plan {
	unsigned flags; /* enum mlx5_flag */
	uint32_t rq_cnt, cq_cnt, sq_cnt, strides_log2, stride_log2;
	uint32_t refill_min;
	bool tx_stamps; /* CQEs of sent frames are stamped by the clock that frames are stamped by
			 */
	char why[160];  /* reason for the fallback; empty if the profile was met */
};

/* A queue with its objects. q is first: what the data path reads. */
struct mlx5_eth_queue_ctl {
	struct mlx5_eth_queue q;
	struct mlx5_eth_port *port;
	struct mlx5_eth_plan plan;
	struct rdma_side rx_side, tx_side;
	struct mlx5_eth_rx_obj rx;
	struct mlx5_eth_tx_obj tx;
};

struct mlx5_eth_port {
	struct port_eth eth;
	struct mlx5_dev dev;
	struct mlx5_eth_queue_ctl *queue;
	uint32_t split; /* bytes of a frame's head; 0: frames lie in one piece */
};

SPW_INLINE struct mlx5_eth_port *mlx5_eth_of(struct spw_port *port)
{
	return spw_container_of(port, struct mlx5_eth_port, eth.base);
}

/* ---- eth/port.c ---- */

extern const struct spw_port_driver mlx5_eth_driver;
extern const struct spw_port_keys mlx5_eth_keys;

/* Purpose: as spw_port_driver.open, for mode=eth. */
int mlx5_eth_open(const struct spw_port_spec *spec, uint16_t index, uint16_t queue_cnt,
		  struct spw_port **port_out);

/* ---- eth/plan.c ---- */

/* Purpose: chooses sizes and variant of a queue from its profile, its pool and the device.
 * Thread:  setup
 * Errors:  -EINVAL a ring that the pool cannot fill. */
int mlx5_eth_plan_make(const struct mlx5_dev *dev, const struct spw_port_queue_conf *conf,
		       struct mlx5_eth_plan *plan_out);

/* ---- eth/obj.c: objects and the memory behind them; 0 or -errno with a text ---- */

/* Purpose: creates the CQ and WQ (CQ, doorbell register and QP) of one queue.
 * Shape:   side: the context that asynchronous events of these objects carry. lkey: of the pool's
 *          region; head_lkey: of its heads', if the plan has MLX5_F_SPLIT.
 * Owner:   the caller, until free. side outlives the objects.
 * Thread:  setup, or owner in events */
int mlx5_eth_rx_make(struct mlx5_dev *dev, const struct mlx5_eth_plan *plan, struct rdma_side *side,
		     uint32_t lkey, uint32_t head_lkey, struct mlx5_eth_rx_obj *rx_out);
int mlx5_eth_tx_make(struct mlx5_dev *dev, const struct mlx5_eth_plan *plan, struct rdma_side *side,
		     uint32_t lkey, struct mlx5_eth_tx_obj *tx_out);
/* Zeroed objects are fine. */
void mlx5_eth_rx_free(struct mlx5_eth_rx_obj *rx);
void mlx5_eth_tx_free(struct mlx5_eth_tx_obj *tx);

/* ---- eth/recover.c ---- */

/* Reset and re-create for eth/err.c; ops.obj is a struct mlx5_eth_queue_ctl. */
extern const struct mlx5_eth_ops mlx5_eth_recover_ops;

#endif
