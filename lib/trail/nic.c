/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC's stamps on a loop's trail (spw_trail_nic.h). All of it runs on the cold path that loops
 * take while they keep a trail.
 *
 * A port notes completions in a ring (struct spw_port_sent) as it reaps them; this reads on from
 * where it was. The ring may have lapped the reader: then the oldest are missing, and their
 * numbers show it.
 */
#include "trail/spw_trail_nic.h"

/* 0 where there is no stamp or no clock yet: a reader leaves that stage out. */
struct spw_trail_rec *spw_trail_nic_frame(struct spw_trail *trail, uint16_t flow, uint32_t seq,
					  const struct spw_clock_map *map, bool stamped,
					  uint64_t stamp)
{
	struct spw_trail_rec *rec = spw_trail_next(trail, SPW_TRAIL_FRAME, 0, flow, seq);

	stamped = stamped && map;
	rec->at[0] = stamped ? spw_clock_map_ref(map, stamp) : 0;
	rec->at[4] = stamped ? spw_clock_map_unc(map, stamp) : 0;
	return rec;
}

/* above_out: the number of the completion before, as one completion may stand for several frames.
 */
bool spw_trail_nic_next(struct spw_trail_nic *pt, struct spw_port_done *done_out,
			uint64_t *above_out)
{
	const struct spw_port_sent *sent = pt->sent;

	if (!sent || pt->seen == sent->cnt)
		return false;
	if (sent->cnt - pt->seen > sent->mask)
		pt->seen = sent->cnt - sent->mask - 1;
	*done_out = sent->done[pt->seen++ & sent->mask];
	*above_out = pt->covered;
	pt->covered = done_out->number;
	return true;
}

/* The number joins it with the frames that it covers. */
void spw_trail_nic_done(struct spw_trail *trail, const struct spw_port_done *done,
			const struct spw_clock_map *map)
{
	struct spw_trail_rec *rec = spw_trail_next(trail, SPW_TRAIL_DONE, 0, 0, 0);

	rec->at[0] = done->number;
	rec->at[1] = done->stamp ? spw_clock_map_ref(map, done->stamp) : 0;
	rec->at[2] = done->stamp ? spw_clock_map_unc(map, done->stamp) : 0;
}
