/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The trail (trail/spw_trail.h) of a thread that sends the generator's frames and takes their
 * echoes: each slow round trip, the gaps of its loop and, where the port's NIC stamps frames, what
 * the NIC says of them (trail/spw_trail_nic.h). The loop (gen/run.c) calls it where it is slow
 * already, and in its housekeeping, so that a sender without a trail pays nothing for it.
 *
 *   SLOW    due taken handed drained echo     with, if the NIC's clock is known, its
 *   FRAME   nic echo drained number unc       stamp of the echo, and the number of the frame among
 *                                             those that sender `what` has sent
 *   DONE    number stamp unc                  that sender's completions
 *
 * A frame's number counts from 1 in the order in which its sender built frames. The port counts
 * what it took: the same, because a port that keeps completions takes the first ones of a burst.
 */
#ifndef SPW_TRAIL_SENDER_H
#define SPW_TRAIL_SENDER_H

#include "frame/spw_desc.h"
#include "trail/spw_trail_nic.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spw_trail_sender {
	struct spw_trail *to;        /* NULL: no trail is kept, and nothing else here is used */
	struct spw_clock_box *clock; /* of the NIC; NULL: it stamps nothing */
	struct spw_clock_map map;    /* the newest of that box */
	struct spw_trail_nic port;
	uint32_t flow_cnt; /* of the sender: frame n has number n / flow_cnt in its flow */
};

/* A round trip. Times in ticks; 0: no longer recorded. */
struct spw_trail_trip {
	uint32_t seq;    /* in its flow */
	uint32_t sender; /* who built the frame, which may be another than who has its echo */
	uint16_t flow;
	uint64_t number; /* frames that this sender had built before */
	uint64_t due, taken, handed, drained, echo;
};

/* Purpose: notes a slow round trip.
 * Shape:   desc: the echo.
 * Thread:  owner of the trail: whoever received the echo. */
void spw_trail_sender_slow(struct spw_trail_sender *trail, const struct spw_trail_trip *trip,
			   const struct spw_desc *desc);

/* Purpose: takes the newest map of the NIC's clock, and notes the completions that cover a frame
 *          whose number the trail keeps.
 * Shape:   only with a clock.
 * Thread:  owner. */
void spw_trail_sender_house(struct spw_trail_sender *trail);

#ifdef __cplusplus
}
#endif
#endif
