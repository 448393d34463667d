/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Latency over a lane: write (a put and its flag, found by polling memory, and a put back), send (a
 * message and one back) and read (a get; the other end's CPU does nothing).
 */
#ifndef PERF_ECHO_H
#define PERF_ECHO_H

#include "measure/lane.h"
#include "measure/open_loop.h"

/* Purpose: measures at the client's end.
 * Shape: flag: what both ends' lanes begin to count flags from.
 * Thread: main. Errors: those of lib/xfer; -ETIMEDOUT. */
int perf_echo_client(struct perf_lane *lane, const struct perf_case *what,
		     const struct spw_tsc *tsc, uint64_t flag, struct perf_result *result_out);

/* Purpose: echoes until the client is done. Not for READ (perf_pump_idle).
 * Errors: those of lib/xfer. */
int perf_echo_server(struct perf_lane *lane, const struct perf_case *what,
		     const struct perf_ctl *ctl, uint64_t flag, struct perf_flow *flow_out);

#endif
