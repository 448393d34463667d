/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cold records of the flight recorder (flight/spw_flight.h): the state between two turns, from
 * which replay.c starts, and what housekeeping finds out. Called by the lcore only.
 */
#include <string.h>

#include "pipe/pipe_flight.h"

/* ---- frames ---- */

void pipe_flight_raw(struct spw_pipe *pipe)
{
	const struct spw_port_raw *raw = pipe->queue->raw;
	struct spw_flight_raw *to =
		spw_flight_take(pipe->flight, SPW_FLIGHT_RAW, 0, 0,
				(uint32_t)sizeof(struct spw_flight_raw) + raw->bytes);

	memmove(to + 1, raw->to, raw->bytes);
}

/* The head, which comes behind its frames, since their bytes are known only then. */
static struct spw_flight_poll *flight_poll_head(struct spw_pipe *pipe,
						const struct spw_gring_batch *batch, uint32_t what,
						uint32_t bytes)
{
	bool spill = batch == &pipe->spill;
	struct spw_flight_poll *poll;

	what |= spill ? SPW_FLIGHT_SPILL : 0;
	poll = spw_flight_take(pipe->flight, SPW_FLIGHT_POLL, (uint8_t)batch->cnt, (uint16_t)what,
			       (uint32_t)sizeof(*poll) + bytes);
	poll->seq = spill ? 0 : pipe->ring->head_seq;
	poll->polled = batch->polled_tsc;
	poll->pushed = 0;
	poll->since = batch->since_tsc;
	poll->empty = batch->empty_tsc;
	poll->before = batch->before;
	poll->turn = batch->turn_tsc;
	poll->exec_busy = pipe->exec_busy;
	poll->ahead = (uint32_t)(pipe->ring->head_seq - pipe->ring->tail_seq);
	poll->reserved = 0;
	return poll;
}

/* The poll itself may have been a gap, whose record comes first and lies where the POLL would have
 * begun; the raw completions behind it are whole. */
_Static_assert(sizeof(struct spw_flight_gap) <=
		       sizeof(struct spw_flight_poll) + sizeof(struct spw_flight_sums),
	       "a gap has room before them");

void pipe_flight_poll(struct spw_pipe *pipe, const struct spw_gring_batch *batch, bool full)
{
	const struct spw_port_raw *raw = pipe->queue->raw;
	uint8_t *at = pipe->flight->at + sizeof(struct spw_flight_poll);
	uint32_t what = full ? SPW_FLIGHT_FULL : 0, bytes;

	if (raw && raw->bytes) {
		what |= SPW_FLIGHT_CQES;
		bytes = (uint32_t)sizeof(struct spw_flight_sums) + raw->bytes;
		if (spw_unlikely(raw->to != at + sizeof(struct spw_flight_sums)))
			memmove(at + sizeof(struct spw_flight_sums), raw->to, raw->bytes);
		spw_flight_sum(batch->desc, batch->cnt, (void *)at);
	} else {
		uint32_t widths = spw_columns_put(spw_flight_row, batch->desc,
						  sizeof(struct spw_desc) / 8, batch->cnt,
						  (void *)at);

		what |= widths << SPW_FLIGHT_WIDTHS_SHIFT;
		bytes = spw_columns_bytes(widths, batch->cnt);
	}
	pipe->noted = flight_poll_head(pipe, batch, what, bytes);
	if (spw_unlikely(pipe->flight->snap_bytes) && batch != &pipe->spill)
		pipe_flight_snap(pipe, batch);
}

void pipe_flight_snap(struct spw_pipe *pipe, const struct spw_gring_batch *batch)
{
	uint32_t most = pipe->flight->snap_bytes, bytes = sizeof(struct spw_flight_rec);
	struct spw_flight_rec *rec;
	uint8_t *to;

	if (!pipe->slow.frames)
		return;
	for (uint32_t i = 0; i < batch->cnt; i++)
		bytes += (uint32_t)SPW_ALIGN_UP(SPW_MIN(batch->desc[i].len, most), 8u);
	rec = spw_flight_take(pipe->flight, SPW_FLIGHT_SNAP, (uint8_t)batch->cnt, 0, bytes);
	to = (uint8_t *)(rec + 1);
	for (uint32_t i = 0; i < batch->cnt; i++) {
		const struct spw_desc *d = &batch->desc[i];
		uint32_t len = SPW_MIN(d->len, most);

		memcpy(to, spw_pool_slot_addr(pipe->slow.frames, d->slot) + d->offset, len);
		to += SPW_ALIGN_UP(len, 8u);
	}
}

/* ---- state ---- */

static void flight_clock_fill(const struct spw_rec *rec, struct spw_flight_clock *clock)
{
	clock->exec_map = rec->exec_map;
	clock->nic_map = rec->nic_map;
	clock->exec_unc = rec->exec_unc;
	clock->nic_unc = rec->nic_unc;
	clock->nic_step_2_32 = rec->nic_step_2_32;
}

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
	flight_clock_fill(rec, &pipe->flight->clock);
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
	s->way = pipe->way_idx;
	s->executed_frames = 0;
	for (uint32_t i = 0; i < pipe->way_cnt; i++)
		s->executed_frames += spw_gring_executed(pipe->way[i].ring);
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
	pipe->noted_clock = NULL;
	pipe_flight_state(pipe, false);
}

void pipe_flight_ripe(struct spw_pipe *pipe)
{
	if (pipe->ring->head_seq == pipe->ring->retired_seq || spw_flight_is_full(pipe->flight))
		flight_next(pipe);
}

/* ---- housekeeping ---- */

/* Uncertainties grow all the time, but only frames need them: while nothing else is recorded the
 * newest CLOCK takes the place of the one before it, or an idle lane would fill its ring. */
static void flight_clock_note(struct spw_pipe *pipe)
{
	struct spw_flight *flight = pipe->flight;
	struct spw_flight_clock *clock = pipe->noted_clock;

	if (!clock || (uint8_t *)clock + sizeof(*clock) != flight->at)
		clock = spw_flight_take(flight, SPW_FLIGHT_CLOCK, 0, 0, sizeof(*clock));
	pipe->noted_clock = clock;
	flight_clock_fill(&pipe->rec, &flight->clock);
	flight->clock.rec = clock->rec;
	*clock = flight->clock;
}

void pipe_flight_house(struct spw_pipe *pipe)
{
	const struct spw_flight *flight = pipe->flight;
	const struct spw_rec *rec = &pipe->rec;

	if (!flight)
		return;
	if (rec->nic_unc != flight->clock.nic_unc || rec->exec_unc != flight->clock.exec_unc ||
	    memcmp(&rec->nic_map, &flight->clock.nic_map, sizeof(rec->nic_map)) ||
	    memcmp(&rec->exec_map, &flight->clock.exec_map, sizeof(rec->exec_map)))
		flight_clock_note(pipe);
	if (spw_flight_is_asked(flight))
		flight_next(pipe);
}

void pipe_flight_event(struct spw_pipe *pipe, const struct spw_port_event *event)
{
	struct spw_flight_event *note;

	if (!pipe->flight)
		return;
	note = spw_flight_take(pipe->flight, SPW_FLIGHT_EVENT, 0, (uint16_t)pipe->tx_drop,
			       sizeof(*note));
	note->event = *event;
}

void pipe_flight_dry(struct spw_pipe *pipe, uint64_t from, uint64_t to)
{
	struct spw_flight_dry *note;

	if (!pipe->flight)
		return;
	note = spw_flight_take(pipe->flight, SPW_FLIGHT_DRY, 0, 0, sizeof(*note));
	note->from = from;
	note->to = to;
}

/* ---- slow batches ---- */

void pipe_flight_ident(struct spw_pipe *pipe)
{
	struct spw_flight_ident *note;

	if (!pipe->flight || !pipe->slow.ident_known)
		return;
	note = spw_flight_take(pipe->flight, SPW_FLIGHT_IDENT, 0, 0, sizeof(*note));
	note->seq = pipe->slow.ident_seq;
	note->ident = pipe->slow.ident;
}

void pipe_flight_judged(struct spw_pipe *pipe, const struct spw_rec_slow *slow)
{
	const struct spw_cause_facts *facts = &slow->facts;
	uint64_t whole = spw_rec_slow_whole(slow);
	struct spw_flight_judged *note;

	if (!pipe->flight)
		return;
	note = spw_flight_take(pipe->flight, SPW_FLIGHT_JUDGED, 0,
			       (uint16_t)(slow->cause |
					  (facts->wait_relaunch ? SPW_FLIGHT_WAIT_RELAUNCH : 0) |
					  (facts->run_relaunch ? SPW_FLIGHT_RUN_RELAUNCH : 0)),
			       sizeof(*note));
	note->seq = slow->seq;
	note->whole = whole;
	note->above = slow->above;
	note->wait_pause = facts->wait_pause;
	note->run_pause = facts->run_pause;
	note->reap_pause = facts->reap_pause;
	note->keep_tsc = pipe->rec.keep_tsc;
	if (slow->above && whole > pipe->flight->worst_tsc)
		spw_thr_store_rlx(&pipe->flight->worst_tsc, whole);
}

/* ---- for the file ---- */

static void flight_backend_fill(const struct spw_pipe_way *way, struct spw_flight_way *out)
{
	out->batch_log2 = way->ring->batch_log2;
	out->unit_cnt = way->ring->unit_cnt;
	out->share_log2 = way->ring->share_log2;
	out->learns = way->learns;
	out->has_clock = way->has_clock;
}

/* Called while the lane runs, so it reads only what is constant since spw_pipe_init: which way is
 * in use, and all that comes with it, stands in the STATEs. */
void spw_pipe_flight_lane(const struct spw_pipe *pipe, struct spw_flight_lane *out)
{
	_Static_assert(sizeof(out->raw_shape) == sizeof(struct spw_port_raw_shape), "a copy");
	_Static_assert(SPW_FLIGHT_WAY_MAX == SPW_PIPE_WAY_MAX, "one entry for each");
	const struct spw_rec *rec = &pipe->rec;

	out->slow_tsc = rec->slow_tsc == UINT64_MAX ? 0 : rec->slow_tsc;
	out->wait_tsc = rec->wait_tsc;
	out->keep_most_tsc = rec->keep_most_tsc;
	out->way_cnt = pipe->way_cnt;
	for (uint32_t i = 0; i < pipe->way_cnt; i++)
		flight_backend_fill(&pipe->way[i], &out->way[i]);
	out->turn_flags = pipe->flags & ~SPW_PIPE_FLIGHT;
	out->snap_bytes = pipe->flight->snap_bytes;
	out->lcore = pipe->slow.lcore;
	out->queue = pipe->slow.queue;
	out->can_tx = pipe->can_tx;
	if (pipe->queue->raw)
		memcpy(out->raw_shape, &pipe->queue->raw->shape, sizeof(out->raw_shape));
}
