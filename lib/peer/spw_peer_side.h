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

enum spw_peer_side {
	SPW_PEER_SIDE_DOWN,   /* nothing is posted */
	SPW_PEER_SIDE_POSTED, /* receives are posted; messages may arrive, none may be sent yet */
	SPW_PEER_SIDE_UP,     /* messages flow in both directions */
	SPW_PEER_SIDE_BROKEN, /* drains: nothing is posted or sent; what arrives is dropped */
};

#endif
