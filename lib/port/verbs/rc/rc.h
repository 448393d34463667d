/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * verbs:DEV,mode=rc: reliable connections on plain ibv_post_* and ibv_poll_cq. The protocol is that
 * of peer/spw_peer.h; the states of a peer are enum spw_peer_side.
 *
 *   port.c  driver calls and stop     obj.c   CQs, SRQ, QPs and tables of a queue
 *   rx.c    receive, release, lend    tx.c    send, credits, reap      turn.c  the owner's turns
 *
 * Where a slot is (enum verbs_where). A peer's range of slots is taken from the pool at set-up;
 * what lend_burst gives comes from the rest of the pool. With an SRQ a slot belongs to the peer
 * whose message it holds.
 *
 *   FREE ----> POSTED (in a receive, or granted to the peer)
 *    ^            | message arrives
 *    |            v
 *    +--release- LENT --tx_burst--> TX (waits for a credit, or in the send queue)
 *    |                               | send completion
 *    +-------------------------------+
 *
 * A message that tx_burst accepts and for which there is no credit waits in a list of its peer.
 * Nothing is lost when a peer is slow: its own slots run out, and with them its right to send. It
 * slows down itself, and nobody else.
 */
#ifndef SPW_PORT_VERBS_RC_H
#define SPW_PORT_VERBS_RC_H

#include "peer/spw_peer_side.h"
#include "port/peer_port.h"
#include "rdma/spw_rdma_drain.h"

#define VERBS_NONE     UINT32_MAX
#define VERBS_NO_PEER  UINT16_MAX
#define VERBS_CTRL_SQE 8u /* entries of each send queue reserved for control messages */

enum verbs_where { VERBS_POOL, VERBS_FREE, VERBS_POSTED, VERBS_LENT, VERBS_TX };

struct verbs_slot {
	uint32_t next; /* next message that waits for the same peer */
	uint32_t offset, len, imm;
	uint16_t peer; /* index on the queue, not on the port; VERBS_NO_PEER: the slot is the pool's
			*/
	uint8_t where; /* enum verbs_where */
	bool has_imm;
};

struct verbs_rc_peer {
	struct spw_peer *rc;
	struct ibv_qp *qp;
	struct spw_peer_rx_credit rx;
	struct spw_peer_tx_credit tx;
	uint32_t first, cnt; /* its slots */
	uint32_t recv_out;   /* posted receives without a completion; unused with an SRQ */
	uint32_t out;        /* its slots that are lent or in TX */
	uint32_t tx_to;      /* messages to it that are in TX, from any slot */
	uint32_t recv_due;   /* op=write: consumed receives to post again */
	uint32_t wait_head, wait_tail; /* messages that wait for a credit; VERBS_NONE: none */
	uint32_t sq_pi, sq_ci;         /* posted, completed; free running */
	uint32_t sq_signaled;          /* position of the last signaled entry */
	uint32_t sq_mask;
	uint32_t *sq_slot; /* by position: the slot that is sent, or VERBS_NONE for control */
	uint8_t *granted;  /* op=write: by slot of the range; 1: the peer may write there once */
	uint32_t side;     /* enum spw_peer_side */
	enum spw_peer_why why; /* BROKEN: the first error */
	uint32_t code;
	bool marked;             /* the marker WQE of this drain is posted */
	uint64_t drain_mark;     /* SRQ: q->empty_polls + 1 when the drain began; 0: not draining */
	uint64_t late_mark;      /* the same when the device's time to flush had passed */
	struct rdma_drain drain; /* its QP is drained; all zero: it is not */
};

/* POSTED or UP: receives may be posted, and messages are accepted. */
SPW_INLINE bool verbs_rc_is_live(const struct verbs_rc_peer *p)
{
	return p->side == SPW_PEER_SIDE_POSTED || p->side == SPW_PEER_SIDE_UP;
}

struct verbs_rc_queue {
	struct verbs_rc_port *port;
	struct spw_pool *pool;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_srq *srq;     /* NULL: each QP has its own receive queue */
	struct verbs_slot *slot; /* [pool->slot_cnt] */
	uint32_t slot_first;     /* of those that peers own */
	struct verbs_rc_peer *peer;
	uint32_t peer_cnt;
	uint32_t *by_qpn; /* QP number of each peer; used with an SRQ */
	uint32_t lent_cnt, tx_cnt;
	uint64_t empty_polls; /* polls that emptied rx_cq */
	uint32_t sqe_out;     /* posted send queue entries of all peers */
	uint32_t lkey;        /* of the pool */
	uint16_t index, region_id;
	enum spw_peer_op op;
	/* written by the owner, sampled by others */
	struct port_queue_stat stat;
	uint64_t status[32]; /* error completions by enum ibv_wc_status */
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

struct verbs_rc_port {
	struct port_peers peers;
	struct rdma_dev dev;
	struct verbs_rc_queue *queue;
};

/* ---- rx.c; Thread of all: owner ---- */

/* Purpose: spw_port_queue.rx_burst, .release_burst and .lend_burst. */
uint16_t verbs_rc_rx(void *vq, struct spw_desc *desc, uint16_t cnt);
void verbs_rc_release(void *vq, const uint32_t *slot, uint16_t cnt);
uint16_t verbs_rc_lend(void *vq, uint32_t *slot, uint16_t cnt);
/* Purpose: posts all receives of a peer.
 * Errors: -EIO without a text: the QP does not accept them. */
int verbs_rc_post_all(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: returns slots that were lent or in TX: to the pool, to a receive, or to a new grant, as
 * the state of their peer says. */
void verbs_rc_recycle(struct verbs_rc_queue *q, const uint32_t *slot, uint32_t cnt);
/* Purpose: records the first error of a peer: POSTED or UP -> BROKEN. verbs_rc_events reports it.
 * Data-path safe. */
void verbs_rc_fault(struct verbs_rc_peer *p, enum spw_peer_why why, uint32_t code);

/* ---- tx.c; Thread of all: owner ---- */

/* Purpose: spw_port_queue.tx_burst. */
uint16_t verbs_rc_tx(void *vq, struct spw_desc **desc, uint16_t cnt);
/* Purpose: sends messages that wait, as far as credits and the send queue allow. */
void verbs_rc_push(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: sends the greeting: the first message on a connection. */
void verbs_rc_greet(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: sends credits to the peer if they are due. */
void verbs_rc_send_due_credits(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: posts one marker WQE to a QP in ERR; its flush completion proves that all earlier
 * entries have completed. Once per drain. */
void verbs_rc_mark_end(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: gives up what a QP in ERR has not flushed, and never will: its sends count as flushed,
 * and its receives are no longer posted. */
void verbs_rc_lost(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: takes up to 16 send completions and returns their slots. */
void verbs_rc_reap(struct verbs_rc_queue *q);
/* Purpose: returns the slots of all messages that wait for this peer, counted as flushed. */
void verbs_rc_flush(struct verbs_rc_queue *q, struct verbs_rc_peer *p);

/* ---- turn.c ---- */

/* Purpose: spw_port_queue.events: gives each peer its turn. Thread: owner. */
uint16_t verbs_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt);

/* ---- obj.c; Thread of all: setup ---- */

/* Purpose: creates CQs, SRQ, QPs and tables of a queue. Errors: errno of the device, with a text;
 * the caller frees. */
int verbs_rc_queue_make(struct verbs_rc_queue *q, const struct spw_port_queue_conf *conf);
/* Purpose: a new QP in place of one in RESET that was connected to its own port.
 * Errors: errno of the device, with a text; the peer may be without a QP then. */
int verbs_rc_qp_again(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: destroys the QPs and returns every slot that is not lent to the pool; lent ones go to
 * the pool when they are released. */
void verbs_rc_queue_unmake(struct verbs_rc_queue *q);
/* Purpose: destroys CQs and SRQ and frees the tables. A zeroed queue is fine. */
void verbs_rc_queue_free(struct verbs_rc_queue *q);

#endif
