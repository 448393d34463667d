/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The owner's view of a peer: what the lcore that posts and polls may do with the peer's QP. Both
 * RC drivers (port/mlx5/rc and port/verbs/rc) keep one such state per peer in memory of their own,
 * so that a burst reads no word that the control thread writes.
 *
 * The shared state, enum spw_peer_state of peer/spw_peer.h, says whose turn it is. The owner's
 * state follows it, one events call behind, and may run ahead of it in one case: a burst that meets
 * an error goes to BROKEN at once, and the next events call reports it with spw_peer_fail.
 *
 *   DOWN --receives posted--> POSTED --both ends ready--> UP
 *    ^                          |                          |
 *    |                          +------- error, or --------+
 *    |                                  SPW_PEER_DRAIN
 *    |                                       v
 *    +--all slots returned, QP drained--- BROKEN
 */
#ifndef SPW_PEER_SIDE_H
#define SPW_PEER_SIDE_H

#include "base/spw_types.h"

enum spw_peer_side {
	SPW_PEER_SIDE_DOWN,   /* nothing is posted */
	SPW_PEER_SIDE_POSTED, /* receives are posted; messages may arrive, none may be sent yet */
	SPW_PEER_SIDE_UP,     /* messages flow in both directions */
	SPW_PEER_SIDE_BROKEN, /* drains: nothing is posted or sent; what arrives is dropped */
};

/* Why a connection ended; `code` of spw_peer_fail says more. */
enum spw_peer_why {
	SPW_PEER_WHY_QP_ERROR,  /* an error completion; code: enum ibv_wc_status, or the syndrome */
	SPW_PEER_WHY_PROTOCOL,  /* a message without credit, a wrong immediate, a wrong length */
	SPW_PEER_WHY_PEER_GONE, /* its TCP connection closed */
	SPW_PEER_WHY_SILENT,    /* nothing arrived over its QP in time; code: the time in ms */
	SPW_PEER_WHY_EXCHANGE,  /* the exchange failed half-way */
	SPW_PEER_WHY_STOP,      /* the port stops */
};

/* The other side's parameters, checked. Written by control; valid from SPW_PEER_UP on. */
struct spw_peer_remote {
	uint32_t credit_cnt;  /* W of the peer: our credits at the start */
	uint32_t slot_bytes;  /* longest message that it accepts */
	uint64_t slot_addr;   /* op=write: its slot 0 */
	uint32_t slot_rkey;   /* op=write */
	uint32_t slot_stride; /* op=write: bytes from one slot to the next, >= slot_bytes */
	uint64_t ring_addr;   /* op=write: its ring, which receives the numbers that we grant */
	uint32_t ring_rkey;   /* op=write */
	uint32_t ring_cnt;    /* op=write: a power of 2, >= our credit_cnt */
};

#endif
