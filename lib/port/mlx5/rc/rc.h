/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 RC on mlx5 (mode=rc), the control side. Per queue: a receive CQ, a send CQ, with srq=1 a
 * shared receive queue, and a doorbell register; per peer a QP. lib/peer brings the QPs up and says
 * whose turn it is; port/rc_turn.c takes the turns; queue.h is the data path over the objects'
 * memory.
 *
 *   port.c     open, set up, close      obj.c      objects of a queue
 *                                       recover.c  a CQ or SRQ that failed
 */
#ifndef SPW_PORT_MLX5_RC_H
#define SPW_PORT_MLX5_RC_H

#include "port/mlx5/dev.h"
#include "port/mlx5/rc/queue.h"
#include "port/rc_port.h"

struct mlx5_rc_port;

/* Sizes of the objects of a queue. */
struct mlx5_rc_plan {
	unsigned flags; /* enum mlx5_rc_flag */
	uint32_t recvs; /* of each peer */
	uint32_t cq_cnt, tx_cq_cnt, sq_limit;
};

/* One peer's QP, as memory. */
struct mlx5_rc_side {
	/* Parent domain of the peer's PD and the queue's doorbell register; NULL: none. */
	struct ibv_pd *domain;
	struct ibv_qp *qp;
	struct mlx5_rc_peermem mem;
};

/* All objects of a queue. Replaced as a whole when a CQ or the SRQ fails. */
struct mlx5_rc_obj {
	struct ibv_td *td;
	struct ibv_cq_ex *cq, *tx_cq;
	struct ibv_srq *srq;
	struct mlx5_cqmem cqmem, tx_cqmem;
	struct mlx5_rqmem srqmem;
	struct mlx5_rc_side side[PORT_RC_PEER_MAX]; /* by peer of the queue */
};

struct mlx5_rc_queue_ctl {
	struct mlx5_rc_queue q;
	struct mlx5_rc_port *port;
	struct mlx5_rc_plan plan;
	struct mlx5_rc_obj *obj;
	uint32_t failed_cnt;     /* failures of CQs and SRQs; written by control [M5] */
	uint32_t failed_handled; /* failures that the owner handled */
	bool failed_reported;    /* QUEUE_ERROR was delivered */
	uint32_t tries;
	uint64_t failed_tsc;
};

struct mlx5_rc_port {
	struct port_peers peers;
	struct mlx5_dev dev;
	struct mlx5_rc_queue_ctl *queue;
};

SPW_INLINE struct mlx5_rc_port *mlx5_rc_of(struct spw_port *port)
{
	return spw_container_of(port, struct mlx5_rc_port, peers.base);
}

/* rc/port.c: chosen by mode=rc. */
extern const struct spw_port_driver port_mlx5_rc_driver;
extern const struct spw_port_keys mlx5_rc_keys;

/* ---- rc/obj.c: objects to memory ---- */

/* Purpose: creates all objects of a queue by its plan.
 * Shape: spw_peer_conn_peer_setup was called for its peers.
 * Owner: the caller, until mlx5_rc_lay or mlx5_rc_obj_free.
 * Thread: setup; owner during recovery.
 * Errors: errno of the device, with a text; nothing is left. */
int mlx5_rc_obj_make(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj **obj_out);
/* Purpose: destroys the QPs, so that the NIC no longer uses the queue's slots. The rings of the CQs
 * and the SRQ stay mapped. NULL is fine. Thread: setup; owner during recovery. */
void mlx5_rc_obj_destroy_qps(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj);
/* Purpose: destroys all objects, the rings included. NULL is fine. Thread: as mlx5_rc_obj_make. */
void mlx5_rc_obj_free(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj);

/* Purpose: lays the queue's data path over obj and passes the QPs to lib/peer. Counters and the
 * count of lent slots are kept. Owner: on success obj is the queue's; on failure the queue is as it
 * was, and obj the caller's. Thread: setup; owner during recovery. Errors: -ENOMEM, -EINVAL. */
int mlx5_rc_lay(struct mlx5_rc_queue_ctl *rq, struct mlx5_rc_obj *obj);

/* ---- rc/recover.c: a queue whose CQ failed ---- */

/* spw_port_queue.events. */
uint16_t mlx5_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt);
/* spw_peer_dev.async. */
void mlx5_rc_async(void *arg, const struct ibv_async_event *event);

#endif
