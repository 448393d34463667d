/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * UCX as a neighbour on the same devices: two of its workers in a thread of their own send each
 * other tagged messages of mixed lengths, in both directions at once, over as many rails as they
 * have devices. Every byte is compared; a message that fails, comes twice or changes ends the
 * program with a line that says so.
 *
 *   ucx_side_start ─► ucx_side_received, as often as wanted ─► ucx_side_stop
 */
#ifndef XFER_UCX_SIDE_H
#define XFER_UCX_SIDE_H

#include <stdint.h>

struct ucx_side;

/* Of both directions. */
struct ucx_side_stat {
	uint64_t sent, received, sent_bytes, received_bytes;
};

/* devices: as UCX_NET_DEVICES has them ("mlx5_0:1,mlx5_2:1"), of each worker. At most two rails. */
struct ucx_side *ucx_side_start(const char *devices_a, const char *devices_b);

/* Returns: messages that have arrived so far. Thread: any. */
uint64_t ucx_side_received(const struct ucx_side *side);

/* Sends nothing new, waits for all that is under way, and ends the thread. Afterwards no message is
 * left over. */
void ucx_side_stop(struct ucx_side *side, struct ucx_side_stat *stat_out);

#endif
