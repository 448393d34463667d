/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a sender notes of slow round trips, and of what its NIC says of them (spw_trail_sender.h).
 *
 * lib/gen's loop calls spw_trail_sender_slow for echoes above the threshold, and
 * spw_trail_sender_house now and then for the send completions; both only with a trail.
 *
 *   SLOW     due, taken, handed to the port, drained, echo
 *   FRAME    the NIC's stamp of the echo
 *   DONE     the number, and the NIC's stamp of the send
 */
#include "trail/spw_trail_sender.h"

static void trail_note_slow(struct spw_trail *to, const struct spw_trail_trip *trip)
{
	struct spw_trail_rec *rec = spw_trail_next(to, SPW_TRAIL_SLOW, 0, trip->flow, trip->seq);

	rec->at[0] = trip->due;
	rec->at[1] = trip->taken;
	rec->at[2] = trip->handed;
	rec->at[3] = trip->drained;
	rec->at[4] = trip->echo;
}

/* Only frames whose number in their flow is a multiple of the trail's `every`, so that both ends
 * keep the same ones. */
void spw_trail_sender_slow(struct spw_trail_sender *trail, const struct spw_trail_trip *trip,
			   const struct spw_desc *desc)
{
	struct spw_trail_rec *rec;

	if (!spw_trail_wants(trail->to, trip->seq))
		return;
	trail_note_slow(trail->to, trip);
	if (!trail->clock)
		return;
	rec = spw_trail_nic_frame(trail->to, trip->flow, trip->seq, &trail->map,
				  desc->flags & SPW_DESC_NIC_STAMP, desc->nic_stamp);
	rec->what = (uint8_t)trip->sender;
	rec->at[1] = trip->echo;
	rec->at[2] = trip->drained;
	rec->at[3] = trip->number + 1;
}

/* Whether the trail keeps one of the frames above..number. A sender's flows take turns, so the
 * frames of one number in their flows are flow_cnt in a row; those that are kept begin at a
 * multiple of flow_cnt * every. */
static bool trail_wants_any(const struct spw_trail_sender *trail, uint64_t above, uint64_t number)
{
	const uint64_t turn = (uint64_t)trail->flow_cnt * trail->to->every,
		       begin = (number - 1) / turn * turn;

	return number > above && SPW_MIN(number, begin + trail->flow_cnt) > above;
}

void spw_trail_sender_house(struct spw_trail_sender *trail)
{
	struct spw_port_done done;
	uint64_t above;

	spw_clock_box_get(trail->clock, &trail->map);
	while (spw_trail_nic_next(&trail->port, &done, &above))
		if (trail_wants_any(trail, above, done.number))
			spw_trail_nic_done(trail->to, &done, &trail->map);
}
