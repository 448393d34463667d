/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reliable connections: who the peers are, and how a connection is set up, lost and set up again.
 * Shared by port/verbs/rc and port/mlx5/rc, which differ only in how they post and poll.
 *
 * Why there is a control thread: making a QP ready, registering memory and talking TCP are system
 * calls of microseconds to milliseconds, and an lcore must not wait for any of them. One control
 * thread per port makes them for all queues; it sleeps in poll(2) while nothing happens.
 *
 * One word per peer says whose turn it is. The owner is the lcore of queue (peer % queue_cnt).
 *
 *   state     turn     meaning, and what ends it
 *   --------  -------  --------------------------------------------------------------------------
 *   DOWN      control  QP in RESET, nothing posted, no slot of the peer lent.
 *                        an exchange starts -> POST
 *   POST      owner    QP in INIT: post all receives.
 *                        spw_peer_posted -> POSTED
 *   POSTED    control  finish the exchange. The other side may be up a moment earlier: messages
 *                      can arrive and are taken; none is sent, since `remote` is not valid yet.
 *                        QP in RTS -> UP; the exchange fails -> FAIL
 *   UP        both     data flows.
 *                        spw_peer_fail, or control (TCP closed, a device event) -> FAIL;
 *                        spw_peer_conn_stop -> DRAIN
 *   FAIL      control  move the QP to ERR. With an SRQ, wait for its last-WQE event.
 *                        -> DRAIN
 *   DRAIN     owner    QP in ERR: take the flush of all posted receives and sends, and wait until
 *                      no slot of the peer is lent or in TX.
 *                        spw_peer_drained -> DRAINED
 *   DRAINED   control  move the QP to RESET; op=write: clear the slots.
 *                        -> DOWN
 *
 * The state is stored with release and loaded with acquire [RC1]: what one side wrote before it
 * passed the turn is what the other side reads. An entry is used again only after every slot of it
 * was returned, so a new peer can neither write where the old one's messages are still being read,
 * nor receive the old one's echoes. peer/spw_peer_side.h is the owner's own view of these states.
 *
 * The protocol on the QP, the same in both drivers (peer/spw_peer_credit.h has the arithmetic):
 *   - Message: 1 .. slot_bytes bytes of the receiver. Each takes one credit. W is the receiver's
 *     credit_cnt; both sides start with W credits.
 *   - Control message: a SEND_WITH_IMM of 0 bytes. Its immediate is the receiver's cumulative count
 *     of credits given since the start (W included), mod 2^32. It is sent when a quarter of W waits
 *     to be advertised, or when the peer has no credit left; with the greeting, no more than
 *     SPW_PEER_CTRL_RESERVE are under way, and so many receives are posted beyond W.
 *   - Greeting: the first thing that a side sends once it is up; a control message whose immediate
 *     is the count so far, W if nothing was returned yet. It proves that a QP exists behind the
 *     parameters: a peer from which nothing arrives within conf.exchange_ms is dropped
 *     (SPW_PEER_WHY_SILENT). It may arrive before the receiver is up.
 *   - op=send: a message is a SEND, or a SEND_WITH_IMM whose immediate is the user's.
 *   - op=write: a message is one WRITE_WITH_IMM to the start of a granted slot; the immediate is
 *     the slot's number in the receiver's range, 0 .. W-1. Receives carry no SGE. Slots 0 .. W-1
 *     are granted at the start, in this order. Later grants are RDMA WRITEs of slot numbers (be32)
 *     into the sender's ring at [count & (ring_cnt - 1)], followed by the control message.
 *   - A breach of these rules is answered with spw_peer_fail(SPW_PEER_WHY_PROTOCOL). Only that QP
 *     goes down.
 */
#ifndef SPW_PEER_H
#define SPW_PEER_H

#include <infiniband/verbs.h>

#include "base/spw_order.h"
#include "peer/spw_peer_conf.h"
#include "peer/spw_peer_credit.h"
#include "peer/spw_peer_side.h"
#include "rdma/spw_rdma.h"

/* The table above, in this order. */
enum spw_peer_state {
	SPW_PEER_DOWN,
	SPW_PEER_POST,
	SPW_PEER_POSTED,
	SPW_PEER_UP,
	SPW_PEER_FAIL,
	SPW_PEER_DRAIN,
	SPW_PEER_DRAINED,
};

/* Memory of one peer. Owner: the caller of spw_peer_conn_peer_setup. */
struct spw_peer_memory {
	uint8_t *slot;     /* slot_cnt slots, contiguous, used by this peer only */
	size_t slot_bytes; /* of each */
	uint32_t slot_cnt; /* as spw_peer_conn_share returns */
	uint32_t lkey;     /* of `all` in the device's PD; op=send uses it */
	uint8_t *all;      /* everything that is sent from; includes the slots */
	size_t all_bytes;
};

/* One entry of the table of peers. */
struct spw_peer {
	/* Set by spw_peer_conn_peer_setup, read-only afterwards. */
	uint32_t index; /* on the port; travels in spw_desc.peer */
	uint16_t queue; /* of its owner */
	enum spw_peer_op op;
	struct spw_peer_memory memory;
	uint32_t credit_cnt; /* W; memory.slot_cnt is W, with op=send SPW_PEER_CTRL_RESERVE more */
	uint32_t recv_cnt;   /* receives to post: credit_cnt + SPW_PEER_CTRL_RESERVE */
	struct ibv_pd *pd;   /* op=write: one per peer, since a QP reaches every MR of its PD;
			      * op=send: the device's */
	uint32_t lkey;       /* of memory.all in pd; no remote rights */
	struct ibv_mr *slot_mr; /* op=write: the slots, with remote write */
	spw_be32 *ring_in;      /* op=write: SPW_PEER_CREDIT_MAX slot numbers, written by the peer:
				 * check each before use */
	spw_be32 *ring_out;     /* op=write: SPW_PEER_CREDIT_MAX slot numbers that we grant, the
				 * source of the WRITEs to the peer's ring */
	uint32_t ring_out_lkey;
	/* A QP of pd, in RESET. Set by the driver between that call and start, and destroyed by it
	 * after spw_peer_conn_stop. */
	struct ibv_qp *qp;
	struct spw_peer_remote remote;

	uint32_t state SPW_ALIGNED(SPW_CACHE_LINE); /* enum spw_peer_state [RC1] */
	uint32_t why, code;                         /* written by the owner before SPW_PEER_FAIL */
	uint32_t heard; /* 1: something arrived over the QP since its receives were posted;
			 * written by the owner, sampled by control */
} SPW_ALIGNED(SPW_CACHE_LINE);

/* What the connections need of the device. All of it is borrowed and outlives the spw_peer_conn. */
struct spw_peer_dev {
	struct rdma_dev *rdma;
	struct rdma_gid gid; /* that our packets carry */
	uint16_t mtu;        /* path MTU in bytes, 256 .. 4096: conf.mtu, else the port's */
	const char *name;    /* of the port, for messages */
	/* Events of CQs and SRQs, called in the control thread; NULL: not wanted. */
	rdma_dev_object_fn *async;
	void *async_arg;
};

/* All connections of one port. */
struct spw_peer_conn;

/* ---- set-up ---- */

/* Purpose: makes the table of conf->peer_max peers. Opens no socket and starts no thread.
 * Shape: queue_cnt 1 .. conf->peer_max. conf and dev are copied; what dev points to is borrowed.
 * Owner: the caller, until spw_peer_conn_close.
 * Thread: setup.
 * Errors: -ENOMEM; -EMFILE. *conn_out is then NULL. */
int spw_peer_conn_open(const struct spw_peer_conf *conf, const struct spw_peer_dev *dev,
		       uint16_t queue_cnt, struct spw_peer_conn **conn_out);

/* Purpose: how many of `total` slots of a queue each of its peers gets. The rest stays in the pool,
 * for messages that this side starts.
 * Shape: *slot_cnt_out is 0 if the queue has no peer.
 * Thread: setup.
 * Errors: -EINVAL: too few slots; the text says how many each peer needs. */
int spw_peer_conn_share(const struct spw_peer_conn *conn, uint16_t queue, uint32_t total,
			uint32_t *slot_cnt_out);

/* Purpose: gives a peer its memory and, with op=write, a PD, rings and MRs.
 * Shape: peer < conf->peer_max; memory->slot_cnt as spw_peer_conn_share returns.
 * Owner: the memory stays the caller's and outlives conn; PD, rings and MRs are conn's.
 * Thread: setup.
 * Errors: -ENOMEM; -EPERM: the limit of locked memory, with the remedy. */
int spw_peer_conn_peer_setup(struct spw_peer_conn *conn, uint32_t peer,
			     const struct spw_peer_memory *memory);

/* Purpose: one entry of the table.
 * Shape: peer < conf->peer_max.
 * Owner: conn, until spw_peer_conn_close.
 * Thread: any. */
struct spw_peer *spw_peer_conn_peer(struct spw_peer_conn *conn, uint32_t peer);

/* Purpose: listens, and starts the control thread, which connects. Every peer must have its QP.
 * Thread: setup.
 * Errors: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES with the address; -EAGAIN: no thread. */
int spw_peer_conn_start(struct spw_peer_conn *conn);

/* Purpose: ends the control thread, closes every socket, and leaves every QP that was in use in
 * ERR, with its state SPW_PEER_DRAIN. The driver then takes the flush (the lcores have stopped, so
 * any thread may) and destroys the QPs.
 * Shape: a conn that was not started is fine.
 * Thread: setup. */
void spw_peer_conn_stop(struct spw_peer_conn *conn);

/* Purpose: frees MRs, PDs and the table.
 * Shape: the QPs are destroyed. NULL is fine.
 * Thread: setup. */
void spw_peer_conn_close(struct spw_peer_conn *conn);

/* ---- the litmus: a peer connected to itself ---- */

/* Purpose: takes the next step to connect a peer's QP to itself, and back to DOWN. Between two
 * calls the caller runs the owner's turn (the driver's events).
 * Shape: before spw_peer_conn_start, or if that was never called; peer < conf->peer_max,
 * with its QP. At the end no slot of the peer is lent or in TX, and nothing that was counted
 * remains.
 * Thread: setup.
 * Returns: 0: it is UP, or DOWN; -EAGAIN: call again; -ENOTSUP, in one clause: the device does not
 * connect a QP to itself. */
int spw_peer_conn_loop(struct spw_peer_conn *conn, uint32_t peer);
int spw_peer_conn_loop_end(struct spw_peer_conn *conn, uint32_t peer);

/* ---- the owner's side ---- */

/* Purpose: suspends the control thread, so that an owner may give peers of its queue whose turn is
 * the owner's other QPs (spw_peer.qp). For recovery only. Does not wait: a turn of control may last
 * a second, while the kernel looks up the MAC of a peer that does not answer (spw_peer_qp.h).
 * Shape: release follows a hold that succeeded, in the same thread.
 * Returns: false: control is in a turn: try again in the next events call.
 * Thread: owner, outside the bursts. */
bool spw_peer_conn_hold(struct spw_peer_conn *conn);
void spw_peer_conn_release(struct spw_peer_conn *conn);

/* Returns: the state; all that the other side wrote before it stored that state is visible.
 * Order: [RC1 acquire, pairs with the releases of control].
 * Thread: any. */
SPW_INLINE enum spw_peer_state spw_peer_state(const struct spw_peer *peer)
{
	return (enum spw_peer_state)spw_thr_load_acq(&peer->state);
}

/* Purpose: reports that all receives are posted. POST -> POSTED.
 * Thread: owner, outside the bursts (it wakes the control thread). */
void spw_peer_posted(struct spw_peer_conn *conn, struct spw_peer *peer);

/* Purpose: reports that something arrived over the peer's QP (spw_peer_credit_heard). In UP.
 * Thread: owner. */
SPW_INLINE void spw_peer_heard(struct spw_peer *peer)
{
	spw_thr_store_rlx(&peer->heard, 1);
}

/* Purpose: ends the connection. UP -> FAIL; in any other state, or if control was faster, nothing
 * happens: read the state again. Never blocks.
 * Shape: code as enum spw_peer_why says.
 * Thread: owner, outside the bursts (it wakes the control thread). */
void spw_peer_fail(struct spw_peer_conn *conn, struct spw_peer *peer, enum spw_peer_why why,
		   uint32_t code);

/* Purpose: reports that nothing of this peer is posted, lent or in TX any more. DRAIN -> DRAINED.
 * Thread: owner, outside the bursts (it wakes the control thread). */
void spw_peer_drained(struct spw_peer_conn *conn, struct spw_peer *peer);

/* Purpose: events of the peers of a queue: PEER_UP (with outage_ns) and PEER_DOWN, code being the
 * peer. Queue 0 also gets events of the port and the device (rdma/spw_rdma_ctl.h). Memory only:
 * never blocks and makes no system call.
 * Returns: events written, 0 .. cnt.
 * Thread: owner. */
uint16_t spw_peer_conn_events(struct spw_peer_conn *conn, uint16_t queue,
			      struct spw_port_event *event, uint16_t cnt);

/* Purpose: adds peer_gone, protocol, queue_reset, link_down and refused to stat->err.
 * Thread: any. */
void spw_peer_conn_stat(const struct spw_peer_conn *conn, struct spw_port_stat *stat);

#endif
