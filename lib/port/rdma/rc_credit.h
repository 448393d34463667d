/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The arithmetic of credits, the same in every driver. Counts are cumulative and free running mod 2^32; what is compared is
 * their difference, which is at most RC_CREDIT_MAX. Private to lib/port.
 */
#ifndef SPW_PORT_RC_CREDIT_H
#define SPW_PORT_RC_CREDIT_H

#include "base/spw_types.h"

#define RC_CREDIT_MAX   4096u /* of one peer: the size of the grant rings */
#define RC_CTRL_RESERVE 6u    /* receives beyond the credits, for control messages; at most 5 are under way */

/* Our right to send to the peer. */
struct rc_tx_credit {
	uint32_t limit;           /* credits that the peer gave, ever */
	uint32_t used;            /* messages that we sent, ever */
	uint32_t window;          /* the peer's credit_cnt */
};

/* The peer's right to send to us. */
struct rc_rx_credit {
	uint32_t told;            /* credits that the peer knows of, ever */
	uint32_t got;             /* messages that came, ever */
	uint32_t home;            /* credits that may be told, ever: the window plus receives made good again */
	uint32_t window;          /* our credit_cnt */
};

SPW_INLINE void rc_tx_credit_start(struct rc_tx_credit *c, uint32_t window)
{
	*c = (struct rc_tx_credit){.limit = window, .window = window};
}

SPW_INLINE uint32_t rc_tx_credit_left(const struct rc_tx_credit *c)
{
	return c->limit - c->used;
}

/* Purpose: takes the count of a control message. Returns: false if it cannot be true: nothing new (a receiver sends none
 * then), or more than its window beyond what we sent. */
SPW_INLINE bool rc_tx_credit_take(struct rc_tx_credit *c, uint32_t count)
{
	if (count == c->limit || count - c->limit > c->window || count - c->used > c->window)
		return false;
	c->limit = count;
	return true;
}

SPW_INLINE void rc_rx_credit_start(struct rc_rx_credit *c, uint32_t window)
{
	*c = (struct rc_rx_credit){.told = window, .home = window, .window = window};
}

/* Purpose: a message came. Returns: false if the peer had no credit for it. */
SPW_INLINE bool rc_rx_credit_got(struct rc_rx_credit *c)
{
	if (c->got == c->told)
		return false;
	c->got++;
	return true;
}

/* Purpose: is a control message due now? */
SPW_INLINE bool rc_rx_credit_due(const struct rc_rx_credit *c)
{
	const uint32_t wait = c->home - c->told;

	return wait && (wait >= (c->window + 3) / 4 || c->told == c->got);
}

#endif
