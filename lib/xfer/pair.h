/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/xfer: the devices of both ends of a connection, and which are paired. Pure.
 * Thread of all: any.
 */
#ifndef SPW_XFER_PAIR_H
#define SPW_XFER_PAIR_H

#include "xfer/wire.h"

#define XFER_NO_PAIR (-1)

/* From the worst to the best. */
enum xfer_pair_kind {
	XFER_PAIR_NEVER,  /* IPv4 and IPv6, or one is gone */
	XFER_PAIR_ROUTED, /* of different subnets */
	XFER_PAIR_BLIND,  /* both link-local: only an attempt can show */
	XFER_PAIR_SUBNET, /* of one subnet */
};

/* Both ends of a connection, each with its devices by number. */
struct xfer_pairs {
	struct xfer_end mine[SPW_XFER_RAIL_MAX], theirs[SPW_XFER_RAIL_MAX];
	uint32_t mine_cnt, theirs_cnt;
	bool routed; /* pairs of different subnets are tried, too */
	/* Attempts in a row that failed, by number of ours and of theirs. */
	uint8_t failed[SPW_XFER_RAIL_MAX][SPW_XFER_RAIL_MAX];
};

/* Returns: whether the address is link-local, IPv4 or IPv6. */
bool xfer_gid_is_local(const uint8_t gid[16]);
/* Returns: struct xfer_end.prefix of a GID whose interface has a prefix of so many bits, of 128; 0:
 * that is unknown, as in a container without the interface. It is taken for /24 then, or /64. */
uint16_t xfer_gid_prefix(const uint8_t gid[16], uint32_t bits);

enum xfer_pair_kind xfer_pair_kind(const struct xfer_end *a, const struct xfer_end *b);

/* Purpose: the best matching of free devices (masks by number).
 * Shape: theirs_out: by number of ours the number of theirs, or XFER_NO_PAIR.
 * Returns: pairs. */
uint32_t xfer_pairs_match(const struct xfer_pairs *p, uint8_t mine_free, uint8_t theirs_free,
			  int8_t theirs_out[SPW_XFER_RAIL_MAX]);
/* Returns: whether there is a pair of this kind or a better one; untried: that has not failed. */
bool xfer_pairs_left(const struct xfer_pairs *p, enum xfer_pair_kind least, bool untried);
/* Counts an attempt that failed. */
void xfer_pairs_failed(struct xfer_pairs *p, uint32_t mine, uint32_t theirs);

#endif
