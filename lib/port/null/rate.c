/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The steps of an open-loop source's rate, all computed at set-up.
 * Called by null.c at set-up and start; the data path only evaluates what is here (null_rate_due
 * and null_rate_when of rate.h). Ratios become multiplications, since a burst makes no division.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "port/null/rate.h"

/* Towards last by a factor of two, and never beyond it. */
static uint64_t null_rate_next_rate(uint64_t rate, uint64_t last)
{
	return rate < last ? SPW_MIN(rate * 2, last) : SPW_MAX(rate / 2, last);
}

/* At most NULL_STEPS_MAX: the limits of rate= and NULL_RATE_MIN bound it. */
static uint32_t null_rate_steps_of(uint64_t rate, uint64_t last)
{
	uint32_t cnt = 1;

	for (; rate != last; rate = null_rate_next_rate(rate, last))
		cnt++;
	return cnt;
}

static int null_rate_step_make(uint64_t tick_hz, uint64_t rate, struct null_step *s)
{
	int rc = spw_time_scale_make(tick_hz, rate, &s->tick_to_frame);

	return rc ? rc : spw_time_scale_make(rate, tick_hz, &s->frame_to_tick);
}

/* The last step has no end. Errors: -ERANGE: a rate below NULL_RATE_MIN. */
int null_rate_make(uint64_t tick_hz, uint64_t first, uint64_t last, uint64_t ramp_ticks,
		   struct null_rate *r)
{
	const uint64_t least = SPW_MIN(first, last);
	uint64_t rate = first, begin = 0, before = 0, each;
	int rc = 0;

	if (least < NULL_RATE_MIN)
		return spw_err(ERANGE, "rate %u is too low: at least %u frames/s per queue",
			       (unsigned)least, NULL_RATE_MIN);
	*r = (struct null_rate){.step_cnt = null_rate_steps_of(first, last)};
	each = ramp_ticks / r->step_cnt;
	for (uint32_t i = 0; !rc && i < r->step_cnt; i++) {
		struct null_step *s = &r->step[i];

		rc = null_rate_step_make(tick_hz, rate, s);
		s->begin = begin;
		s->before = before;
		s->end = begin += each;
		before += spw_time_scale_apply(s->tick_to_frame, each);
		rate = null_rate_next_rate(rate, last);
	}
	r->step[r->step_cnt - 1].end = UINT64_MAX;
	return rc;
}

/* Frame n is due at the latest one tick after null_rate_when(), which rounds down. */
uint64_t null_rate_restart(struct null_rate *r, uint64_t n)
{
	uint64_t at;

	if (!r->step_cnt)
		return 0;
	for (r->now = 0; r->now + 1 < r->step_cnt && n >= r->step[r->now + 1].before; r->now++)
		;
	at = null_rate_when(r, n);
	r->ticks = at + 1;
	return at;
}
