/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * verbs:DEV,mode=eth: raw Ethernet on ibv_post_wq_recv, ibv_post_send and ibv_poll_cq, spread by rdma_flow.h. Also what the mlx5
 * driver's direct path is measured against.
 */
#ifndef SPW_PORT_VERBS_ETH_H
#define SPW_PORT_VERBS_ETH_H

#include "port/port_impl.h"
#include "port/rdma/rdma_ctl.h"
#include "port/rdma/rdma_flow.h"

struct verbs_eth_queue {
	struct verbs_eth_port *port;
	struct spw_pool *pool;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_wq *wq;
	struct ibv_qp *qp;        /* sends only */
	uint8_t *posted;          /* by slot: a receive holds it */
	uint32_t *tx_slot, *tx_len; /* by position in the send queue */
	uint32_t lkey, frame_max;
	uint32_t ring, recv_out;  /* receives wanted, posted */
	uint32_t sq_mask, sq_pi, sq_ci;
	uint32_t lent_cnt;
	uint16_t index, region_id, csum_flags;
	bool rx_bad, tx_bad;      /* an error completion came: events mends it */
	bool told_bad;
	uint32_t status;          /* its enum ibv_wc_status */
	uint64_t bad_tsc;
	/* written by the owner, sampled by others */
	struct port_queue_stat stat;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

struct verbs_eth_port {
	struct spw_port base;
	struct rdma_dev dev;
	struct rdma_flow_conf flow;
	struct rdma_steer steer;
	struct rdma_ctl *ctl;
	struct ibv_mr *mr[SPW_REGION_MAX];
	struct ibv_wq *wq[SPW_PORT_QUEUE_MAX];
	struct verbs_eth_queue *queue;
	uint64_t drops_base;      /* out_of_buffer at start */
	bool drops_known, started;
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

#endif
