/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a sender's loop (run.c) notes on its trail: the cold half, called only with a trail.
 *
 * A file of its own, so that the loop's code stays without it. Times are written in ticks, which
 * trails of one machine have in common.
 */
#include "gen/run_trail.h"

/* The sender of the frame may be another one than this, which received it: only that one knows
 * when it was sent. */
void run_trail_slow(struct gen_run *run, const struct gen_worst *frame,
		    const struct gen_run *sender, uint64_t number, const struct spw_desc *desc)
{
	const struct spw_trail_trip trip = {
		.seq = (uint32_t)frame->seq,
		.sender = sender->sender,
		.flow = (uint16_t)frame->flow,
		.number = number,
		.due = frame->intended_tsc,
		.taken = frame->sent_tsc ? gen_sent_taken_find(&sender->sent, number) : 0,
		.handed = frame->sent_tsc,
		.drained = frame->drained_tsc,
		.echo = frame->echo_tsc,
	};

	spw_trail_sender_slow(&run->trail, &trip, desc);
}

/* The warm-up's gaps are left out, as in the percentiles. */
void run_trail_gap(struct gen_run *run, enum gen_doing doing, uint64_t from_ns, uint64_t to_ns)
{
	if (run->trail.to && to_ns >= run->warm_up_ns)
		spw_trail_gap(run->trail.to, (uint8_t)doing,
			      run->start_tsc + spw_tsc_from_ns(run->tsc, from_ns),
			      run->start_tsc + spw_tsc_from_ns(run->tsc, to_ns));
}
