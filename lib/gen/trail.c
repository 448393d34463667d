/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a sender notes of slow round trips, and of what its NIC says of them (spw_gen_trail.h).
 */
#include "gen/spw_gen_trail.h"

/* A time that is no longer recorded is 0. */
static void note_slow(struct spw_trail *to, const struct gen_worst *frame, uint64_t taken_tsc)
{
	struct spw_trail_rec *rec =
		spw_trail_next(to, SPW_TRAIL_SLOW, 0, (uint16_t)frame->flow, (uint32_t)frame->seq);

	rec->at[0] = frame->intended_tsc;
	rec->at[1] = frame->sent_tsc ? taken_tsc : 0;
	rec->at[2] = frame->sent_tsc;
	rec->at[3] = frame->drained_tsc;
	rec->at[4] = frame->echo_tsc;
}

void gen_trail_slow(struct gen_trail *trail, const struct gen_worst *frame, uint64_t taken_tsc,
		    const struct spw_desc *desc, uint32_t sender, uint64_t number)
{
	struct spw_trail_rec *rec;

	if (!spw_trail_wants(trail->to, (uint32_t)frame->seq))
		return;
	note_slow(trail->to, frame, taken_tsc);
	if (!trail->clock)
		return;
	rec = spw_trail_nic_frame(trail->to, (uint16_t)frame->flow, (uint32_t)frame->seq,
				  &trail->map, desc->flags & SPW_DESC_NIC_STAMP, desc->nic_stamp);
	rec->what = (uint8_t)sender;
	rec->at[1] = frame->echo_tsc;
	rec->at[2] = frame->drained_tsc;
	rec->at[3] = number + 1;
}

/* Whether the trail keeps one of the frames above..number. A sender's flows take turns, so the
 * frames of one number in their flows are flow_cnt in a row; those that are kept begin at a
 * multiple of flow_cnt * every. */
static bool covers_wanted(const struct gen_trail *trail, uint64_t above, uint64_t number)
{
	const uint64_t turn = (uint64_t)trail->flow_cnt * trail->to->every,
		       begin = (number - 1) / turn * turn;

	return number > above && SPW_MIN(number, begin + trail->flow_cnt) > above;
}

void gen_trail_house(struct gen_trail *trail)
{
	struct spw_port_done done;
	uint64_t above;

	spw_clock_box_get(trail->clock, &trail->map);
	while (spw_trail_nic_next(&trail->port, &done, &above))
		if (covers_wanted(trail, above, done.number))
			spw_trail_nic_done(trail->to, &done, &trail->map);
}
