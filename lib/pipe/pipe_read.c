/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The pipe as other threads see it: the control thread takes port events and reports relaunches,
 * telemetry and the final report read counters.
 *
 * Nothing here stops or slows the lcore. Counters are single words that only the lcore writes, so a
 * relaxed load of each gives a sample that may be a turn old but is never torn; sums over several
 * counters are exact only after spw_pipe_ended().
 */
#include "pipe/spw_pipe.h"

bool spw_pipe_event(struct spw_pipe *pipe, struct spw_port_event *event_out)
{
	struct spw_pipe_events *events = &pipe->events;

	if (!spw_ring_ready(&events->ring, 1))
		return false;
	*event_out = events->event[spw_ring_read_pos(&events->ring) % SPW_PIPE_EVENT_CNT];
	spw_ring_release(&events->ring, 1);
	return true;
}

void spw_pipe_relaunched(struct spw_pipe *pipe, uint64_t from_tsc, uint64_t to_tsc)
{
	spw_thr_store_rlx(&pipe->slow.relaunch_tsc[0], from_tsc);
	spw_thr_store_rlx(&pipe->slow.relaunch_tsc[1], to_tsc);
}

void spw_pipe_summary(const struct spw_pipe *pipe, struct spw_pipe_summary *out)
{
	const struct spw_ledger_lcore *from = &pipe->ledger;
	struct spw_ledger_lcore *to = &out->ledger;

	to->polled_frames = spw_thr_load_rlx(&from->polled_frames);
	to->polled_bytes = spw_thr_load_rlx(&from->polled_bytes);
	to->pushed_batches = spw_thr_load_rlx(&from->pushed_batches);
	to->pushed_frames = spw_thr_load_rlx(&from->pushed_frames);
	to->reaped_batches = spw_thr_load_rlx(&from->reaped_batches);
	to->reaped_frames = spw_thr_load_rlx(&from->reaped_frames);
	to->consumed_frames = spw_thr_load_rlx(&from->consumed_frames);
	to->bad_frames = spw_thr_load_rlx(&from->bad_frames);
	to->unmoved_frames = spw_thr_load_rlx(&from->unmoved_frames);
	to->tx_frames = spw_thr_load_rlx(&from->tx_frames);
	for (uint32_t i = 0; i < SPW_DROP_CNT; i++)
		to->dropped[i] = spw_thr_load_rlx(&from->dropped[i]);
	for (uint32_t i = 0; i < SPW_BAD_CNT; i++)
		out->bad[i] = spw_thr_load_rlx(&pipe->bad[i]);
	for (uint32_t i = 0; i < SPW_REGIME_CNT; i++)
		out->regime_tsc[i] = spw_thr_load_rlx(&pipe->rec.regime_tsc[i]);
	for (uint32_t i = 0; i < SPW_HOLD_CNT; i++)
		out->held_cnt[i] = spw_thr_load_rlx(&pipe->rec.held.cnt[i]);
	out->turn_max_tsc = spw_thr_load_rlx(&pipe->rec.turn_max_tsc);
	out->fill_frames = spw_thr_load_rlx(&pipe->obj.fill_frames);
	out->receipts_lost = spw_thr_load_rlx(&pipe->obj.receipts_lost);
	out->events_lost = spw_thr_load_rlx(&pipe->events.lost);
}

bool spw_pipe_collect(struct spw_pipe *pipe, struct spw_rec_view *view)
{
	return spw_rec_collect(&pipe->rec, view);
}

void spw_pipe_collect_rest(struct spw_pipe *pipe, struct spw_rec_view *view)
{
	spw_rec_collect_rest(&pipe->rec, view);
}
