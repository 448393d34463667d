/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reliable connections: a queue with many peers, as its owner knows it, in memory alone. mlx5/rc
 * and verbs/rc lay their own structs around these two and add how to post and how to poll; credits,
 * slots and the states of a peer are here, once (peer/spw_peer.h has the protocol):
 *
 *   SEND    a message lands in the slot of the next receive, of the QP's own ring or of an SRQ
 *           shared by the peers of the queue. One credit is one message, backed by one receive.
 *   WRITE   the peer writes a message into a slot that it was granted; the immediate is the slot's
 *           number. The receives that immediates use up have no scatter entry.
 *
 * Where a slot is. A peer has slots of its own (with an SRQ the peers of a queue share theirs):
 *
 *      +-> free, or in a receive (SEND), or granted (WRITE)
 *      |                    | message arrives
 *      |                    v
 *      +--release-------- lent --tx_burst--> in TX: waits for a credit, or in the send queue
 *      |                                               | send completion
 *      +-----------------------------------------------+   each return makes a credit again
 *
 * Slots of no peer stay in the pool, for lend_burst.
 *
 * A message for a peer that is POSTED, or that has granted nothing at the moment, waits in a ring
 * of that peer and is sent, in order, when the peer is UP and grants. A slow peer uses up its own
 * slots, and with them its right to send: it slows down itself, and nobody else.
 *
 * The state of a peer is enum spw_peer_side. Only an UP peer is sent to; of a BROKEN one only the
 * remaining completions are taken. Other peers are not affected.
 *
 *   attach   once: rings, tables, slots                  side DOWN
 *   post     keys, credits; receives posted              DOWN -> POSTED
 *   up       the peer's limits, its first grants         POSTED -> UP
 *   break    the first error; nothing is sent any more   POSTED, UP -> BROKEN
 *   reset    back to empty rings                         any -> DOWN
 *
 * Nothing here needs rdma-core: a test plays the NIC (tests/unit/port/mlx5/rc/rc_hand.h).
 * rc_inline.h is what the bursts share.
 */
#ifndef SPW_PORT_RC_QUEUE_H
#define SPW_PORT_RC_QUEUE_H

#include "base/spw_order.h"
#include "peer/spw_peer_credit.h"
#include "peer/spw_peer_side.h"
#include "pool/spw_pool.h"
#include "port/port.h"
#include "rdma/spw_rdma_drain.h"

#define PORT_RC_PEER_MAX   64u /* of one queue */
#define PORT_RC_SQ_RESERVE 8u  /* send entries that only control messages may use */
#define PORT_RC_NO_SLOT    UINT32_MAX

/* Fixed at set-up; mlx5's bursts have a variant for each. The other bits are the driver's. */
enum port_rc_flag {
	PORT_RC_SRQ = 1u << 1,   /* receives come from a shared receive queue */
	PORT_RC_WRITE = 1u << 2, /* messages are WRITE_WITH_IMM into granted slots */
};

/* A slot of a peer's, where no ring shows it: WRITE; and verbs, for the receives of an SRQ.
 * FREE: returned, and to be granted again. */
enum port_rc_slot { PORT_RC_FREE, PORT_RC_GRANTED, PORT_RC_LENT };

/* Who has the slots of a queue's peers, so that each exit returns them once. */
enum port_rc_slots_at { PORT_RC_AT_POOL, PORT_RC_AT_PEERS, PORT_RC_AT_QUEUE };

/* Error completions are counted by syndrome (mlx5) or enum ibv_wc_status (verbs); 0: unknown. */
#define PORT_RC_ERROR_CNT 64u

/* Free slots, last in first out. */
struct port_rc_stack {
	uint32_t *slot;
	uint32_t cnt;
};

/* A posted send; slot is PORT_RC_NO_SLOT for a control message. */
struct port_rc_sent {
	uint32_t slot, len;
};

/* A message that waits until its peer grants, or is UP. */
struct port_rc_wait {
	uint32_t slot, offset, len, meta;
	uint16_t flags;
};

/* Positions run freely and are masked. */
struct port_rc_peer {
	/* send: hot */
	struct port_rc_sent *sent;  /* by position */
	uint32_t sq_mask, sq_limit; /* sq_limit: entries that may be posted; messages leave
				     * PORT_RC_SQ_RESERVE of them to control messages */
	uint32_t sq_pi, sq_ci;
	uint32_t sq_signal;           /* position after the last signaled entry */
	struct spw_peer_tx_credit tx; /* no credit is left unless the peer is UP */
	uint32_t wait_ci, wait_pi;    /* ring of messages that wait; their slots count as in TX */
	uint16_t side, todo;          /* enum spw_peer_side; todo: it is on the queue's list */
	/* receive: hot */
	uint32_t *slot_of SPW_ALIGNED(64); /* SEND without an SRQ: by receive */
	uint32_t rq_mask, rq_ci, rq_pi;
	struct spw_peer_rx_credit rx;
	uint32_t index;              /* of the peer on its port */
	uint32_t out;                /* its slots that are lent or in TX */
	struct port_rc_stack own;    /* SEND: slots to post next ... */
	struct port_rc_stack *stack; /* ... its own, or the queue's with an SRQ */
	/* read only */
	uint32_t lkey SPW_ALIGNED(64); /* of what is sent from */
	uint32_t ring_lkey;
	struct spw_peer_remote remote; /* from UP on */
	spw_be32 *ring_in;  /* WRITE: SPW_PEER_CREDIT_MAX slots that the peer granted, written by
			     * its NIC */
	spw_be32 *ring_out; /* WRITE: as many that we grant: mirror of the ring at the peer */
	uint32_t slot_first, slot_cnt, credits;
	struct port_rc_wait *wait; /* at least slot_cnt entries, so that every echo fits */
	uint32_t wait_mask;
	enum spw_peer_why why; /* BROKEN: the first error */
	uint32_t code;
	struct rdma_drain drain; /* its QP is drained; all zero: it is not */
} SPW_ALIGNED(64);

struct port_rc_ops;
struct port_peers;

struct port_rc_queue {
	/* read only */
	struct spw_pool *pool;
	uint8_t *peer; /* peer_cnt structs of the driver's, then the nobody peer: never UP, without
			* slots or rings; it saves the bursts a test for "no such peer" */
	struct port_rc_peer **by_index; /* by port-wide index; of other queues: nobody */
	struct port_rc_peer **owner;    /* by slot; SRQ: while it is lent; NULL: the pool */
	uint8_t *slot_state;            /* enum port_rc_slot */
	uint64_t desc_tail;             /* the last word of a descriptor */
	uint32_t peer_bytes, peer_cnt, index_cnt;
	uint32_t room_bytes; /* longest message of a slot */
	unsigned flags;
	/* hot */
	uint32_t lent_cnt SPW_ALIGNED(64);
	uint32_t in_tx_cnt, todo_cnt;
	uint32_t srq_posted;
	struct port_rc_peer **todo; /* peers that may need a refill or credits */
	struct port_rc_stack stack; /* SRQ: slots of its peers that are not posted */
	/* written by the owner, sampled by others */
	struct port_queue_stat stat;
	uint64_t control_rx, control_tx; /* control messages */
	uint64_t error[PORT_RC_ERROR_CNT];
	/* outside the bursts */
	const struct port_rc_ops *ops;
	struct port_peers *port;
	uint32_t slot_first, share; /* slots that the peers own: share for each */
	uint32_t lkey;              /* of the pool; may change */
	uint16_t index;
	uint8_t slots_at; /* enum port_rc_slots_at */
	bool failed;      /* the owner re-creates the queue's objects: no peer may post or drain */
} SPW_ALIGNED(64);

/* What a driver does for a queue outside its bursts. Thread: owner, or setup. */
struct port_rc_ops {
	/* Posts receives for the peers on the list, or to the SRQ, and serves each (rc_inline.h,
	 * port_rc_serve). */
	void (*settle)(struct port_rc_queue *q);
	/* Takes up to one burst of send completions. */
	void (*reap)(struct port_rc_queue *q);
	/* Sends all credits that wait to be advertised. There is room: port_rc_can_grant. */
	void (*grant)(struct port_rc_queue *q, struct port_rc_peer *p);
	/* Posts one marker to a QP in ERR; its flush proves that all earlier entries have
	 * completed. Without it, unsignaled ones that completed before the error would never be
	 * reported. Idempotent. */
	void (*mark)(struct port_rc_queue *q, struct port_rc_peer *p);
	/* Whether a completion of the peer's QP is in a CQ and not yet polled. */
	bool (*has_unread)(struct port_rc_queue *q, struct port_rc_peer *p);
	/* A connection begins: positions are at 0, and p->lkey may be another one. NULL: receives
	 * that are posted keep the key that they have. */
	void (*begin)(struct port_rc_queue *q, struct port_rc_peer *p);
	/* SRQ: moves the slots of its receives to q->stack, after the QPs are destroyed. */
	void (*srq_empty)(struct port_rc_queue *q);
};

struct port_rc_queue_conf {
	struct spw_pool *pool;
	const struct port_rc_ops *ops;
	unsigned flags;
	uint32_t peer_bytes; /* of the driver's struct, which begins with struct port_rc_peer */
	uint32_t peer_cnt;   /* of this queue, 1 .. PORT_RC_PEER_MAX */
	uint32_t index_cnt;  /* of the port: desc.peer is 0 .. index_cnt - 1 */
	uint16_t index, port;
};

/* One peer's rings and slots. */
struct port_rc_peer_conf {
	spw_be32 *ring_out, *ring_in;  /* WRITE: SPW_PEER_CREDIT_MAX entries each */
	uint32_t index;                /* of the peer on the port */
	uint32_t slot_first, slot_cnt; /* taken from the pool by the caller */
	uint32_t rq_cnt;   /* a power of 2, at least the receives of a peer; 0 with an SRQ */
	uint32_t sq_cnt;   /* a power of 2 */
	uint32_t sq_limit; /* sends that may be under way, at least 4 * PORT_RC_SQ_RESERVE */
	uint32_t credits;  /* SEND: slot_cnt less SPW_PEER_CTRL_RESERVE, which control messages
			    * need; WRITE: slot_cnt */
};

/* Purpose: clears all but what a recovery keeps: counters, lent slots, and what rc_port.c has set.
 * The tables are the caller's copy, or there are none. Thread: owner. */
void port_rc_queue_renew(struct port_rc_queue *q);

/* Purpose: the tables of a queue that is zeroed or renewed.
 * Thread: setup, or owner in a recovery.
 * Errors: -EINVAL with the value that is wrong; -ENOMEM; nothing is left. */
int port_rc_queue_init(struct port_rc_queue *q, const struct port_rc_queue_conf *conf);

/* Purpose: attaches peer `local`, 0 .. peer_cnt - 1, with its slots.
 * Thread: as port_rc_queue_init.
 * Errors: -EINVAL with the value that is wrong; -ENOMEM. Tables of the peer may be left for
 *         port_rc_queue_fini. */
int port_rc_attach(struct port_rc_queue *q, uint32_t local, const struct port_rc_peer_conf *conf);

/* Purpose: posts the receives of a peer whose QP is in INIT. DOWN -> POSTED.
 * Shape: none of its slots is lent or in TX. lkey is the key of the pool, ring_lkey that of
 *        ring_out; both may have changed since the last connection.
 * Thread: setup, or owner. */
void port_rc_post(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t lkey,
		  uint32_t ring_lkey);

/* Purpose: both ends are ready: messages to the peer may be sent. POSTED -> UP.
 * Thread: owner.
 * Errors: -EPROTO: remote has an impossible value; the state is unchanged. */
int port_rc_up(struct port_rc_queue *q, struct port_rc_peer *p,
	       const struct spw_peer_remote *remote);

/* Purpose: stops a peer after an error, of which the first counts. POSTED or UP -> BROKEN; in
 *          another state nothing happens.
 * Thread: owner; data-path safe. */
void port_rc_break(struct port_rc_queue *q, struct port_rc_peer *p, enum spw_peer_why why,
		   uint32_t code);

/* Returns: true if nothing of a BROKEN peer is posted, unread, lent or in TX any more.
 * Shape: its QP is in ERR; with an SRQ its last-WQE event has arrived.
 * Thread: owner. */
bool port_rc_is_drained(struct port_rc_queue *q, struct port_rc_peer *p);

/* Purpose: resets a peer whose QP the device no longer uses: returns all of its slots that are
 *          posted, in TX or waiting, and sets its positions to 0. Any state -> DOWN.
 * Thread: owner, or setup. */
void port_rc_reset(struct port_rc_queue *q, struct port_rc_peer *p);

/* Purpose: after all QPs are destroyed: returns every slot that is not lent to the pool. Lent ones
 *          go to the pool when they are released.
 * Thread: setup. */
void port_rc_return_slots(struct port_rc_queue *q);

/* Purpose: frees the tables. A zeroed queue is fine.
 * Thread: setup, or owner in a recovery. */
void port_rc_queue_fini(struct port_rc_queue *q);

/* Purpose: where the slots of the queue are (spw_port_driver.slots).
 * Thread: owner, or stopped. */
void port_rc_queue_slots(const struct port_rc_queue *q, struct spw_port_slots *slots_out);

/* Purpose: spw_port_queue.release_burst and .lend_burst of both drivers.
 * Thread: owner. */
void port_rc_release(void *vq, const uint32_t *slot, uint16_t cnt);
uint16_t port_rc_lend(void *vq, uint32_t *slot, uint16_t cnt);

/* ---- for the drivers; Thread of all: owner; data-path safe ---- */

/* Purpose: the slots of the sends before end return, counted as flushed: whether they arrived is
 *          unknown. */
void port_rc_tx_lost(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t end);

/* Purpose: queues a message that is not sent now.
 * Returns: false: it is not accepted: the peer is not live, the ring is full, or the peer cannot
 *          take the length. */
bool port_rc_tx_later(struct port_rc_peer *p, const struct spw_desc *d);

/* Purpose: the peer broke the protocol: counts it, and breaks the peer.
 * Returns: false. */
bool port_rc_breach(struct port_rc_queue *q, struct port_rc_peer *p);

/* Purpose: a control message: the immediate is the count of all credits since the start. */
void port_rc_rx_control(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t count);

/* Purpose: a receive completed without a message: its slot is posted again, and makes no credit. */
void port_rc_rx_unused(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t slot);

#endif
