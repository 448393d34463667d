/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * verbs:DEV,mode=rc: reliable connections on plain ibv_post_* and ibv_poll_cq. The protocol is that of rdma/rc_conn.h.
 *
 * Where a slot is. A peer's range of slots is taken from the pool at set-up. Each of them is at home (nobody has it), posted
 * (in a receive, or granted to the peer), lent, or in TX (waiting for a credit, or in the send queue); what lend_burst gives
 * comes from the rest of the pool. On a shared receive queue a slot belongs to the peer whose message it holds.
 *
 * A message that tx_burst takes and for which there is no credit waits in the driver, in a list of its peer. So nothing is
 * lost when a peer is slow, its own slots run out, and with them its right to send: it slows down itself, and nobody else.
 */
#ifndef SPW_PORT_VERBS_RC_H
#define SPW_PORT_VERBS_RC_H

#include "port/port_impl.h"
#include "port/rdma/rc_conn.h"

#define VERBS_NONE     UINT32_MAX
#define VERBS_NO_PEER  UINT16_MAX
#define VERBS_CTRL_SQE 8u /* entries of each send queue that data does not use */

enum verbs_where { VERBS_POOL, VERBS_HOME, VERBS_POSTED, VERBS_LENT, VERBS_TX };

struct verbs_slot {
	uint32_t next;            /* in a list of messages that wait */
	uint32_t offset, len, imm;
	uint16_t peer;            /* of the queue (not of the port); VERBS_NO_PEER: the pool's */
	uint8_t where;            /* enum verbs_where */
	bool has_imm;
};

struct verbs_rc_peer {
	struct rc_peer *rc;
	struct ibv_qp *qp;
	struct rc_rx_credit rx;
	struct rc_tx_credit tx;
	uint32_t first, cnt;      /* its slots */
	uint32_t recv_out;        /* receives that are posted and did not come back; not on an SRQ */
	uint32_t out;             /* its slots that are lent or in TX */
	uint32_t tx_to;           /* messages to it that are in TX, from whatever slot */
	uint32_t recv_due;        /* op=write: receives to post again */
	uint32_t wait_head, wait_tail; /* messages that wait for a credit; VERBS_NONE: none */
	uint32_t sq_pi, sq_ci;    /* posted, come back; free running */
	uint32_t sq_signaled;     /* where the last signalled one is */
	uint32_t sq_mask;
	uint32_t *sq_slot;        /* by position: the slot that it sends, or VERBS_NONE */
	uint8_t *granted;         /* op=write: by slot of the range: the peer may write there once */
	bool posted;              /* its receives are out: from RC_POST to RC_DRAIN */
	bool dead;                /* something was wrong; why, code; what still comes is dropped */
	enum rc_why why;
	uint32_t code;
	bool draining;            /* RC_DRAIN was seen */
	bool up;                  /* the owner knows that it is up: credits to send are valid */
	uint64_t drain_mark;      /* SRQ: q->empty_polls when the drain was seen; 0: not yet */
};

struct verbs_rc_queue {
	struct verbs_rc_port *port;
	struct spw_pool *pool;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_srq *srq;      /* NULL: each QP has its receive queue */
	struct verbs_slot *slot;
	struct verbs_rc_peer *peer;
	uint32_t peer_cnt;
	uint32_t *by_qpn;         /* QP numbers of the peers, for an SRQ */
	uint32_t lent_cnt, tx_cnt;
	uint64_t empty_polls;     /* polls that found the end of rx_cq */
	uint32_t sqe_out;         /* send queue entries of all peers that did not come back */
	uint32_t lkey;            /* of the pool */
	uint16_t index, region_id;
	enum rc_op op;
	/* written by the owner, sampled by others */
	struct port_queue_stat stat;
	uint64_t status[32];      /* error completions by enum ibv_wc_status */
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

struct verbs_rc_port {
	struct spw_port base;
	struct rdma_dev dev;
	struct rc_conf conf;
	struct rc_conn *conn;
	struct verbs_rc_queue *queue;
	bool started;
};

/* verbs_rc_rx.c. Thread of all: owner. */
uint16_t verbs_rc_rx(void *vq, struct spw_desc *desc, uint16_t cnt);
void verbs_rc_release(void *vq, const uint32_t *slot, uint16_t cnt);
uint16_t verbs_rc_lend(void *vq, uint32_t *slot, uint16_t cnt);
/* Purpose: posts all receives of a peer. -errno without a text: the QP is not in a state to take them. */
int verbs_rc_post_all(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: slots that nobody has any more go where the state of their peers says. */
void verbs_rc_home(struct verbs_rc_queue *q, const uint32_t *slot, uint32_t cnt);
/* Purpose: notes what is wrong with a peer; verbs_rc_events tells control. */
void verbs_rc_fault(struct verbs_rc_peer *p, enum rc_why why, uint32_t code);

/* verbs_rc_tx.c. Thread of all: owner. */
uint16_t verbs_rc_tx(void *vq, struct spw_desc **desc, uint16_t cnt);
/* Purpose: sends what waits, as far as credits and the send queue allow. */
void verbs_rc_push(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: tells the peer of its new credits if that is due. */
void verbs_rc_tell_credits(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: brings the end of the send queue of a QP in ERR back; once for each drain. */
void verbs_rc_mark_end(struct verbs_rc_queue *q, struct verbs_rc_peer *p);
/* Purpose: takes send completions. */
void verbs_rc_reap(struct verbs_rc_queue *q);
/* Purpose: messages that wait for this peer will not be sent. */
void verbs_rc_flush(struct verbs_rc_queue *q, struct verbs_rc_peer *p);

/* verbs_rc_state.c. Thread: owner. */
uint16_t verbs_rc_events(void *vq, struct spw_port_event *event, uint16_t cnt);

/* verbs_rc_obj.c. Thread of all: setup. */
int verbs_rc_queue_make(struct verbs_rc_queue *q, const struct spw_port_queue_conf *conf);
/* Purpose: QPs go; every slot that is not lent goes to the pool, and lent ones will when they come. */
void verbs_rc_queue_unmake(struct verbs_rc_queue *q);
/* Purpose: what is left: CQs, SRQ, memory. A zeroed queue is fine. */
void verbs_rc_queue_free(struct verbs_rc_queue *q);

#endif
