/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * verbs:DEV,mode=eth: raw Ethernet on ibv_post_wq_recv and ibv_post_send, spread by rdma_flow.h. Received frames are polled by
 * ibv_start_poll with the device's timestamps where it has them, else by ibv_poll_cq. Also what the mlx5 driver's direct path is
 * measured against.
 */
#ifndef SPW_PORT_VERBS_ETH_H
#define SPW_PORT_VERBS_ETH_H

#include "port/port_impl.h"
#include "port/rdma/rdma_ctl.h"
#include "port/rdma/rdma_flow.h"
#include "port/rdma/rdma_side.h"

struct verbs_eth_rx {
	struct ibv_cq_ex *ex;     /* NULL: cq is plain */
	struct ibv_cq *cq;
	struct ibv_wq *wq;
};

struct verbs_eth_tx {
	struct ibv_cq *cq;
	struct ibv_qp *qp;        /* sends only */
};

/* One direction that went wrong, and what is told of it: events mends it. */
struct verbs_eth_fault {
	struct rdma_side side;
	bool bad;                 /* an error completion, or an event of the device */
	bool told;
	uint32_t status;          /* the first enum ibv_wc_status; 0: what */
	const char *what;         /* static text */
	uint64_t since_tsc;
	uint32_t tries;
};

struct verbs_eth_queue {
	struct verbs_eth_port *port;
	struct spw_pool *pool;
	struct verbs_eth_rx rx;
	struct verbs_eth_tx tx;
	struct verbs_eth_fault rx_fault, tx_fault;
	uint8_t *posted;          /* by slot: a receive holds it */
	uint32_t *tx_slot, *tx_len; /* by position in the send queue */
	uint32_t rx_lkey, tx_lkey, frame_max;
	uint32_t ring, recv_out;  /* receives wanted, posted */
	uint32_t sq_mask, sq_pi, sq_ci;
	uint32_t lent_cnt;
	uint16_t index, region_id, csum_flags;
	/* written by the owner, sampled by others */
	struct port_queue_stat stat;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

struct verbs_eth_port {
	struct spw_port base;
	struct rdma_dev dev;
	struct rdma_flow_conf flow;
	struct rdma_steer steer;
	struct rdma_ctl *ctl;
	struct ibv_wq *wq[SPW_PORT_QUEUE_MAX];
	struct verbs_eth_queue *queue;
	uint64_t drops_base;      /* out_of_buffer at start */
	bool drops_known, started;
	bool extended;            /* ibv_start_poll, with the device's timestamps */
};

/* verbs_eth_rxtx.c. Thread of all: owner. */
void verbs_eth_calls(struct verbs_eth_queue *q, struct spw_port_queue *pq);
void verbs_eth_refill(struct verbs_eth_queue *q);
void verbs_eth_reap(struct verbs_eth_queue *q);
/* Purpose: after the device let go of them: what is posted (sent) comes home. */
void verbs_eth_rx_home(struct verbs_eth_queue *q);
void verbs_eth_tx_home(struct verbs_eth_queue *q);

/* verbs_eth_obj.c. Thread: setup, or owner for the two states. 0 or -errno with a text. */
int verbs_eth_queue_make(struct verbs_eth_queue *q, const struct spw_port_queue_conf *conf);
void verbs_eth_queue_free(struct verbs_eth_queue *q);
int verbs_eth_rx_ready(struct verbs_eth_queue *q);
int verbs_eth_rx_reset(struct verbs_eth_queue *q);
int verbs_eth_tx_ready(struct verbs_eth_queue *q);
int verbs_eth_tx_reset(struct verbs_eth_queue *q);
/* Purpose: a queue that failed, reset and with its slots at home, is made ready again: with a new key where the device refused
 *          the old one, with new objects where its completion queue failed. */
int verbs_eth_rx_renew(struct verbs_eth_queue *q);
int verbs_eth_tx_renew(struct verbs_eth_queue *q);
/* Purpose: the rules, for all queues. */
int verbs_eth_steer(struct verbs_eth_port *ep);
/* Returns: does the device give extended completion queues with timestamps of a clock that can be read? */
bool verbs_eth_can_extend(struct rdma_dev *dev);

/* verbs_eth_mend.c. Thread: owner. */
uint16_t verbs_eth_events(void *vq, struct spw_port_event *event, uint16_t cnt);
/* Purpose: notes an error completion; what is bad already stays so. Data-path safe. */
void verbs_eth_fault(struct verbs_eth_queue *q, struct verbs_eth_fault *fault, uint32_t status);

#endif
