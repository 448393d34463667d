/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Bandwidth: as many messages as the lane takes, for a time.
 */
#ifndef PERF_PUMP_H
#define PERF_PUMP_H

#include "measure/lane.h"

/* Purpose: sends, receives or both, until the time is over and everything has drained. Counted are
 *   messages that were done after a warm-up of a fifth of the time.
 *
 *   A row of SENDs ends as queue.h says.
 *
 * Shape: sends: this end starts messages; receives: it grants them (SEND only).
 * Thread: main. Errors: those of lib/xfer; -ETIMEDOUT nothing moved for 10 s. */
int perf_pump(struct perf_lane *lane, const struct perf_case *what, bool sends, bool receives,
	      struct perf_flow *flow_out);

/* Purpose: advances the lane until a message, or the end, waits on the control connection: the side
 *   of a put or get that has nothing to do. Sleeps in between. */
int perf_pump_idle(struct perf_lane *lane, const struct perf_ctl *ctl);

/* Purpose: one message from or to slot 0, waiting until it is done. */
int perf_pump_one(struct perf_lane *lane, const struct perf_case *what, const struct perf_ctl *ctl,
		  bool receive);

#endif
