/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A foreign clock of a running program (struct spw_clock_feed): what control threads share. They
 * read the clock their own way (lib/port, lib/exec) and bring the pairs here.
 */
#include <string.h>

#include "time/spw_time.h"

#define NOMINAL_PPB \
	1000000u /* how far a stated rate may be off before the first pairs correct it */
#define WANDER_PPB 100u

/* Turns between pairs once the window is full: a wander of 100 ppb is 10 ns after 100 ms. */
#define REST_TURNS 4u

int spw_clock_feed_open(struct spw_clock_feed *feed, uint64_t other_hz, uint64_t ref_hz)
{
	memset(feed, 0, sizeof(*feed));
	return spw_clock_fit_init(&feed->fit, other_hz, ref_hz, NOMINAL_PPB, WANDER_PPB);
}

void spw_clock_feed_add(struct spw_clock_feed *feed, const struct spw_clock_pair *pair)
{
	spw_clock_fit_add(&feed->fit, pair);
	spw_clock_box_put(&feed->box, &feed->fit.map);
	feed->on = true;
}

bool spw_clock_feed_due(struct spw_clock_feed *feed)
{
	if (feed->fit.cnt < SPW_CLOCK_FIT_PAIRS || feed->rest == 0) {
		feed->rest = REST_TURNS;
		return true;
	}
	feed->rest--;
	return false;
}
