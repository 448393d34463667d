/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a loop's trail (trail/spw_trail.h) has of its NIC's own stamps, where the NIC keeps no trail
 * itself, as a card: when it received a frame, and by when it had done with those that the loop
 * sent (frame/spw_port_sent.h). spinwire's pipe and spinwire-gen's senders call it.
 *
 *   FRAME   nic .. number unc     the stamp of a received frame; the number of the sent one
 *   DONE    number stamp unc      completions that cover a frame on the trail
 *
 * Stamps are ticks of the CPU's counter, translated by the newest map of the NIC's clock, each with
 * the map's uncertainty at its moment.
 */
#ifndef SPW_TRAIL_NIC_H
#define SPW_TRAIL_NIC_H

#include "trail/spw_trail.h"
#include "frame/spw_port_sent.h"
#include "time/spw_time.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The completions of one queue that are still to be looked at. */
struct spw_trail_nic {
	const struct spw_port_sent *sent; /* NULL: the port keeps none */
	uint64_t seen;                    /* of sent->cnt */
	uint64_t covered;                 /* number of the completion before: it had all up to it */
};

/* Purpose: a FRAME with what the NIC knows of it: nic, unc. The caller fills in the rest.
 * Shape:   map: NULL, or stamped false: the NIC stamps nothing, or not this frame.
 * Lifetime: as of spw_trail_next.
 * Thread:  owner. */
struct spw_trail_rec *spw_trail_nic_frame(struct spw_trail *trail, uint16_t flow, uint32_t seq,
					  const struct spw_clock_map *map, bool stamped,
					  uint64_t stamp);

/* Purpose: the next completion, the oldest first: it covers the frames above *above_out, up to
 *          done_out->number. Those that the port no longer keeps are passed over: the next one
 *          covers their frames too.
 * Returns: false: there is none yet.
 * Thread:  owner. */
bool spw_trail_nic_next(struct spw_trail_nic *pt, struct spw_port_done *done_out,
			uint64_t *above_out);

/* Purpose: a DONE of that completion.
 * Shape:   map: of the clock that stamps it.
 * Thread:  owner. */
void spw_trail_nic_done(struct spw_trail *trail, const struct spw_port_done *done,
			const struct spw_clock_map *map);

#ifdef __cplusplus
}
#endif
#endif
