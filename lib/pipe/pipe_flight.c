/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The state of the pipe for the flight recorder (flight/spw_flight.h): between two turns, as STATE,
 * from which a replay starts; and what is constant, for the file. Called by the lcore only.
 */
#include <string.h>

#include "pipe/pipe_flight.h"

/* ---- state ---- */

/* What the clock was when it was last recorded is kept in the ring's own struct, so that only
 * changes cost space. */
static void flight_state_rec(struct spw_pipe *pipe, struct spw_flight_state *s)
{
	const struct spw_rec *rec = &pipe->rec;

	s->last_tsc = rec->last_tsc;
	s->empty_tsc = rec->empty_tsc;
	s->backlog_tsc = rec->backlog_tsc;
	s->backlog_len_tsc = rec->backlog_len_tsc;
	s->backlog_until_tsc = rec->backlog_until_tsc;
	s->keep_tsc = rec->keep_tsc;
	s->gap_cnt = rec->gap_cnt;
	memcpy(s->gap, rec->gap, sizeof(s->gap));
	spw_flight_clock_fill(rec, &pipe->flight->clock);
	s->clock = pipe->flight->clock;
}

/* A ring reads its executor's clock at the first completion, from which stamps are extended to 64
 * bits; the replay cannot, so it is read here at the latest. */
static void flight_state_ring(const struct spw_pipe *pipe, struct spw_flight_state *s)
{
	struct spw_gring *ring = pipe->ring;
	uint64_t *frames = (uint64_t *)(s + 1);

	if (!ring->stamp_ref)
		spw_gring_clock(ring);
	s->backend = pipe->backend_idx;
	s->executed_frames = 0;
	for (uint32_t i = 0; i < pipe->backend_cnt; i++)
		s->executed_frames += spw_gring_executed(pipe->backend[i].ring);
	s->head_seq = ring->head_seq;
	s->tail_seq = ring->tail_seq;
	s->retired_seq = ring->retired_seq;
	s->in_exec_frames = ring->in_exec_frames;
	s->stamp_ref = ring->stamp_ref;
	s->unit_cnt = ring->unit_cnt;
	memcpy(frames, ring->unit_frames, ring->unit_cnt * sizeof(*frames));
}

void pipe_flight_state(struct spw_pipe *pipe, bool ended)
{
	_Static_assert(SPW_FLIGHT_DRY_CNT == SPW_PIPE_DRY_CNT, "one entry for each");
	_Static_assert(SPW_FLIGHT_BAD_CNT == SPW_BAD_CNT, "one counter for each");
	struct spw_flight_state *s;

	if (!pipe->flight)
		return;
	s = spw_flight_take(pipe->flight, SPW_FLIGHT_STATE, 0, (uint16_t)pipe->tx_drop,
			    (uint32_t)(sizeof(*s) + pipe->ring->unit_cnt * sizeof(uint64_t)));
	memcpy(s->ledger, &pipe->ledger, sizeof(s->ledger));
	memcpy(s->bad, pipe->bad, sizeof(s->bad));
	flight_state_ring(pipe, s);
	s->exec_busy = pipe->exec_busy;
	s->exec_last_end = pipe->exec_last_end;
	flight_state_rec(pipe, s);
	for (uint32_t i = 0; i < SPW_PIPE_DRY_CNT; i++) {
		s->dry[i].from = pipe->slow.dry[i].from;
		s->dry[i].to = pipe->slow.dry[i].to;
		s->dry[i].dry = pipe->slow.dry[i].dry;
	}
	s->dry_cnt = pipe->slow.dry_cnt;
	s->ended = ended;
	s->reserved = 0;
}

static void flight_next(struct spw_pipe *pipe)
{
	spw_flight_next(pipe->flight);
	pipe->flight->noted_clock = NULL;
	pipe_flight_state(pipe, false);
}

void pipe_flight_ripe(struct spw_pipe *pipe)
{
	if (pipe->ring->head_seq == pipe->ring->retired_seq || spw_flight_is_full(pipe->flight))
		flight_next(pipe);
}

/* ---- housekeeping ---- */

void pipe_flight_house(struct spw_pipe *pipe)
{
	if (!pipe->flight)
		return;
	spw_flight_clocks(pipe->flight, &pipe->rec);
	if (spw_flight_is_asked(pipe->flight))
		flight_next(pipe);
}

/* ---- for the file ---- */

static void flight_backend_fill(const struct spw_pipe_backend *backend,
				struct spw_flight_backend *out)
{
	out->batch_log2 = backend->ring->batch_log2;
	out->unit_cnt = backend->ring->unit_cnt;
	out->share_log2 = backend->ring->share_log2;
	out->learns = backend->learns;
	out->has_clock = backend->has_clock;
}

/* Called while the lane runs, so it reads only what is constant since spw_pipe_init: which backend
 * is in use, and all that comes with it, stands in the STATEs. */
void spw_pipe_flight_lane(const struct spw_pipe *pipe, struct spw_flight_lane *out)
{
	_Static_assert(sizeof(out->raw_shape) == sizeof(struct spw_port_raw_shape), "a copy");
	_Static_assert(SPW_FLIGHT_BACKEND_MAX == SPW_PIPE_BACKEND_MAX, "one entry for each");
	const struct spw_rec *rec = &pipe->rec;

	out->slow_tsc = rec->slow_tsc == UINT64_MAX ? 0 : rec->slow_tsc;
	out->wait_tsc = rec->wait_tsc;
	out->keep_most_tsc = rec->keep_most_tsc;
	out->backend_cnt = pipe->backend_cnt;
	for (uint32_t i = 0; i < pipe->backend_cnt; i++)
		flight_backend_fill(&pipe->backend[i], &out->backend[i]);
	out->turn_flags = pipe->flags & ~SPW_PIPE_FLIGHT;
	out->snap_bytes = pipe->flight->snap_bytes;
	out->lcore = pipe->slow.lcore;
	out->queue = pipe->slow.queue;
	out->can_tx = pipe->can_tx;
	if (pipe->queue->raw)
		memcpy(out->raw_shape, &pipe->queue->raw->shape, sizeof(out->raw_shape));
}
