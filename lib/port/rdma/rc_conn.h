/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reliable connections: who the peers are, how they are brought up, lost and brought up again. Private to lib/port; shared
 * by the verbs and the mlx5 driver, which differ only in how they post and poll.
 *
 * Why there is a thread: making a QP ready, registering memory and talking TCP are system calls that take microseconds to
 * milliseconds, and an lcore must not wait for any of them. One control thread per port does them, for all queues; it
 * sleeps in poll(2) unless something happens.
 *
 * One word per peer says whose turn it is. The owner is the lcore of queue (peer % queue_cnt).
 *
 *   state        whose turn   meaning, and what that side does to go on
 *   RC_DOWN      control      QP in RESET, nothing posted, no slot of the peer is lent. An exchange takes it on:
 *   RC_POST      owner        QP in INIT; post the receives, all of them         rc_peer_posted     → RC_POSTED
 *   RC_POSTED    control      finish the exchange, QP to RTS                                        → RC_UP
 *                             (the other side may be up a moment earlier: messages can come here already, and are taken;
 *                             nothing is sent, since remote is not valid)
 *   RC_UP        both         data flows. Ends by the owner (rc_peer_fail)                          → RC_FAIL
 *                             or by control (TCP connection closed, stop)                           → RC_DRAIN
 *   RC_FAIL      control      QP to ERR                                                             → RC_DRAIN
 *   RC_DRAIN     owner        QP in ERR; take every posted receive and send back as the flush brings them, wait until no
 *                             slot of the peer is lent or in TX                  rc_peer_drained    → RC_DRAINED
 *   RC_DRAINED   control      QP to RESET                                                           → RC_DOWN
 *
 * The state is stored with release and loaded with acquire [RC1], so that what one side wrote before it passed the turn is
 * what the other side reads. An entry is used again only when every slot of it came home: a new peer can neither write
 * where the old one's messages are still being read, nor get the old one's echoes.
 *
 * The protocol on the QP (both drivers speak it; rc_credit.h has the arithmetic):
 *   - A message has 1 .. slot_bytes bytes of the receiver. Nobody sends one without a credit; W is the receiver's
 *     credit_cnt, and both sides start with W credits.
 *   - A control message is a SEND_WITH_IMM of 0 bytes; its immediate is the receiver's cumulative count of credits given
 *     since the start (W included), mod 2^32. It is sent when a quarter of W waits or when the peer has none left, so that
 *     fewer than RC_CTRL_RESERVE are under way; so many receives are posted beyond W.
 *   - op=send: a message is a SEND, or a SEND_WITH_IMM whose immediate is the user's own.
 *   - op=write: a message is one WRITE_WITH_IMM to the start of a granted slot; the immediate is the slot's number in the
 *     receiver's range, 0 .. W-1. Receives carry no SGE. At the start slots 0 .. W-1 are granted in this order; later ones by an
 *     RDMA WRITE of their numbers (be32) into the sender's ring, at [count & (ring_cnt - 1)], and then the control message.
 *   - What breaks this is answered with rc_peer_fail(RC_WHY_PROTOCOL): only that QP goes down.
 */
#ifndef SPW_PORT_RC_CONN_H
#define SPW_PORT_RC_CONN_H

#include <infiniband/verbs.h>

#include "base/spw_order.h"
#include "port/rdma/rc_conf.h"
#include "port/rdma/rc_credit.h"
#include "port/rdma/rdma_dev.h"
#include "port/spw_port.h"

enum rc_state { RC_DOWN, RC_POST, RC_POSTED, RC_UP, RC_FAIL, RC_DRAIN, RC_DRAINED };

enum rc_why {
	RC_WHY_QP_ERROR,  /* an error completion; code: enum ibv_wc_status, or the syndrome */
	RC_WHY_PROTOCOL,  /* more than granted, a wrong immediate, a wrong length */
	RC_WHY_PEER_GONE, /* its TCP connection closed */
	RC_WHY_EXCHANGE,  /* the exchange failed half-way */
	RC_WHY_STOP,
};

/* What the other side said of itself; valid from RC_UP on. */
struct rc_remote {
	uint32_t credit_cnt;      /* W, also the count of credits to start with */
	uint32_t slot_bytes;      /* the longest message it takes */
	uint64_t slot_addr;       /* op=write: its slot 0; slots follow each other every slot_stride bytes */
	uint32_t slot_rkey;
	uint32_t slot_stride;
	uint64_t ring_addr;       /* op=write: where it wants to read the numbers that we grant */
	uint32_t ring_rkey;
	uint32_t ring_cnt;        /* a power of 2, >= our credit_cnt */
};

struct rc_peer {
	/* Set by rc_conn_peer_setup, read-only afterwards. */
	uint32_t index;           /* of the port; travels in spw_desc.peer */
	uint16_t queue;
	enum rc_op op;
	struct spw_pool *pool;
	uint32_t slot_first;      /* its slots are [slot_first, slot_first + slot_cnt) of the pool, and no others */
	uint32_t slot_cnt;        /* op=send: credit_cnt + RC_CTRL_RESERVE; op=write: credit_cnt */
	uint32_t credit_cnt;      /* W */
	uint32_t recv_cnt;        /* receives to post: credit_cnt + RC_CTRL_RESERVE, in both modes */
	struct ibv_pd *pd;        /* op=write: its own, since a QP reaches every MR of its PD; op=send: the device's */
	uint32_t lkey;            /* of the whole pool, in pd; no remote rights */
	struct ibv_mr *slot_mr;   /* op=write: its slots, remote write */
	spw_be32 *ring_in;        /* op=write: the peer writes what it grants here; RC_CREDIT_MAX entries. Check each one */
	spw_be32 *ring_out;       /* op=write: what we grant, as we WRITE it to the peer; RC_CREDIT_MAX entries, ours */
	uint32_t ring_out_lkey;
	/* Set by the driver between peer_setup and start: a QP of pd, in RESET. The driver destroys it after rc_conn_stop. */
	struct ibv_qp *qp;
	/* Written by control before RC_UP. */
	struct rc_remote remote;

	uint32_t state SPW_ALIGNED(SPW_CACHE_LINE); /* enum rc_state */
	uint32_t why, code;       /* written by the owner before RC_FAIL */
} SPW_ALIGNED(SPW_CACHE_LINE);

/* What rc_conn needs of the device; all borrowed, they outlive the rc_conn. */
struct rc_dev {
	struct rdma_dev *rdma;
	struct rdma_gid gid;
	uint16_t mtu;             /* path MTU in bytes, 256 .. 4096: conf.mtu, else the port's */
	const char *name;         /* of the port, for texts */
	rdma_dev_object_fn *async; /* events of CQs and SRQs, in the control thread; NULL: nobody wants them */
	void *async_arg;
};

struct rc_conn;

/* Purpose: makes the table of conf->peer_max peers; opens no socket. conf is copied.
 * Errors:  -ENOMEM. Owner: the caller, until rc_conn_close. Thread: setup. */
int rc_conn_open(const struct rc_conf *conf, const struct rc_dev *dev, uint16_t queue_cnt, struct rc_conn **conn_out);

/* Purpose: how many slots each peer of a queue with this pool gets, from conf and the pool; the rest stays in the pool for
 *          lend_burst.
 * Errors:  -EINVAL: too few slots (the text says how many). Thread: setup. */
int rc_conn_share(const struct rc_conn *conn, uint16_t queue, const struct spw_pool *pool, uint32_t *slot_cnt_out);

/* Purpose: slots 0 .. cnt - 1 leave the pool, or go back to it: those of all peers of a queue.
 * Errors:  -EBUSY: somebody else has slots of it; -ENOMEM. Thread: setup. */
int rc_slots_take(struct spw_pool *pool, uint32_t cnt);
void rc_slots_give(struct spw_pool *pool, uint32_t cnt);

/* Purpose: gives a peer its slots and, op=write, its PD, rings and MRs. slot_first: the first of its slot_cnt (share) slots,
 *          which the driver has taken from the pool. lkey: of the pool's region in dev->pd (op=send uses it).
 * Errors:  -ENOMEM, -EPERM (memlock: the text says what to set). Thread: setup. */
int rc_conn_peer_setup(struct rc_conn *conn, uint32_t peer, struct spw_pool *pool, uint32_t slot_first, uint32_t slot_cnt,
		       uint32_t lkey);

/* Shape: peer < rc_conn_peer_cnt. Thread: any. */
struct rc_peer *rc_conn_peer(struct rc_conn *conn, uint32_t peer);
uint32_t rc_conn_peer_cnt(const struct rc_conn *conn);

/* Purpose: listens and connects: starts the control thread. Every peer has its QP.
 * Errors:  -EADDRINUSE, -EADDRNOTAVAIL, -EACCES with the address; -EAGAIN no thread. Thread: setup. */
int rc_conn_start(struct rc_conn *conn);

/* Purpose: ends the thread, closes every connection and leaves every QP that was in use in ERR, with its state RC_DRAIN: the
 *          driver takes back what the flush brings (the lcores have stopped, so it may do so itself), and destroys the QPs.
 * Thread:  setup; a conn that was not started is fine. */
void rc_conn_stop(struct rc_conn *conn);

/* Purpose: frees MRs, PDs and the table. After the QPs are gone. NULL is fine. Thread: setup. */
void rc_conn_close(struct rc_conn *conn);

/* Purpose: control stands still between the two, so that an owner may give peers of its queue, whose turn it is, other QPs
 *          (rc_peer.qp). For what hardly ever happens: it may wait for milliseconds. Thread: owner, outside the bursts. */
void rc_conn_hold(struct rc_conn *conn);
void rc_conn_let(struct rc_conn *conn);

/* ---- the owner's side ---------------------------------------------------------------------------- */

/* Order: [RC1 acquire, pairs with the releases of control]. Thread: any. */
SPW_INLINE enum rc_state rc_peer_state(const struct rc_peer *peer)
{
	return (enum rc_state)spw_thr_load_acq(&peer->state);
}

/* Purpose: the receives are posted. From RC_POST. Thread: owner. */
void rc_peer_posted(struct rc_conn *conn, struct rc_peer *peer);

/* Purpose: this connection is over. From RC_UP; in any other state, or when control was faster, it does nothing: look at the
 *          state again. code: see enum rc_why. Never blocks. Thread: owner, outside the bursts (it wakes the control thread). */
void rc_peer_fail(struct rc_conn *conn, struct rc_peer *peer, enum rc_why why, uint32_t code);

/* Purpose: nothing of this peer is posted, lent or in TX any more. From RC_DRAIN. Thread: owner. */
void rc_peer_drained(struct rc_conn *conn, struct rc_peer *peer);

/* Purpose: what happened to the peers of a queue: PEER_UP, PEER_DOWN (code: peer, outage_ns on UP); queue 0 also gets what
 *          happens to the port and the device (rdma_ctl.h). Bounded, never blocks, makes no system call.
 * Returns: events written, 0 .. cnt. Thread: owner. */
uint16_t rc_conn_events(struct rc_conn *conn, uint16_t queue, struct spw_port_event *event, uint16_t cnt);

/* Purpose: adds peer_gone, protocol, queue_reset and refused to stat. Thread: any. */
void rc_conn_stat(const struct rc_conn *conn, struct spw_port_stat *stat);

#endif
