/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A NIC moved by hand, for RC: rings in plain memory, completions written as the hardware writes
 * them, send queues read as it reads them; and at the other end of each QP a peer that keeps (or,
 * where asked, breaks) the protocol. For tests and fuzzers of the data path.
 */
#ifndef SPW_TEST_MLX5_RC_HAND_H
#define SPW_TEST_MLX5_RC_HAND_H

#include "port/mlx5/rc/queue.h"

#define RCH_PEER_MAX  8u
#define RCH_LKEY      0x1234567u
#define RCH_RKEY      0x7654321u
#define RCH_RING_RKEY 0x7654322u
#define RCH_RING_LKEY 0x1234568u
#define RCH_SLOT_ADDR 0x400000000000ull /* of the peer's slot 0 */
#define RCH_RING_ADDR 0x500000000000ull
#define RCH_STRIDE    0x1000u

struct rch_conf {
	unsigned flags;
	uint32_t peer_cnt, credits, remote_credits;
	uint32_t cq_cnt, rq_cnt, srq_cnt, sq_cnt; /* rq_cnt: per QP */
	uint32_t slot_bytes, slot_extra;          /* slot_extra: slots that belong to no peer */
	uint32_t start;     /* first value of the CQ counters: laps near a wrap */
	uint16_t wqe_start; /* likewise of WQE counters */
	uint32_t bf_bytes;
	uint32_t qpn; /* of the first peer; 0: one that fits no mask */
};

/* One message as the NIC sent it. */
struct rch_msg {
	uint32_t opcode, imm, len;
	uint64_t raddr;
	bool is_inline;
	uint8_t data[64]; /* its first bytes */
};

/* A QP as the NIC has it, and the peer behind it. */
struct rch_qp {
	uint32_t qpn;
	uint8_t *sq, *rq;
	spw_be32 db[2]; /* RCV_DBR, SND_DBR */
	spw_be32 *ring_in, *ring_out;
	uint32_t rq_ci, sq_ci;
	uint32_t unsignaled_from; /* sq_ci of the oldest WQE without a completion yet */
	/* the peer's view */
	struct spw_peer_tx_credit tx;       /* its right to send to us */
	uint32_t got;                       /* messages it had from us */
	uint32_t granted;                   /* credits it gave us */
	spw_be32 ring[SPW_PEER_CREDIT_MAX]; /* what we granted, as we wrote it there */
	uint32_t violations;                /* things that we did and must not */
};

struct rch {
	struct rch_conf conf;
	struct spw_region region;
	struct spw_pool pool;
	struct mlx5_rc_queue *q;
	struct spw_port_queue pq;
	uint8_t *cq, *tx_cq, *srq, *uar;
	spw_be32 db[4]; /* CQ consumer, send CQ consumer, SRQ */
	uint32_t pi, tx_pi;
	uint32_t srq_cur, srq_ci; /* next WQE of the list, WQEs used up */
	uint64_t clock;
	uint32_t sessions; /* that rch_compress wrote */
	struct rch_qp qp[RCH_PEER_MAX];
};

/* The flags of every variant of a queue, for tests that run each. */
#define RCH_VARIANT_CNT 10u
extern const unsigned rch_variants[RCH_VARIANT_CNT];

/* 0, or the errno of the set-up. Every peer is UP. */
int rch_open(struct rch *h, const struct rch_conf *conf);
/* Returns: slots that leaked. */
uint32_t rch_close(struct rch *h);
/* Is every slot accounted for, lent as the test counts it? */
bool rch_balanced(const struct rch *h, uint32_t lent);
/* Is every peer UP, and did nobody break a rule or see an error? */
bool rch_clean(const struct rch *h);
struct mlx5_rc_peer *rch_peer(struct rch *h, uint32_t peer);
/* Takes peer p through POSTED to UP, from DOWN. */
void rch_up(struct rch *h, uint32_t peer);

/* ---- receive ---- */

/* Receives that are posted for this peer. */
uint32_t rch_posted(const struct rch *h, uint32_t peer);
/* Uses up one receive. Returns: its WQE's index; *addr_out where it points, NULL if nowhere. */
uint32_t rch_take(struct rch *h, uint32_t peer, uint8_t **addr_out);
/* A receive completion of this WQE. */
void rch_cqe(struct rch *h, uint32_t qpn, uint32_t opcode, uint32_t wqe, uint32_t len,
	     uint32_t imm);
/* Compresses the last cnt receive completions, nobody has read them yet: those that agree, as
 * far as they do. What a NIC does not write is as an earlier lap left it. */
void rch_compress(struct rch *h, uint32_t cnt);
/* The peer sends a message that it has a credit for. false: it has none. The place of its bytes is
 * in addr_out; with SEND, imm (if not NULL) travels. */
bool rch_message(struct rch *h, uint32_t peer, uint32_t len, const uint32_t *imm,
		 uint8_t **addr_out);
/* The peer tells us its count of credits. */
void rch_control(struct rch *h, uint32_t peer, uint32_t count);
/* An error of the receive side that uses up one receive; of all posted ones. */
void rch_rx_error(struct rch *h, uint32_t peer, uint32_t syndrome);
void rch_rx_flush(struct rch *h, uint32_t peer);

/* ---- send ---- */

/* The NIC executes the next WQE of this QP that was rung. Returns: false: there is none. A message
 * goes to msg_out (length 0: it was none). Control messages reach the peer's view. A completion is
 * written where the WQE asks for one. */
bool rch_send_one(struct rch *h, uint32_t peer, struct rch_msg *msg_out);
/* A completion, or an error, of the send CQ. */
void rch_sent(struct rch *h, uint32_t qpn, uint16_t wqe_counter, uint32_t syndrome);
/* All rung WQEs are flushed. */
void rch_tx_flush(struct rch *h, uint32_t peer);

#endif
