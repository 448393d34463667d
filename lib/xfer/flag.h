/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: the flags of puts (flag.c). Thread of all: the endpoint's owner.
 */
#ifndef SPW_XFER_FLAG_H
#define SPW_XFER_FLAG_H

#include "xfer/spw_xfer.h"

#define XFER_FLAG_BYTES 8u
#define XFER_PLACE_LOG2 8u

struct xfer_msg;
struct xfer_rail;
struct xfer_sent;

/* A place of flag words in the peer's memory, and what puts wrote there. */
struct xfer_place {
	uint64_t raddr, word[SPW_XFER_RAIL_MAX];
};

/* Returns: what the peer's flag words at this place hold when all puts so far are done; 0: not
 * known to this side. */
uint64_t *xfer_flag_words(struct spw_xfer_conn *conn, uint64_t flag_raddr);
/* Posts the flag of a put on these rails. Returns: false: no room yet. */
bool xfer_flags_post(struct spw_xfer_conn *conn, struct xfer_msg *msg, uint8_t rails);
/* A flag's atomic was carried out: its word was what it was taken for, or the flag itself, or the
 * flag is due again. */
void xfer_flag_acked(struct xfer_rail *rail, const struct xfer_sent *s);

#endif
