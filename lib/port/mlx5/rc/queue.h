/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 RC on mlx5: one queue with many peers, as its data path uses it: memory only. rx.c, tx.c
 * and err.c know completion entries, work queue entries and doorbell records; queue.c lays the
 * structs over that memory. The memory comes from obj.c through rdma-core, or from a test that
 * plays the NIC (tests/unit/port/mlx5/rc/rc_hand.h).
 *
 * One queue has one receive CQ and one send CQ for all of its peers, and one QP per peer. The
 * protocol on a QP is that of peer/spw_peer.h:
 *
 *   SEND    a message lands in the slot of the next receive WQE, of the QP's own ring or of an SRQ
 *           shared by the peers of the queue. One credit is one message, backed by one receive.
 *   WRITE   the peer writes a message into a slot that it was granted; the immediate is the slot's
 *           number. The receives that immediates use up have no scatter entry.
 *
 * Where a slot is. A peer has slots of its own (with an SRQ the peers of a queue share theirs):
 *
 *      +-> free, or in a receive (SEND), or granted (WRITE)
 *      |                    | message arrives
 *      |                    v
 *      +--release-------- lent --tx_burst--> in TX: waits for a credit, or in a send WQE
 *      |                                               | send completion
 *      +-----------------------------------------------+   each return makes a credit again
 *
 * Slots of no peer stay in the pool, for lend_burst.
 *
 * A message for a peer that is POSTED, or that has granted nothing at the moment, waits in a ring
 * of that peer and is sent, in order, when the peer is UP and grants.
 *
 * The state of a peer is enum spw_peer_side:
 *
 *   DOWN --post--> POSTED --up--> UP
 *    ^                |            |
 *    |                +---break----+--> BROKEN --reset--> DOWN
 *
 * Only an UP peer is sent to. Of a BROKEN one only the remaining completions are taken. Other peers
 * are not affected.
 *
 * Orderings: M1 to M4 of mlx5/mem.h. What the peer wrote into memory before its message (grants)
 * is covered by M1 of that message's CQE. RC1 of peer/spw_peer.h orders control and owner.
 */
#ifndef SPW_PORT_MLX5_RC_QUEUE_H
#define SPW_PORT_MLX5_RC_QUEUE_H

#include "port/mlx5/mem.h"
#include "peer/spw_peer_credit.h"
#include "peer/spw_peer_side.h"
#include "rdma/spw_rdma_drain.h"

#define MLX5_RC_PEER_MAX   64u /* of one queue */
#define MLX5_RC_SQ_RESERVE 8u  /* send WQEs that only control messages may use */
#define MLX5_RC_NOBODY     UINT16_MAX
#define MLX5_RC_NO_SLOT    UINT32_MAX

/* Variants: fixed at set-up, constant in the code. */
enum mlx5_rc_flag {
	MLX5_RC_STAMP = 1u << 0, /* one hardware timestamp per message */
	MLX5_RC_SRQ = 1u << 1,   /* receives come from a shared receive queue */
	MLX5_RC_WRITE = 1u << 2, /* messages are WRITE_WITH_IMM into granted slots */
	MLX5_RC_COMPRESSED =
		1u << 3, /* the NIC compresses similar receive CQEs; not with STAMP or WRITE,
			  * since a mini-CQE has no timestamp and no immediate */
};

/* WRITE: where a peer's slot is. FREE: returned, and to be granted again. */
enum mlx5_rc_slot { MLX5_RC_FREE, MLX5_RC_GRANTED, MLX5_RC_LENT };

/* Free slots, last in first out. */
struct mlx5_rc_stack {
	uint32_t *slot;
	uint32_t cnt;
};

/* A compression session: a title CQE and what is left of its mini-CQEs. */
struct mlx5_rc_session {
	uint8_t title[MLX5_CQE_BYTES] SPW_ALIGNED(64);
	uint8_t mini[SPW_PRM_MINI_PER_CQE * 8];
	uint32_t left; /* mini-CQEs not taken yet */
	uint32_t idx;  /* next entry of mini[] */
	uint32_t wqe;  /* WQE counter of that entry */
};

/* A posted send WQE; slot is MLX5_RC_NO_SLOT for a control message. */
struct mlx5_rc_sent {
	uint32_t slot, len;
};

/* A message that waits until its peer grants, or is UP. */
struct mlx5_rc_wait {
	uint32_t slot, offset, len, meta;
	uint16_t flags;
};

/* The other side's parameters: struct spw_peer_remote without rdma-core's headers. */
struct mlx5_rc_remote {
	uint32_t credits;   /* W of the peer: the credits at the start, and the most at any time */
	uint32_t msg_max;   /* longest message that it accepts, in bytes */
	uint64_t slot_addr; /* WRITE: address of its slot 0, and bytes from one slot to the next */
	uint64_t slot_stride;
	uint32_t slot_rkey;
	uint32_t ring_rkey; /* WRITE: its ring that we write grants to */
	uint64_t ring_addr;
	uint32_t ring_cnt; /* a power of 2 >= our credits, at most SPW_PEER_CREDIT_MAX */
};

struct mlx5_rc_peer {
	/* send: hot */
	uint8_t *sq;
	struct mlx5_rc_sent *sent;  /* by WQE */
	uint32_t sq_mask, sq_limit; /* sq_limit: WQEs that may be posted; messages leave
				     * MLX5_RC_SQ_RESERVE to    control messages */
	uint32_t sq_pi, sq_ci;
	uint32_t sq_rung,
		sq_signal; /* sq_pi at the last doorbell; position after the last signaled WQE */
	struct spw_peer_tx_credit tx; /* no credit is left unless the peer is UP */
	uint32_t qpn;
	uint32_t wait_ci, wait_pi; /* ring of messages that wait; their slots count as in TX */
	/* send: read only, and the doorbell */
	spw_be32 *sq_db SPW_ALIGNED(64);
	uint8_t *bf;
	uint32_t bf_toggle; /* bytes of half a BlueFlame register; 0: 8-byte doorbells only */
	uint32_t lkey, msg_max;
	uint64_t raddr, rstride; /* WRITE: the peer's slots */
	spw_be32 *ring_in; /* WRITE: slots the peer granted, written by its NIC; SPW_PEER_CREDIT_MAX
			      entries */
	uint32_t rkey;
	uint16_t side, todo; /* enum spw_peer_side; todo: it is on the queue's list */
	/* receive */
	uint8_t *wqe SPW_ALIGNED(64); /* NULL with an SRQ */
	uint32_t *slot_of;            /* SEND: by WQE */
	spw_be32 *rq_db;
	uint32_t rq_mask, rq_shift;
	uint32_t rq_ci, rq_pi;
	struct spw_peer_rx_credit rx;
	uint32_t index; /* of the peer on its port */
	uint32_t out;   /* its slots that are lent or in TX */
	/* WRITE; and the slots */
	struct mlx5_rc_stack *stack; /* SEND: slots to post next: own, or the queue's with an SRQ */
	struct mlx5_rc_stack own;
	spw_be32 *ring_out; /* what we grant: mirror of the ring at the peer, SPW_PEER_CREDIT_MAX
			       entries */
	uint64_t ring_raddr;
	uint32_t ring_lkey, ring_rkey, ring_rmask;
	uint32_t slot_first, slot_cnt, credits;
	struct mlx5_rc_wait *wait; /* at least slot_cnt entries, so that every echo fits */
	uint32_t wait_mask;
	struct mlx5_err err;     /* the first error; valid while BROKEN */
	struct rdma_drain drain; /* its QP is drained; all zero: it is not */
} SPW_ALIGNED(64);

/* A perfect hash from QP number to peer: peer[(qpn * mul) >> shift]. No two QPs of the queue share
 * an entry. */
struct mlx5_rc_find {
	uint32_t mul, shift;
	struct mlx5_rc_peer **peer; /* 1 << (32 - shift); empty entries point to the nobody peer */
};

struct mlx5_rc_queue {
	/* read only */
	uint8_t *cqe;
	uint32_t cq_mask, cq_log2;
	spw_be32 *cq_db;
	struct spw_pool *pool;
	struct mlx5_rc_find find;
	struct mlx5_rc_peer *
		peer; /* peer_cnt entries, then the nobody peer: never UP, stands for unknown QPs */
	struct mlx5_rc_peer *
		*by_index; /* by port-wide index; peers of other queues are the nobody peer */
	uint16_t *owner;   /* by slot: its peer; SRQ: while it is lent; MLX5_RC_NOBODY: the pool */
	uint8_t *slot_state; /* WRITE: enum mlx5_rc_slot */
	uint32_t peer_cnt, index_cnt;
	uint64_t desc_tail;
	uint32_t room_bytes;
	/* hot */
	uint32_t cq_ci SPW_ALIGNED(64);
	uint32_t lent_cnt, in_tx_cnt, todo_cnt, broken_cnt;
	uint32_t
		bf_off; /* offset of the half of the peers' shared BlueFlame register to use next */
	struct mlx5_rc_peer **todo; /* peers that may need a refill or credits */

	struct mlx5_rc_session session;

	/* the SRQ: a list linked through its WQEs; the last free WQE is never posted, since freed
	 * WQEs are linked after it */
	uint8_t *srq SPW_ALIGNED(64);
	spw_be32 *srq_db;
	uint32_t *srq_slot; /* by WQE; MLX5_RC_NO_SLOT: not posted */
	uint16_t *srq_next; /* the links, as the NIC reads them in the WQEs */
	uint32_t srq_mask, srq_shift;
	uint32_t srq_head, srq_tail, srq_free;
	struct mlx5_rc_stack stack; /* slots of its peers that are not posted */
	uint32_t srq_pi;            /* posted since set-up */

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

struct mlx5_rc_queue_conf {
	struct mlx5_cqmem cq, tx_cq;
	struct mlx5_rqmem srq; /* SRQ; stride at least 32: a next segment and one data segment */
	struct spw_pool *pool;
	unsigned flags;
	uint32_t peer_cnt;  /* of this queue, 1 .. MLX5_RC_PEER_MAX */
	uint32_t index_cnt; /* of the port: desc.peer is 0 .. index_cnt - 1 */
	uint16_t index, port;
};

/* The memory of one peer's QP, and its slots. */
struct mlx5_rc_peermem {
	struct mlx5_rqmem rq; /* cnt at least recv_cnt, stride at least 16; not with an SRQ */
	struct mlx5_sqmem sq;
	spw_be32 *ring_out;            /* WRITE: SPW_PEER_CREDIT_MAX entries */
	spw_be32 *ring_in;             /* WRITE: likewise, written by the peer */
	uint32_t index;                /* of the peer on the port */
	uint32_t slot_first, slot_cnt; /* taken from the pool by the caller */
	uint32_t sq_limit;             /* send WQEs that may be under way, 64 .. sq.cnt */
	uint32_t credits; /* SEND: slot_cnt less SPW_PEER_CTRL_RESERVE, which control messages need;
			     WRITE: slot_cnt */
};

/* Purpose: lays a queue over its memory. Nothing is posted, and no peer is attached yet.
 * Owner: q is the caller's, until mlx5_rc_queue_fini; memory and pool outlive it.
 * Thread: setup.
 * Errors: -EINVAL with the value that is wrong; -ENOMEM. */
int mlx5_rc_queue_init(struct mlx5_rc_queue *q, const struct mlx5_rc_queue_conf *conf);

/* Purpose: attaches peer `local` with its QP and slots.
 * Shape: local 0 .. peer_cnt - 1.
 * Thread: setup.
 * Errors: -EINVAL with the value that is wrong; -ENOMEM. */
int mlx5_rc_attach(struct mlx5_rc_queue *q, uint32_t local, const struct mlx5_rc_peermem *mem);

/* Purpose: posts receives: the shared ones (once, at start), or those of a peer. DOWN -> POSTED.
 * Shape: the peer's QP is in INIT, and none of its slots is lent or in TX. lkey is the key of the
 * pool, ring_lkey that of ring_out; both may have changed since the last connection.
 * Thread: setup, or owner. */
void mlx5_rc_post_shared(struct mlx5_rc_queue *q);
void mlx5_rc_post(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t lkey,
		  uint32_t ring_lkey);

/* Purpose: both ends are ready: messages to the peer may be sent. POSTED -> UP.
 * Thread: owner.
 * Errors: -EPROTO: remote has an impossible value; the state is unchanged. */
int mlx5_rc_up(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p,
	       const struct mlx5_rc_remote *remote);

/* Purpose: stops a peer after an error. POSTED or UP -> BROKEN; in another state nothing happens.
 * Shape: syndrome as in an error CQE, or one of those below.
 * Thread: owner; data-path safe. */
#define MLX5_RC_SYN_BAD_CQE  0u     /* an impossible completion */
#define MLX5_RC_SYN_PROTOCOL 0x100u /* the peer broke the protocol */
#define MLX5_RC_SYN_GONE     0x101u /* its connection is gone */
void mlx5_rc_break(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t syndrome);

/* Returns: true if nothing of a BROKEN peer is posted, unread, lent or in TX any more.
 * Shape: its QP is in ERR; with an SRQ its last-WQE event has arrived.
 * Thread: owner. */
bool mlx5_rc_is_drained(const struct mlx5_rc_queue *q, const struct mlx5_rc_peer *p);

/* Returns: true if a completion of the peer's QP is in a CQ and not yet polled.
 * Thread: owner. */
bool mlx5_rc_has_unread(const struct mlx5_rc_queue *q, const struct mlx5_rc_peer *p);

/* Purpose: posts one marker WQE to a QP in ERR; its flush CQE proves that all earlier WQEs have
 * completed. Without it, unsignaled WQEs at the end of the send ring that completed before the
 * error would never be reported. Idempotent. Thread: owner. */
void mlx5_rc_mark(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p);

/* Purpose: resets a peer whose QP the NIC no longer uses: returns all of its slots that are posted,
 * in TX or waiting, and sets its indices to 0. Any state -> DOWN.
 * Thread: owner, or setup. */
void mlx5_rc_reset(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p);

/* Purpose: after all QPs are destroyed: returns every slot that is not lent to the pool. Lent ones
 * go to the pool when they are released. Thread: setup. */
void mlx5_rc_return_slots(struct mlx5_rc_queue *q);
/* Purpose: frees the tables of a queue. A zeroed queue is fine. Thread: setup. */
void mlx5_rc_queue_fini(struct mlx5_rc_queue *q);

/* Purpose: where the slots of the queue are (spw_port_driver.slots). Thread: owner, or stopped. */
void mlx5_rc_queue_slots(const struct mlx5_rc_queue *q, struct spw_port_slots *slots_out);

/* Purpose: fills in the burst functions of the queue's variant; the caller sets events.
 * Thread: setup. */
void mlx5_rc_queue_calls(struct mlx5_rc_queue *q, struct spw_port_queue *pq);

/* Purpose: takes up to one burst of send completions. Thread: owner. */
void mlx5_rc_reap(struct mlx5_rc_queue *q);

/* ---- between the files; Thread of all: owner ---- */

/* Purpose: the burst function of a set of flags. Returns: NULL: there is no such variant. */

mlx5_rx_fn *mlx5_rc_rx_variant(unsigned flags);
mlx5_tx_fn *mlx5_rc_tx_variant(unsigned flags);

/* Purpose: the CQE at the consumer index is not plain: an error, or impossible. Consumes such CQEs,
 * up to one burst. Data-path safe. */
void mlx5_rc_rx_odd(struct mlx5_rc_queue *q);
void mlx5_rc_tx_odd(struct mlx5_rc_queue *q);

/* Purpose: returns the slots of waiting messages that are longer than max (0: of all), unsent. */
void mlx5_rc_wait_return(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t max);

/* Purpose: returns the slots of send WQEs up to end, counted as flushed: whether they arrived is
 * unknown. */
void mlx5_rc_tx_lost(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t end);

/* Purpose: for each peer on the todo list: posts receives, stores the receive doorbell record, and
 * sends credits that are due. A peer whose credits could not be sent stays on the list. Data-path
 * safe. */
void mlx5_rc_settle(struct mlx5_rc_queue *q);

/* Purpose: sends messages that wait for this peer, as far as credits and WQEs allow, and rings its
 * send doorbell. Data-path safe. */
void mlx5_rc_send_waiting(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p);

/* Purpose: sends all credits that wait to be advertised, and rings the send doorbell.
 * Shape: the send ring has room (mlx5_rc_can_grant). Data-path safe. */
void mlx5_rc_grant(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p);

#endif
