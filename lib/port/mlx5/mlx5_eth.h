/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/mlx5: raw Ethernet (mode=eth). Per queue a completion queue, a receive work queue, and a send queue with a
 * doorbell register of its own; over all queues one set of RSS QPs with flow rules in front.
 *
 *   frame ─► flow rule ─► RSS QP (Toeplitz) ─► indirection table ─► WQ of queue i ─► CQ of queue i
 *
 * After set-up the queues share nothing. When a queue has to be mended, its lcore does it from spw_port_queue.events, under
 * mlx5_dev.lock where it touches what all share (steering, memory keys).
 */
#ifndef SPW_PORT_MLX5_ETH_H
#define SPW_PORT_MLX5_ETH_H

#include "port/mlx5/mlx5_dev.h"
#include "port/port_impl.h"
#include "port/rdma/rdma_ctl.h"

/* ---- flow rules: which frames are ours ------------------------------------------------------------ */

#define MLX5_FLOW_PORT_MAX 16u
#define MLX5_FLOW_RULE_MAX (2u * MLX5_FLOW_PORT_MAX)

enum mlx5_l3 { MLX5_L3_IPV4, MLX5_L3_IPV6, MLX5_L3_ANY };
enum mlx5_l4 { MLX5_L4_UDP, MLX5_L4_TCP, MLX5_L4_ANY };

/* One rule of the device: exactly one kind of packet, because a device hashes one kind with one QP. */
struct mlx5_rule {
	enum mlx5_l3 l3;
	enum mlx5_l4 l4;           /* ANY where l3 is ANY */
	uint16_t port;             /* destination; 0: any */
};

struct mlx5_flow_conf {
	bool has_mac, has_vlan, has_ipv4, has_ipv6;
	uint8_t mac[6];
	uint16_t vlan;
	uint8_t ipv4[4], ipv6[16]; /* in the order of the wire */
	struct mlx5_rule rule[MLX5_FLOW_RULE_MAX];
	uint32_t rule_cnt;
};

/* Purpose: the rules that mac=, vlan=, ipv4=, ipv6=, udp=, tcp= (the last two more than once) and flow=all ask for. What is
 *          named must all hold; several ports are alternatives. Nothing named: all frames.
 * Errors:  -EINVAL with the key. Thread: any. */
int mlx5_flow_parse(const struct spw_port_spec *spec, struct mlx5_flow_conf *conf_out);

/* One RSS QP per kind of packet that a rule names; the last kind, without IP, goes to queue 0. */
#define MLX5_KIND_CNT 7u

struct mlx5_steer {
	struct ibv_rwq_ind_table *table, *table_one;
	struct ibv_qp *qp[MLX5_KIND_CNT];
	struct ibv_flow *flow[MLX5_FLOW_RULE_MAX];
};

/* Purpose: RSS over wq[0 .. cnt-1], then the rules, in the order of their words. Undone whole when a part fails.
 * Errors: -EPERM CAP_NET_RAW is missing; what the device says of a rule that it refuses, with the rule. Thread: setup, or an
 *         owner under mlx5_dev.lock. */
int mlx5_steer_up(struct mlx5_dev *dev, const struct mlx5_flow_conf *conf, struct ibv_wq *const *wq, uint32_t cnt,
		  struct mlx5_steer *steer_out);
/* A zeroed struct is fine; again: nothing. */
void mlx5_steer_down(struct mlx5_steer *steer);

/* ---- queues ------------------------------------------------------------------------------------------ */

struct mlx5_eth_queue;
struct mlx5_eth_port;

/* One direction of a queue, the context of its asynchronous events: the control thread counts here what it is told, the
 * owner compares with what it has dealt with. */
struct mlx5_side {
	struct mlx5_eth_queue *queue;
	uint32_t reset_told, renew_told; /* [M5 release by the control thread, M6 acquire by the owner] */
	uint32_t reset_seen, renew_seen; /* the owner's */
	bool renew;                      /* the owner's: the objects must be made anew */
};

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
	struct mlx5_side rx_side, tx_side;
	struct mlx5_rx_obj rx;
	struct mlx5_tx_obj tx;
};

struct mlx5_eth_port {
	struct spw_port base;
	struct mlx5_dev dev;
	struct mlx5_flow_conf flow;
	struct mlx5_steer steer;
	struct rdma_ctl *ctl;
	struct ibv_wq *wq[SPW_PORT_QUEUE_MAX]; /* of the queues, as the indirection table wants them */
	bool started, steered;
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

int mlx5_rx_make(struct mlx5_dev *dev, const struct mlx5_plan *plan, struct mlx5_side *side, uint32_t lkey,
		 struct mlx5_rx_obj *rx_out);
void mlx5_rx_free(struct mlx5_rx_obj *rx);
int mlx5_tx_make(struct mlx5_dev *dev, const struct mlx5_plan *plan, struct mlx5_side *side, uint32_t lkey,
		 struct mlx5_tx_obj *tx_out);
void mlx5_tx_free(struct mlx5_tx_obj *tx);
int mlx5_wq_state(struct ibv_wq *wq, enum ibv_wq_state state);
/* RESET, or RESET to ready to send. */
int mlx5_sq_reset(struct ibv_qp *qp);
int mlx5_sq_ready(const struct mlx5_dev *dev, struct ibv_qp *qp);

/* ---- mlx5_mend.c: spw_mlx5_ops over them ---- */

extern const struct spw_mlx5_ops mlx5_eth_ops;
/* rdma_ctl_client.async. */
void mlx5_eth_told(void *arg, const struct ibv_async_event *event);

#endif
