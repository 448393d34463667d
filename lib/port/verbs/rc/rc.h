/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * verbs:DEV,mode=rc: reliable connections on plain ibv_post_* and ibv_poll_cq. What a queue with
 * many peers is, and where its slots are: port/rc_queue.h. Here: how to post and to poll.
 *
 *   port.c  open, set up, close     obj.c   CQs, SRQ and QPs of a queue
 *   rx.c    receive, post           tx.c    send, credits, reap
 */
#ifndef SPW_PORT_VERBS_RC_H
#define SPW_PORT_VERBS_RC_H

#include "port/rc_port.h"

struct verbs_rc_peer {
	struct port_rc_peer rc;
	struct ibv_qp *qp; /* of a peer's own protection domain: it reaches no other's memory */
	uint32_t qpn;
};

struct verbs_rc_queue {
	struct port_rc_queue rc;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_srq *srq;    /* NULL: each QP has its own receive queue */
	uint32_t srq_cnt;       /* receives that it takes */
	uint32_t held, held_at; /* completions in wc[] that no burst has taken, and the first */
	struct ibv_wc wc[SPW_BURST_MAX];
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

struct verbs_rc_port {
	struct port_peers peers;
	struct rdma_dev dev;
	struct verbs_rc_queue *queue;
};

SPW_INLINE struct verbs_rc_queue *verbs_rc_queue_of(struct port_rc_queue *q)
{
	return spw_container_of(q, struct verbs_rc_queue, rc);
}

SPW_INLINE struct verbs_rc_peer *verbs_rc_peer_of(struct port_rc_peer *p)
{
	return spw_container_of(p, struct verbs_rc_peer, rc);
}

SPW_INLINE struct verbs_rc_peer *verbs_rc_peer_at(const struct verbs_rc_queue *q, uint32_t local)
{
	return (struct verbs_rc_peer *)(void *)q->rc.peer + local;
}

/* ---- rx.c; Thread of all: owner ---- */

/* Purpose: spw_port_queue.rx_burst. */
uint16_t verbs_rc_rx(void *vq, struct spw_desc *desc, uint16_t cnt);
/* Purpose: port_rc_ops of the receive side. */
void verbs_rc_settle(struct port_rc_queue *q);
bool verbs_rc_has_unread(struct port_rc_queue *q, struct port_rc_peer *p);
void verbs_rc_srq_empty(struct port_rc_queue *q);

/* ---- tx.c; Thread of all: owner ---- */

/* Purpose: spw_port_queue.tx_burst. */
uint16_t verbs_rc_tx(void *vq, struct spw_desc **desc, uint16_t cnt);
/* Purpose: sends messages that wait, as far as credits and the send queue allow. */
void verbs_rc_send_waiting(struct port_rc_queue *q, struct port_rc_peer *p);
/* Purpose: takes all send completions that are there. */
void verbs_rc_reap_all(struct port_rc_queue *q);
/* Purpose: port_rc_ops of the send side. */
void verbs_rc_reap(struct port_rc_queue *q);
void verbs_rc_grant(struct port_rc_queue *q, struct port_rc_peer *p);
void verbs_rc_mark(struct port_rc_queue *q, struct port_rc_peer *p);

/* ---- obj.c; Thread of all: setup ---- */

/* Purpose: creates CQs, SRQ and QPs of a queue whose slots have left the pool, and its tables.
 * Errors: errno of the device, with a text; the caller frees. */
int verbs_rc_queue_make(struct verbs_rc_queue *q, const struct spw_port_queue_conf *conf);
/* Purpose: a new QP in place of the first peer's, which was connected to its own port.
 * Errors: errno of the device, with a text; the peer may be without a QP then. */
int verbs_rc_qp_again(struct port_rc_queue *q);
/* Purpose: destroys the QPs. Idempotent. */
void verbs_rc_destroy_qps(struct port_rc_queue *q);
/* Purpose: destroys CQs and SRQ and frees the tables. A zeroed queue is fine. */
void verbs_rc_queue_free(struct verbs_rc_queue *q);

#endif
