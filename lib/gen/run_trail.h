/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/gen: what a sender's loop notes on its trail. Thread: owner.
 */
#ifndef GEN_RUN_TRAIL_H
#define GEN_RUN_TRAIL_H

#include "gen/spw_gen_run.h"

/* Purpose: notes a slow round trip.
 * Shape: sender built the frame, as its number-th; desc: the echo.
 */
SPW_COLD void run_trail_slow(struct gen_run *run, const struct gen_worst *frame,
			     const struct gen_run *sender, uint64_t number,
			     const struct spw_desc *desc);

/* Purpose: notes a gap of the loop, if there is a trail. The gap in which the warm-up ended is one
 *   too: it made frames late that were due after it.
 */
SPW_COLD void run_trail_gap(struct gen_run *run, enum gen_doing doing, uint64_t from_ns,
			    uint64_t to_ns);

#endif
