/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/mlx5: RoCE v2 RC (mode=rc). Per queue a receive CQ and a send CQ, with srq=1 a shared receive queue, and a
 * doorbell register of its own; per peer a QP. rc_conn.h brings the QPs up and says whose turn it is; mlx5_rc_impl.h is the
 * data path over their memory.
 */
#ifndef SPW_PORT_MLX5_RC_H
#define SPW_PORT_MLX5_RC_H

#include "port/mlx5/mlx5_dev.h"
#include "port/mlx5/mlx5_rc_impl.h"
#include "port/port_impl.h"
#include "port/rdma/rc_conn.h"

struct mlx5_rc_port;

/* How large the objects of a queue are. */
struct mlx5_rc_plan {
	unsigned flags;            /* enum spw_mlx5_rc_flag */
	uint32_t peers;            /* of this queue: its index, its index + queue_cnt, ... */
	uint32_t share;            /* slots of each */
	uint32_t recvs;            /* of each */
	uint32_t cq_cnt, tx_cq_cnt, sq_limit;
};

/* One peer's QP, as memory. */
struct mlx5_rc_side {
	struct ibv_pd *domain;     /* the peer's PD with the queue's doorbell register; NULL: the device gave none */
	struct ibv_qp *qp;
	struct spw_mlx5_rc_peermem mem;
};

/* All objects of a queue. */
struct mlx5_rc_obj {
	struct ibv_td *td;
	struct ibv_cq_ex *cq, *tx_cq;
	struct ibv_srq *srq;
	struct spw_mlx5_cqmem cqmem, tx_cqmem;
	struct spw_mlx5_rqmem srqmem;
	struct mlx5_rc_side side[MLX5_RC_PEER_MAX]; /* by peer of the queue */
};

/* Who has the slots of a queue's peers. */
enum mlx5_rc_slots { SLOTS_IN_POOL, SLOTS_TAKEN, SLOTS_IN_QUEUE };

struct mlx5_rc_queue {
	struct spw_mlx5_rc_queue q;
	enum mlx5_rc_slots slots_at;
	struct mlx5_rc_port *port;
	struct spw_pool *pool;
	struct mlx5_rc_plan plan;
	uint16_t index;
	uint32_t lkey;             /* op=send: of the pool; may change */
	struct mlx5_rc_obj *obj;
	uint32_t dead_told;        /* CQs and SRQs that failed [M5 release by the control thread, M6 acquire by the owner] */
	uint32_t dead_seen;        /* the owner's */
	bool dead, dead_said;      /* the owner's: the objects must be made anew; it was told */
	uint32_t tries;
	uint64_t dead_tsc;
};

struct mlx5_rc_port {
	struct spw_port base;
	struct mlx5_dev dev;
	struct rc_conf conf;
	struct rc_dev rc_dev;
	struct rc_conn *conn;
	bool started;
	struct mlx5_rc_queue *queue;
};

SPW_INLINE struct mlx5_rc_port *mlx5_rc_of(struct spw_port *port)
{
	return spw_container_of(port, struct mlx5_rc_port, base);
}

SPW_INLINE struct rc_peer *mlx5_rc_conn_peer(const struct mlx5_rc_queue *rq, uint32_t local)
{
	return rc_conn_peer(rq->port->conn, rq->index + local * rq->port->base.queue_cnt);
}

/* mlx5_rc_port.c: chosen by mode=rc. */
extern const struct spw_port_driver port_mlx5_rc_driver;

/* ---- mlx5_rc_obj.c: objects to memory ---- */

/* Purpose: all objects of a queue by its plan; rc_conn_peer_setup has dealt with its peers. Errors: -errno with a text, and
 *          nothing is left. Thread: setup; owner when they are made anew. */
int mlx5_rc_obj_make(struct mlx5_rc_queue *rq, struct mlx5_rc_obj **obj_out);
/* Purpose: destroys the QPs: the NIC lets go of the queue's slots. The rings' memory stays. NULL is fine. Thread: setup. */
void mlx5_rc_obj_let(struct mlx5_rc_queue *rq, struct mlx5_rc_obj *obj);
/* Purpose: all of it, the rings included. NULL is fine. */
void mlx5_rc_obj_free(struct mlx5_rc_queue *rq, struct mlx5_rc_obj *obj);

/* Purpose: lays the queue's data path over obj, which is the queue's from now on; gives the QPs to rc_conn. Errors: -ENOMEM,
 *          -EINVAL: the queue is as it was. Thread: setup; owner. */
int mlx5_rc_lay(struct mlx5_rc_queue *rq, struct mlx5_rc_obj *obj);

/* ---- mlx5_rc_turn.c: the owner's turns in the life of a peer ---- */

/* spw_port_queue.events. */
uint16_t mlx5_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt);
/* ---- mlx5_rc_mend.c: a queue whose CQ failed ---- */

/* rc_dev.async. */
void mlx5_rc_told(void *arg, const struct ibv_async_event *event);
/* Purpose: sees that a CQ or the SRQ failed: every peer of the queue goes down. */
void mlx5_rc_mend_look(struct mlx5_rc_queue *rq);
/* Purpose: when nothing of the peers is under way any more, makes all objects anew. Returns: events written, 0 .. 1. */
uint16_t mlx5_rc_mend(struct mlx5_rc_queue *rq, struct spw_port_event *event);

/* Purpose: after rc_conn_stop: takes what the flush brings, for a while; counts messages that nobody polled. Thread: setup. */
void mlx5_rc_drain(struct mlx5_rc_queue *rq);

#endif
