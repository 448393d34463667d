/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One endpoint under the fuzzer, its connection, and the peer that speaks to it.
 */
#ifndef FUZZ_XFER_WORLD_H
#define FUZZ_XFER_WORLD_H

#include "xfer_nic.h"

#define WORLD_BYTES 65536u

extern struct spw_xfer x;
extern struct spw_xfer_conn *conn; /* NULL: it ended before the caller had it */
extern struct spw_xfer_conn peer;  /* speaks the protocol, and lies */
extern struct spw_xfer_mem *mem;   /* world_buf */
extern uint8_t world_buf[WORLD_BYTES];

void world_open(uint32_t rails, bool secret);
/* A connection begins, with the library as client or server. */
void world_join(bool client);
/* The exchange as it should be: all rails are up afterwards. */
void world_exchange(bool client);
/* The library's turn at its socket and deadlines. */
void world_turn(void);
/* The peer sends a frame with the MAC that it should have. */
void world_say(const struct xfer_frame *f);
/* An OFFER or ACCEPT of all rails. */
struct xfer_frame world_rails(enum xfer_frame_type type);
/* Checks that nothing is left. */
void world_close(void);

#endif
