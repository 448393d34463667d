/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: when which pair of devices is tried (round.c).
 * Thread of all functions: the endpoint's owner.
 */
#ifndef SPW_XFER_ROUND_H
#define SPW_XFER_ROUND_H

#include "xfer/wire.h"

struct spw_xfer_conn;
struct xfer_rail;

/* Client: the devices of both ends are known: makes the rails, and the first attempts. */
void xfer_round_start(struct spw_xfer_conn *conn, uint64_t now_ms);
/* Client: pairs anew what wants it, once no attempt is under way. */
void xfer_round_turn(struct spw_xfer_conn *conn, uint64_t now_ms);
/* An attempt ended, and the rail is OFF. counts: it says something about the pair. */
void xfer_round_ended(struct xfer_rail *rail, bool counts, uint64_t now_ms);
/* Client: a link of ours is up again: waits are over. */
void xfer_round_link_up(struct spw_xfer_conn *conn, uint32_t dev_idx);
/* Returns: whether the next attempt is due. */
bool xfer_round_is_due(const struct xfer_rail *rail, uint64_t now_ms);
/* Returns: whether more rails cannot be expected soon. */
bool xfer_round_is_settled(const struct spw_xfer_conn *conn);
/* Server: the devices that the client names for a rail. Returns: false: that cannot be. */
bool xfer_round_on_rail(struct spw_xfer_conn *conn, const struct xfer_frame *frame);
/* For the message of a connection without any rail: what addresses alone say of that, or "". */
void xfer_round_why_none(const struct spw_xfer_conn *conn, char *text, size_t bytes);
/* One line: which devices are left out, and why. */
void xfer_round_report(struct spw_xfer_conn *conn);

#endif
