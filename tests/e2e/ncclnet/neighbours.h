/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Who else may be on the devices that NCCL uses, in the same process, since a software ConnectX
 * belongs to one:
 *
 *   UCX, both rails               a thread of its own    tagged messages (xfer/ucx_side.h)
 *   a raw Ethernet port at each   the caller's thread    frames from mlx5_0, echoes from mlx5_1
 *   end of the first cable
 *
 * The first rail is mlx5_0 and mlx5_1, the second mlx5_2 and mlx5_3. The raw ports count none of
 * the RoCE packets that others send to the same MAC addresses, whatever their flow rules are:
 * neighbours_stop compares. Whatever is wrong fails the running cmocka test.
 *
 * Used by side_by_side_test.c, and as a library of its own (neighbours_thread.c) by torch's ranks
 * in tests/gpu.
 */
#ifndef NEIGHBOURS_H
#define NEIGHBOURS_H

#include "../port/mlx5/port_kit.h"
#include "../xfer/ucx_side.h"

struct neighbours {
	struct kit_run run; /* run.echoed: frames so far that went there and back */
	struct ucx_side *ucx;
};

/* rule: what the raw ports take, "udp=9" or "flow=all". */
void neighbours_start(struct neighbours *n, const char *rule);
/* Some frames and echoes. */
void neighbours_turn(struct neighbours *n);
/* All that was sent has arrived, whole and once, at whom it was for; both ledgers are exact.
 * ucx_out: what UCX sent and received. */
void neighbours_stop(struct neighbours *n, struct ucx_side_stat *ucx_out);

#endif
