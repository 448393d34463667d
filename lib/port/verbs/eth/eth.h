/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * verbs:DEV,mode=eth: raw Ethernet on ibv_post_wq_recv and ibv_post_send, spread over queues by
 * rdma/spw_rdma_flow.h. Received frames are polled by ibv_start_poll with the device's timestamps
 * if it has them, else by ibv_poll_cq. It is also the base line that the mlx5 driver's direct path
 * is measured against.
 *
 *   port.c  driver calls      obj.c      CQs, WQ and QP
 *   rx.c    receive bursts    tx.c       send bursts    recover.c  errors and events
 */
#ifndef SPW_PORT_VERBS_ETH_H
#define SPW_PORT_VERBS_ETH_H

#include "port/eth_port.h"
#include "rdma/spw_rdma_drain.h"
#include "rdma/spw_rdma_side.h"

struct verbs_eth_rx {
	struct ibv_cq_ex *ex; /* cq as an extended CQ; NULL: it is a plain one */
	struct ibv_cq *cq;
	struct ibv_wq *wq;
};

struct verbs_eth_tx {
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* sends only */
};

/* An error of one direction. verbs_eth_events recovers from it. */
struct verbs_eth_fault {
	struct rdma_side side;
	bool bad;         /* an error completion, or an event of the device; bursts do nothing */
	bool reported;    /* QUEUE_ERROR was delivered */
	uint32_t status;  /* enum ibv_wc_status of the first error; 0: see what */
	const char *what; /* static text: the event; NULL: see status */
	uint64_t since_tsc;
	uint32_t tries;
};

struct verbs_eth_queue {
	struct verbs_eth_port *port;
	struct spw_pool *pool;
	struct verbs_eth_rx rx;
	struct verbs_eth_tx tx;
	struct verbs_eth_fault rx_fault, tx_fault;
	uint8_t *posted;            /* by slot: 1 while it is in a receive */
	uint32_t *tx_slot, *tx_len; /* by position in the send queue */
	uint32_t rx_lkey, tx_lkey, frame_max;
	uint32_t ring, recv_out; /* receives: wanted, posted */
	uint32_t sq_mask, sq_pi, sq_ci;
	uint32_t lent_cnt;
	uint16_t index, region_id, csum_flags;
	/* written by the owner, sampled by others */
	struct port_queue_stat stat;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

struct verbs_eth_port {
	struct port_eth eth;
	struct rdma_dev dev;
	struct verbs_eth_queue *queue;
	bool extended; /* ibv_start_poll, with the device's timestamps */
};

/* ---- rx.c; Thread of all: owner ---- */

/* Purpose: fills in the burst calls of the queue; plain or extended polling. */
void verbs_eth_calls(struct verbs_eth_queue *q, struct spw_port_queue *pq);
/* Purpose: posts receives until the ring is full or the pool is empty. */
void verbs_eth_refill(struct verbs_eth_queue *q);
/* Purpose: after a reset of the WQ: takes completions that nobody polled, and returns the slots of
 * all posted receives to the pool. */
void verbs_eth_rx_return(struct verbs_eth_queue *q);

/* ---- tx.c; Thread of all: owner ---- */

/* Purpose: spw_port_queue.tx_burst. */
uint16_t verbs_eth_tx(void *vq, struct spw_desc **desc, uint16_t cnt);
/* Purpose: takes up to 16 send completions and returns their slots. */
void verbs_eth_reap(struct verbs_eth_queue *q);
/* Purpose: after a reset of the QP: returns the slots of all frames in the send queue, counted as
 * flushed. */
void verbs_eth_tx_return(struct verbs_eth_queue *q);

/* ---- obj.c; Thread: setup; owner for restart; Errors: errno with a text ---- */

/* Purpose: creates the objects and tables of a queue. */
int verbs_eth_queue_make(struct verbs_eth_queue *q, const struct spw_port_queue_conf *conf);
void verbs_eth_queue_free(struct verbs_eth_queue *q);
/* Purpose: makes a direction ready again after a reset, its slots being returned: with a new key if
 * the device refused the old one, with new objects if its CQ failed. */
int verbs_eth_rx_restart(struct verbs_eth_queue *q);
int verbs_eth_tx_restart(struct verbs_eth_queue *q);
/* Returns: true if the device has extended CQs with timestamps, and a readable clock. */
bool verbs_eth_can_extend(struct rdma_dev *dev);

/* ---- recover.c; Thread: owner ---- */

/* Purpose: spw_port_queue.events. */
uint16_t verbs_eth_events(void *vq, struct spw_port_event *event, uint16_t cnt);
/* Purpose: records an error completion; the first error is kept. Data-path safe. */
void verbs_eth_fault(struct verbs_eth_queue *q, struct verbs_eth_fault *fault, uint32_t status);

#endif
