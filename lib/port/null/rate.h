/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/null: when frames of an open-loop source fall due.
 *
 * The rate is constant, or climbs (falls) from one rate to another in steps of twice (half) the
 * rate, which last equally long; the last one stays:
 *
 *                                        to ____________
 *                                ______|
 *                        ______|
 *     rate  ____________|
 *           0          ramp_ticks      ───────────────► ticks since the start
 *
 * A frame is due one period after the frame before it. Times are ticks since the start, frames
 * are counted from 1: frame n is due when null_rate_due() becomes n.
 */
#ifndef SPW_NULL_RATE_H
#define SPW_NULL_RATE_H

#include "time/spw_time.h"

#define NULL_RATE_MIN  1000u /* frames/s; the least that spw_time_scale_make takes */
#define NULL_STEPS_MAX 22u   /* 2^20 < 1 G / 1 k */

struct null_step {
	uint64_t begin, end; /* ticks; end of the last: UINT64_MAX */
	uint64_t before;     /* frames due in all earlier steps */
	struct spw_time_scale tick_to_frame, frame_to_tick;
};

struct null_rate {
	uint64_t ticks; /* the most of any null_rate_due() */
	uint32_t now;   /* their step */
	uint32_t step_cnt;
	struct null_step step[NULL_STEPS_MAX];
};

/* Purpose: from `first` to `last` frames/s within ramp_ticks.
 * Shape: rates NULL_RATE_MIN .. 1 G; first = last: constant, ramp_ticks is then not used.
 * Errors: -ERANGE.
 */
int null_rate_make(uint64_t tick_hz, uint64_t first, uint64_t last, uint64_t ramp_ticks,
		   struct null_rate *r);

/* Purpose: how many frames are due; never fewer than in an earlier call.
 * Shape: ticks that are less than in an earlier call, negative ones too, are taken for those of
 *   that call: the start was read on another core, whose counter may be ahead.
 * Thread: owner.
 */
SPW_INLINE uint64_t null_rate_due(struct null_rate *r, uint64_t ticks)
{
	const struct null_step *s = &r->step[r->now];

	if (spw_unlikely((int64_t)(ticks - r->ticks) < 0))
		ticks = r->ticks;
	r->ticks = ticks;
	while (spw_unlikely(ticks >= s->end))
		s = &r->step[++r->now];
	return s->before + spw_time_scale_apply(s->tick_to_frame, ticks - s->begin);
}

/* Purpose: when frame n is due, in ticks.
 * Shape: n 1 .. due(); 0 gives 0.
 * Thread: owner.
 */
SPW_INLINE uint64_t null_rate_when(const struct null_rate *r, uint64_t n)
{
	const struct null_step *s = &r->step[r->now];

	while (spw_unlikely(n <= s->before) && s != r->step)
		s--;
	return s->begin + spw_time_scale_apply(s->frame_to_tick, n - s->before);
}

/* Purpose: goes on after n frames, as if no time had passed since.
 * Returns: ticks since the start that belong to that moment.
 * Thread: setup.
 */
uint64_t null_rate_restart(struct null_rate *r, uint64_t n);

#endif
