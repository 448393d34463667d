/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A sender's trail (trail/spw_trail.h): each slow round trip, the gaps of the loop and, where the
 * port's NIC stamps frames, what the NIC says of them (trail/spw_trail_nic.h). The loop (run.c)
 * calls it where it is slow already, and in its housekeeping, so that a sender without a trail pays
 * nothing for it.
 *
 *   SLOW    due taken handed drained echo     with, if the NIC's clock is known, its
 *   FRAME   nic echo drained number unc       stamp of the echo, and the number of the frame among
 *                                             those that sender `what` has sent
 *   DONE    number stamp unc                  that sender's completions
 *
 * A frame's number counts from 1 in the order in which its sender built frames. The port counts
 * what it took: the same, because a port that keeps completions takes the first ones of a burst.
 */
#ifndef SPW_GEN_TRAIL_H
#define SPW_GEN_TRAIL_H

#include "frame/spw_desc.h"
#include "gen/spw_gen_slow.h"
#include "trail/spw_trail_nic.h"

struct gen_trail {
	struct spw_trail *to;        /* NULL: no trail is kept, and nothing else here is used */
	struct spw_clock_box *clock; /* of the NIC; NULL: it stamps nothing */
	struct spw_clock_map map;    /* the newest of that box */
	struct spw_trail_nic port;
	uint32_t flow_cnt; /* of the sender: frame n has number n / flow_cnt in its flow */
};

/* Purpose: notes a slow round trip.
 * Shape: taken_tsc as of gen_sent_taken_find; desc: the echo; sender, number: who built the frame,
 *   and how many it had built before.
 * Thread: owner of the trail: whoever received the echo.
 */
void gen_trail_slow(struct gen_trail *trail, const struct gen_worst *frame, uint64_t taken_tsc,
		    const struct spw_desc *desc, uint32_t sender, uint64_t number);

/* Purpose: takes the newest map of the NIC's clock, and notes the completions that cover a frame
 *   whose number the trail keeps.
 * Shape: only with a clock.
 * Thread: owner.
 */
void gen_trail_house(struct gen_trail *trail);

#endif
