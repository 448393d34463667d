/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 RC on mlx5: one queue with many peers, as its data path sees it: memory only. mlx5_rc_rx.c, mlx5_rc_tx.c and
 * mlx5_rc_err.c know completion entries, work queue entries and doorbell records; mlx5_rc_obj.c makes the objects through
 * rdma-core, a test lays them out by hand.
 *
 * One queue has one receive CQ and one send CQ for all of its peers, and one QP per peer. The protocol on a QP is that of
 * rdma/rc_conn.h, with two ways of a message:
 *   SEND   it lands in the slot of the next receive WQE, of the QP's own ring or of an SRQ that the peers of a queue share;
 *          a credit is one message, and each is backed by a posted receive.
 *   WRITE  the peer writes it into a slot that it was granted, and names the slot in the immediate. The receives that
 *          immediates use up have no scatter entry.
 * A peer has slots of its own, which nobody else uses (SRQ: the queue's peers together); what comes back, from a release or
 * from the send ring, goes back to it and is a credit again. Slots that belong to no peer stay in the pool, for lend_burst.
 *
 * A message for a peer that is ARMED, or has granted nothing at the moment, waits in a ring of its own; it goes out, in order,
 * when the peer is up and grants.
 *
 * The life of a peer: DOWN -arm-> ARMED -up-> UP, and from the last two -break-> BROKEN -home-> DOWN. Only an UP peer is sent
 * to; a BROKEN one is left alone but for the completions that it still has. The other peers do not notice.
 *
 * Orderings: M1 to M4 of mlx5_impl.h. What the peer wrote into memory before its message (grants) is covered by M1 of that
 * message's CQE; the RC1 of rc_conn.h lies between control and owner.
 */
#ifndef SPW_PORT_MLX5_RC_IMPL_H
#define SPW_PORT_MLX5_RC_IMPL_H

#include "port/mlx5/mlx5_impl.h"
#include "port/rdma/rc_credit.h"

#define MLX5_RC_PEER_MAX   64u     /* of one queue */
#define MLX5_RC_SQ_RESERVE 8u      /* send WQEs that only control messages may use */
#define MLX5_RC_NOBODY     UINT16_MAX
#define MLX5_RC_NO_SLOT    UINT32_MAX

/* Variants: fixed at set-up, constant in the code. */
enum spw_mlx5_rc_flag {
	MLX5_RC_STAMP = 1u << 0, /* one hardware timestamp per message */
	MLX5_RC_SRQ   = 1u << 1, /* receives come from a shared receive queue */
	MLX5_RC_WRITE = 1u << 2, /* messages are WRITE_WITH_IMM into granted slots */
	MLX5_RC_ZIP   = 1u << 3, /* receive CQEs that are alike come compressed; not with STAMP or WRITE, which minis have no room for */
};

enum spw_mlx5_rc_state { MLX5_RC_DOWN, MLX5_RC_ARMED, MLX5_RC_UP, MLX5_RC_BROKEN };

/* WRITE: where a peer's slot is. */
enum spw_mlx5_rc_slot { MLX5_RC_HOME, MLX5_RC_GRANTED, MLX5_RC_LENT };

/* Free slots, last in first out. */
struct spw_mlx5_rc_stack {
	uint32_t *slot;
	uint32_t cnt;
};

/* A compressed session under way. */
struct spw_mlx5_rc_zip {
	uint8_t title[MLX5_CQE_BYTES] SPW_ALIGNED(64);
	uint8_t mini[SPW_PRM_MINI_PER_CQE * 8];
	uint32_t left;               /* minis not taken yet */
	uint32_t idx;                /* the next one in mini[] */
	uint32_t wqe;                /* its WQE */
};

/* A send WQE under way; slot is MLX5_RC_NO_SLOT for a control message. */
struct spw_mlx5_rc_sent {
	uint32_t slot, len;
};

/* A message that waits until its peer grants, or is UP. */
struct spw_mlx5_rc_wait {
	uint32_t slot, offset, len, meta;
	uint16_t flags;
};

/* What the connection brought (struct rc_remote says the same in rdma-core's presence). */
struct spw_mlx5_rc_remote {
	uint32_t credits;      /* W of the peer: what it grants at most, and to begin with */
	uint32_t msg_max;      /* the longest message it takes, in bytes */
	uint64_t slot_addr;    /* WRITE: its slot 0 for us, and the distance of two */
	uint64_t slot_stride;
	uint32_t slot_rkey;
	uint32_t ring_rkey;    /* WRITE: its ring that we write grants to */
	uint64_t ring_addr;
	uint32_t ring_cnt;     /* a power of 2 >= our credits, at most RC_CREDIT_MAX */
};

struct spw_mlx5_rc_peer {
	/* send: hot */
	uint8_t *sq;
	struct spw_mlx5_rc_sent *sent; /* by WQE */
	uint32_t sq_mask, sq_limit;    /* sq_limit: WQEs that may be under way; messages leave a few to control */
	uint32_t sq_pi, sq_ci;
	uint32_t sq_rung, sq_signal;   /* sq_pi at the last doorbell; behind the last WQE with a completion */
	struct rc_tx_credit tx;        /* of a peer that is not UP none is left */
	uint32_t qpn;
	uint32_t wait_ci, wait_pi;     /* messages that wait; they are in TX */
	/* send: read only, and the doorbell */
	spw_be32 *sq_db SPW_ALIGNED(64);
	uint8_t *bf;
	uint32_t bf_off, bf_toggle;
	uint32_t lkey, msg_max;
	uint64_t raddr, rstride;       /* WRITE: the peer's slots */
	spw_be32 *ring_in;             /* WRITE: slots the peer granted, written by its NIC; RC_CREDIT_MAX entries */
	uint32_t rkey;
	uint16_t state, todo;          /* todo: it is on the queue's list */
	/* receive */
	uint8_t *wqe SPW_ALIGNED(64);  /* NULL with an SRQ */
	uint32_t *slot_of;             /* SEND: by WQE */
	spw_be32 *rq_db;
	uint32_t rq_mask, rq_shift;
	uint32_t rq_ci, rq_pi;
	struct rc_rx_credit rx;
	uint32_t index;                /* of the peer on its port */
	uint32_t away;                 /* its slots that are lent or in TX */
	/* WRITE; and the slots */
	struct spw_mlx5_rc_stack *stack; /* SEND: receives to be posted: its own, or the queue's */
	struct spw_mlx5_rc_stack own;
	spw_be32 *ring_out;            /* what we grant: mirror of the ring at the peer, RC_CREDIT_MAX entries */
	uint64_t ring_raddr;
	uint32_t ring_lkey, ring_rkey, ring_rmask;
	uint32_t slot_first, slot_cnt, credits;
	struct spw_mlx5_rc_wait *wait; /* ring of at least slot_cnt: every echo has its place */
	uint32_t wait_mask;
	struct spw_mlx5_err err;       /* why it is BROKEN */
} SPW_ALIGNED(64);

/* One entry of the table that finds a peer by QP number without a walk: multiplied and shifted, no two QPs of the queue
 * share an entry. */
struct spw_mlx5_rc_find {
	uint32_t mul, shift;
	struct spw_mlx5_rc_peer **peer; /* 1 << (32 - shift); empty entries point to the nobody */
};

struct spw_mlx5_rc_queue {
	/* read only */
	uint8_t *cqe;
	uint32_t cq_mask, cq_log2;
	spw_be32 *cq_db;
	struct spw_pool *pool;
	struct spw_mlx5_rc_find find;
	struct spw_mlx5_rc_peer *peer;      /* peer_cnt, then the nobody: never UP, stands for whoever is unknown */
	struct spw_mlx5_rc_peer **by_index; /* by port-wide index; those of other queues are the nobody */
	uint16_t *owner;                    /* by slot: its peer; SRQ: while it is lent; MLX5_RC_NOBODY: the pool */
	uint8_t *slot_state;                /* WRITE: enum spw_mlx5_rc_slot */
	uint32_t peer_cnt, index_cnt;
	uint64_t desc_tail;
	uint32_t room_bytes;
	/* hot */
	uint32_t cq_ci SPW_ALIGNED(64);
	uint32_t lent_cnt, in_tx_cnt, todo_cnt, broken_cnt;
	struct spw_mlx5_rc_peer **todo;     /* peers that may need a refill or credits */

	struct spw_mlx5_rc_zip zip;

	/* the SRQ: a list linked through its WQEs; the last free WQE is never posted, it is where the list grows */
	uint8_t *srq SPW_ALIGNED(64);
	spw_be32 *srq_db;
	uint32_t *srq_slot;               /* by WQE; MLX5_RC_NO_SLOT: not posted */
	uint16_t *srq_next;               /* the links, as the NIC reads them in the WQEs */
	uint32_t srq_mask, srq_shift;
	uint32_t srq_head, srq_tail, srq_free;
	struct spw_mlx5_rc_stack stack;   /* slots of its peers that are not posted */
	uint32_t srq_pi;                  /* posted since set-up */

	/* send completions */
	uint8_t *tx_cqe SPW_ALIGNED(64);
	spw_be32 *tx_cq_db;
	uint32_t tx_cq_mask, tx_cq_log2, tx_cq_ci;

	/* written by the owner, sampled by others */
	struct port_queue_stat stat;
	uint64_t syndrome[MLX5_SYNDROME_CNT];
	uint64_t control_rx, control_tx; /* control messages */
	unsigned flags;
	uint16_t index, port;
	spw_be32 db_ignored[2];
} SPW_ALIGNED(64);

struct spw_mlx5_rc_conf {
	struct spw_mlx5_cqmem cq, tx_cq;
	struct spw_mlx5_rqmem srq;   /* SRQ; stride at least 32: a next segment and one data segment */
	struct spw_pool *pool;
	unsigned flags;
	uint32_t peer_cnt;           /* of this queue, 1 .. MLX5_RC_PEER_MAX */
	uint32_t index_cnt;          /* of the port: desc.peer is 0 .. index_cnt - 1 */
	uint16_t index, port;
};

/* The memory of one peer's QP, and its slots. */
struct spw_mlx5_rc_peermem {
	struct spw_mlx5_rqmem rq;    /* cnt at least recv_cnt, stride at least 16; not with an SRQ */
	struct spw_mlx5_sqmem sq;
	spw_be32 *ring_out;          /* WRITE: RC_CREDIT_MAX entries */
	spw_be32 *ring_in;           /* WRITE: likewise, written by the peer */
	uint32_t index;              /* of the peer on the port */
	uint32_t slot_first, slot_cnt; /* taken from the pool by the caller */
	uint32_t sq_limit;           /* send WQEs that may be under way, 64 .. sq.cnt */
	uint32_t credits;            /* SEND: slot_cnt less RC_CTRL_RESERVE, which control messages need; WRITE: slot_cnt */
};

/* Purpose: lays a queue over its memory. Nothing is posted yet, and no peer known.
 * Errors:  -EINVAL names what is wrong; -ENOMEM. Owner: queue is the caller's; memory and pool outlive it. Thread: setup. */
int spw_mlx5_rc_init(struct spw_mlx5_rc_queue *q, const struct spw_mlx5_rc_conf *conf);

/* Purpose: makes peer `local` (0 .. peer_cnt - 1) known with its QP and slots. Errors: -EINVAL, -ENOMEM. Thread: setup. */
int spw_mlx5_rc_attach(struct spw_mlx5_rc_queue *q, uint32_t local, const struct spw_mlx5_rc_peermem *mem);

/* Purpose: posts receives: the shared ones (once, at start), or the peer's own, whose QP is in INIT. DOWN -> ARMED; every
 *          slot of the peer is home. The keys are those of the pool and of ring_out; they may differ from the last time.
 *          Thread: setup or owner. */
void spw_mlx5_rc_arm_shared(struct spw_mlx5_rc_queue *q);
void spw_mlx5_rc_arm(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, uint32_t lkey, uint32_t ring_lkey);

/* Purpose: both ends are ready: the peer may be sent to. ARMED -> UP. Errors: -EPROTO: remote says what cannot be.
 * Thread: owner. */
int spw_mlx5_rc_up(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, const struct spw_mlx5_rc_remote *remote);

/* Purpose: notes trouble with a peer: ARMED or UP -> BROKEN. syndrome as of an error CQE, or one of those below.
 *          Data-path safe. Thread: owner. */
#define MLX5_RC_SYN_NONSENSE 0u      /* a completion that makes no sense */
#define MLX5_RC_SYN_PROTOCOL 0x100u  /* the peer broke the protocol */
#define MLX5_RC_SYN_GONE     0x101u  /* its connection is gone */
void spw_mlx5_rc_break(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, uint32_t syndrome);

/* Purpose: is nothing of a BROKEN peer posted, unread, lent or in TX any more? Its QP is in ERR. Thread: owner. */
bool spw_mlx5_rc_drained(const struct spw_mlx5_rc_queue *q, const struct spw_mlx5_rc_peer *p);

/* Purpose: a QP in ERR: WQEs at the end of its send ring that asked for no completion may have been done already, and then
 *          nothing is heard of them. One more WQE, which is flushed, says that all before it are over. Again: nothing.
 * Thread:  owner. */
void spw_mlx5_rc_mark(struct spw_mlx5_rc_peer *p);

/* Purpose: the NIC has let go of the QP: what it had comes home, indices go to 0. -> DOWN. Thread: owner, setup. */
void spw_mlx5_rc_home(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p);

/* Purpose: after the NIC let go of everything: every slot that is not lent goes to the pool; lent ones that come back
 *          later do so too. Thread: setup. */
void spw_mlx5_rc_disarm(struct spw_mlx5_rc_queue *q);
/* A zeroed queue is fine. */
void spw_mlx5_rc_fini(struct spw_mlx5_rc_queue *q);

void spw_mlx5_rc_slots(const struct spw_mlx5_rc_queue *q, struct spw_port_slots *slots_out);

/* Purpose: the burst functions of the queue's variant; events is the caller's. */
void spw_mlx5_rc_calls(struct spw_mlx5_rc_queue *q, struct spw_port_queue *pq);

/* Purpose: looks for send completions. Owner thread. */
void spw_mlx5_rc_reap(struct spw_mlx5_rc_queue *q);

/* ---- between the files ----------------------------------------------------------------------------- */

spw_mlx5_rx_fn *spw_mlx5_rc_rx_variant(unsigned flags);
spw_mlx5_tx_fn *spw_mlx5_rc_tx_variant(unsigned flags);

/* Purpose: the CQE at the consumer index is no plain one: an error, or nonsense. Uses up such CQEs, up to one burst.
 * Data-path safe. */
void spw_mlx5_rc_rx_odd(struct spw_mlx5_rc_queue *q);
void spw_mlx5_rc_tx_odd(struct spw_mlx5_rc_queue *q);

/* Purpose: of the messages that wait, those that are longer than max come home unsent (0: all). Owner thread. */
void spw_mlx5_rc_wait_home(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, uint32_t max);

/* Purpose: slots of send WQEs up to end come home; whether they arrived is not known. Owner thread. */
void spw_mlx5_rc_tx_lost(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p, uint32_t end);

/* Purpose: refills, rings the receive doorbells, and tells peers what they may send. A peer that is still owed something
 *          stays on the list. Data-path safe. */
void spw_mlx5_rc_settle(struct spw_mlx5_rc_queue *q);

/* Purpose: sends what waits for this peer, as far as it may; rings its send doorbell. Data-path safe. */
void spw_mlx5_rc_send_waiting(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p);

/* Purpose: tells the peer of all credits that wait; rings its send doorbell. Its send ring has room (rc_grant_room).
 * Data-path safe. */
void spw_mlx5_rc_grant(struct spw_mlx5_rc_queue *q, struct spw_mlx5_rc_peer *p);

#endif
