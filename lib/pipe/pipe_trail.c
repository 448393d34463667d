/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The lane's trail (trail/spw_trail.h): what it notes of the generator's frames, of their batches,
 * and of when the NIC had done with them. pipe_slow.c and pipe_house.c call it where a trail is
 * kept; then every batch takes the cold path.
 *
 *   reap            pipe_trail_frames   FRAME each, while their bytes are intact
 *   echo, record    pipe_trail_batch    their numbers among the sent frames; BATCH; DONE
 *   housekeeping    pipe_trail_done     DONE: completions that events reaped
 *
 * The lane alone sends on its queue, so the number of a frame among those that the port took is the
 * number by which the port counts (frame/spw_port_sent.h): the first DONE whose number is at least
 * a frame's own says by when the NIC had done with that frame.
 */
#include <string.h>

#include "pipe/pipe_impl.h"

/* Which of the batch's echoes frame i is, from 1 on; 0: none. */
static uint64_t trail_echo_place(const struct spw_gring_batch *batch, uint32_t i)
{
	const uint64_t echo = batch->verdict[0] & (UINT64_MAX >> (63 - i));

	return echo >> i & 1 ? (uint64_t)__builtin_popcountll(echo) : 0;
}

/* The frames whose numbers the trail keeps, each with its NIC stamp and its batch. */
void pipe_trail_frames(struct spw_pipe *pipe, const struct spw_gring_batch *batch)
{
	struct spw_trail *trail = pipe->rec.trail;
	struct spw_ident ident;

	pipe->trail.frames_at = trail->cnt;
	pipe->trail.taken = pipe->ledger.tx_frames;
	for (uint32_t i = 0; i < batch->cnt; i++) {
		const struct spw_desc *d = &batch->desc[i];
		struct spw_trail_rec *rec;

		if (!pipe_slow_ident_of(&pipe->slow, d, &ident) ||
		    !spw_trail_wants(trail, ident.seq))
			continue;
		rec = spw_trail_nic_frame(trail, ident.flow, ident.seq,
					  pipe->slow.nic_stamps ? &pipe->rec.nic_map : NULL,
					  d->flags & SPW_DESC_NIC_STAMP, d->nic_stamp);
		rec->at[1] = batch->seq;
		rec->at[2] = batch->empty_tsc;
		rec->at[3] = trail_echo_place(batch, i);
	}
}

/* The batch's echoes were offered to the port in their order, and it took the first ones. */
static void trail_number_frames(struct spw_pipe *pipe)
{
	const uint64_t before = pipe->trail.taken, took = pipe->ledger.tx_frames - before;
	struct spw_trail *trail = pipe->rec.trail;

	for (uint64_t i = pipe->trail.frames_at; i != trail->cnt; i++) {
		struct spw_trail_rec *rec = &trail->rec[i & ((1u << SPW_TRAIL_LOG2) - 1)];

		if (rec->kind != SPW_TRAIL_FRAME)
			continue;
		rec->at[3] = spw_in_1_to(rec->at[3], took) ? before + rec->at[3] : 0;
		pipe->trail.noted = SPW_MAX(pipe->trail.noted, rec->at[3]);
	}
	pipe->trail.frames_at = trail->cnt;
}

void pipe_trail_batch(struct spw_pipe *pipe, const struct spw_gring_batch *batch,
		      const struct spw_rec_stamps *at)
{
	struct spw_trail_rec *rec;
	const uint64_t stamp[SPW_TRAIL_AT_CNT] = {batch->seq,     at->polled,   at->pushed,
						  at->exec_start, at->exec_end, at->reaped,
						  at->sent};

	trail_number_frames(pipe);
	rec = spw_trail_next(pipe->rec.trail, SPW_TRAIL_BATCH, 0, 0, batch->cnt);
	memcpy(rec->at, stamp, sizeof(rec->at));
	pipe_trail_done(pipe);
}

/* Completions that no frame on the trail waits for are left out. */
void pipe_trail_done(struct spw_pipe *pipe)
{
	struct spw_port_done done;
	uint64_t above;

	while (spw_trail_nic_next(&pipe->trail.port, &done, &above))
		if (above < pipe->trail.noted)
			spw_trail_nic_done(pipe->rec.trail, &done, &pipe->rec.nic_map);
}
