/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to tcp.c and door.c: the exchange over TCP, and how rank 0 lets ranks in.
 */
#ifndef COLL_TCP_H
#define COLL_TCP_H

#include "base/spw_monotonic.h"
#include "coll/coll.h"
#include "oob/spw_oob_channel.h"
#include "oob/spw_oob_host.h"
#include "oob/spw_oob_socket.h"

#define COLL_WHY_BYTES 160u

/* The exchange over TCP, whatever is exchanged. */
static const struct spw_oob_proto coll_tcp_proto = {"SPWC", 2};

/* The first message of a rank. */
struct coll_join_msg {
	spw_be32 rank, rank_cnt;
};

struct spw_coll_tcp {
	uint32_t rank, rank_cnt, timeout_ms;
	struct spw_oob_secret secret;
	/* rank 0: of each rank; others: [0]; fd -1: none */
	struct spw_oob_channel rank_ch[SPW_COLL_RANK_MAX];
};

SPW_INLINE struct coll_wait coll_tcp_wait(uint64_t ms)
{
	return coll_wait_of(spw_monotonic_ns(), ms * 1000000u);
}

/* ---- tcp.c ---- */

/* Purpose: spw_oob_channel_send, with waiting. Returns: also -ETIMEDOUT. */
int coll_tcp_send(struct spw_oob_channel *ch, const void *bytes, size_t len,
		  struct coll_wait *wait);
/* Purpose: closes the socket, if there is one. */
void coll_tcp_shut(struct spw_oob_channel *ch);

/* ---- door.c ---- */

/* Purpose: rank 0: waits until all other ranks have their place. Errors: with a text. */
int coll_door_gather(struct spw_coll_tcp *t, const char *root);

#endif
