/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The arithmetic of credits, the same in both RC drivers. One credit is the right to send one
 * message. Pure functions on memory of the caller; no ordering of their own.
 *
 * All counts are cumulative since the connection started and run freely mod 2^32. Only differences
 * are compared, and no difference exceeds SPW_PEER_CREDIT_MAX. At any moment, on the receiver:
 *
 *   received          advertised          returned
 *      |--- may still ----|--- not yet -------|        returned - received <= window
 *      |    arrive        |    advertised     |
 *
 * and on the sender:
 *
 *   used                limit
 *      |--- may still ----|                            limit - used <= window
 *           be sent
 *
 * The receiver's `advertised` travels in the immediate of a control message and becomes the
 * sender's `limit` (peer/spw_peer.h has the protocol).
 */
#ifndef SPW_PEER_CREDIT_H
#define SPW_PEER_CREDIT_H

#include "base/spw_types.h"

/* Most credits of one peer; also the entries of a grant ring. A power of 2, since positions in the
 * ring are counts. */
#define SPW_PEER_CREDIT_MAX 4096u
/* Receives posted beyond the credits, for control messages: the greeting and at most 5 others are
 * under way at once. */
#define SPW_PEER_CTRL_RESERVE 6u

/* Our right to send to the peer. Owner: the driver. Thread of its functions: owner. Invariant: used
 * <= limit <= used + window, mod 2^32. */
struct spw_peer_tx_credit {
	uint32_t limit;  /* credits received from the peer since the start */
	uint32_t used;   /* messages sent since the start */
	uint32_t window; /* the peer's credit_cnt, 1 .. SPW_PEER_CREDIT_MAX; 0: not known yet */
	bool greeted;    /* the peer's first control message has arrived */
};

/* The peer's right to send to us. Owner: the driver. Thread of its functions: owner. Invariant:
 * received <= advertised <= returned <= received + window, mod 2^32. */
struct spw_peer_rx_credit {
	uint32_t advertised; /* credits that the peer knows of */
	uint32_t received;   /* messages received */
	uint32_t returned;   /* the window plus all receives that were posted again: what may be
			      * advertised */
	uint32_t window;     /* our credit_cnt, 1 .. SPW_PEER_CREDIT_MAX */
};

/* Purpose: both ends are ready; the peer accepts `window` messages from the start.
 * Shape: c is zeroed, except that spw_peer_tx_credit_take may have noted an early greeting.
 * Thread: owner. */
SPW_INLINE void spw_peer_tx_credit_start(struct spw_peer_tx_credit *c, uint32_t window)
{
	c->limit = c->window = window;
	c->used = 0;
}

/* Returns: messages that may be sent now, 0 .. window. Thread: owner. */
SPW_INLINE uint32_t spw_peer_tx_credit_left(const struct spw_peer_tx_credit *c)
{
	return c->limit - c->used;
}

/* Purpose: takes the count that a control message carries. A count must be new, and at most one
 * window ahead of what was sent. The greeting alone may repeat the start value, and may arrive
 * before spw_peer_tx_credit_start.
 * Returns: false if the count is impossible: the peer broke the protocol, and c is as it was except
 * for greeted.
 * Thread: owner. */
SPW_INLINE bool spw_peer_tx_credit_take(struct spw_peer_tx_credit *c, uint32_t count)
{
	if (!c->greeted) {
		c->greeted = true;
		if (!c->window || count == c->limit)
			return true;
	}
	if (count == c->limit || count - c->limit > c->window || count - c->used > c->window)
		return false;
	c->limit = count;
	return true;
}

/* Purpose: receives are posted; the peer may send `window` messages. Thread: owner. */
SPW_INLINE void spw_peer_rx_credit_start(struct spw_peer_rx_credit *c, uint32_t window)
{
	c->advertised = c->returned = c->window = window;
	c->received = 0;
}

/* Purpose: counts a message that arrived.
 * Returns: false if the peer had no credit for it: the peer broke the protocol, and c is as it was.
 * Thread: owner. */
SPW_INLINE bool spw_peer_rx_credit_take(struct spw_peer_rx_credit *c)
{
	if (c->received == c->advertised)
		return false;
	c->received++;
	return true;
}

/* Returns: true if a control message is due: a quarter of the window waits to be advertised, or
 * something waits and the peer has no credit left. Thread: owner. */
SPW_INLINE bool spw_peer_rx_credit_due(const struct spw_peer_rx_credit *c)
{
	const uint32_t wait = c->returned - c->advertised;

	return wait && (wait >= (c->window + 3) / 4 || c->advertised == c->received);
}

/* Returns: true if anything has arrived over the peer's QP since the start. Thread: owner. */
SPW_INLINE bool spw_peer_credit_heard(const struct spw_peer_tx_credit *tx,
				      const struct spw_peer_rx_credit *rx)
{
	return tx->greeted || rx->received;
}

#endif
