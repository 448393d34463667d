/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What err_test.c and breach_test.c share: one queue of three peers on the hand-driven NIC of
 * rc_hand.h.
 */
#ifndef MLX5_RC_ERR_KIT_H
#define MLX5_RC_ERR_KIT_H

#include "rc_hand.h"

extern struct rch hand;
extern const unsigned variants[6];

/* A fresh queue, with all three peers UP, whose CQ and indices are about to wrap. */
void open_rc(unsigned flags);
uint16_t burst(struct spw_desc *desc);
void release(const struct spw_desc *desc, uint16_t cnt);
/* enum spw_peer_side of a peer. */
uint32_t state_of(uint32_t peer);
/* Messages pass both ways, for full laps of the rings, while `lent` slots stay lent. */
void check_alive(uint32_t peer, uint32_t lent);
/* Puts the QP into ERR, flushes and resets it as the control path does, and brings the peer up. */
void recover(uint32_t peer);

#endif
