/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The parts of a replay (spw_replay.h): a port queue, an executor ring and a pipe, as they
 * were at the beginning of the window; replay.c then runs it.
 *
 * The window begins at the first STATE whose batches in flight are among the POLLs before it; these
 * are put into the executor ring as they were (the lead-in), and the pipe goes on from there. If an
 * executor stood still for so long that there is no such STATE, batches without a POLL are counted
 * by their completions, and their causes are not known.
 *
 *    segments   ... POLL POLL STATE │ POLL DONE POLL ...
 *                    └─ lead-in ─┘  └ the window: replay.c runs from here
 *                    in flight at the STATE
 *
 * Nothing of a recording is trusted: lib/flight has checked sizes and kinds, and what does not fit
 * together here is counted as unknown.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "exec/spw_pause.h"
#include "replay/replay.h"
#include "port/spw_port_raw.h"

/* ---- the port ---- */

static void poll_frame(const struct spw_flight_poll *poll, uint32_t i, struct spw_desc *desc_out)
{
	uint64_t value[SPW_COLUMN_CNT];

	spw_columns_get((const void *)(poll + 1), poll->rec.what >> SPW_FLIGHT_WIDTHS_SHIFT,
			poll->rec.cnt, i, value);
	spw_flight_unrow(value, desc_out);
}

/* Raw completions that were changed may come to fewer frames: the burst had them nevertheless. */
uint32_t replay_frames(struct spw_replay *r, const struct spw_flight_poll *poll, bool check,
		       struct spw_desc *desc)
{
	const bool raw = poll->rec.what & SPW_FLIGHT_CQES;
	uint32_t got = raw ? replay_raw_frames(r, poll, desc) : 0;

	if (raw && check)
		replay_raw_check(r, poll, desc, got);
	for (uint32_t i = got; i < poll->rec.cnt; i++)
		if (raw)
			desc[i] = (struct spw_desc){.len = 1};
		else
			poll_frame(poll, i, &desc[i]);
	return poll->rec.cnt;
}

/* The port's side of the pipe: the POLL that replay.c has put into r->poll, once. */
static uint16_t replay_rx(void *q, struct spw_desc *desc, uint16_t cnt)
{
	struct spw_replay *r = q;
	const struct spw_flight_poll *poll = r->poll;

	r->poll = NULL;
	return poll && poll->rec.cnt <= cnt ? (uint16_t)replay_frames(r, poll, true, desc) : 0;
}

/* The recorded number of echoes is taken; the rest is dropped, as it was. */
static uint16_t replay_tx(void *q, struct spw_desc **desc SPW_UNUSED, uint16_t cnt)
{
	struct spw_replay *r = q;

	return (uint16_t)SPW_MIN(r->sent, (uint32_t)cnt);
}

/* Slots are numbers only: there is no pool behind them. */
static void replay_release(void *q SPW_UNUSED, const uint32_t *slot SPW_UNUSED,
			   uint16_t cnt SPW_UNUSED)
{
}

static uint16_t replay_events(void *q SPW_UNUSED, struct spw_port_event *event SPW_UNUSED,
			      uint16_t cnt SPW_UNUSED)
{
	return 0;
}

static uint16_t replay_lend(void *q SPW_UNUSED, uint32_t *slot SPW_UNUSED, uint16_t cnt SPW_UNUSED)
{
	return 0;
}

/* ---- where the window begins ---- */

static const struct spw_flight_state *window_state(const struct spw_replay *r, uint32_t seg)
{
	return (const void *)spw_flight_first(r->lane->seg[seg]);
}

/* Puts a batch into the executor ring as it was pushed. */
static void window_lead_in_put(struct spw_replay *r, uint32_t backend,
			       const struct spw_flight_poll *poll)
{
	struct spw_gring_batch *batch = spw_gring_at(&r->ring[backend], poll->seq);

	memset(batch, 0, offsetof(struct spw_gring_batch, desc));
	batch->seq = poll->seq;
	batch->cnt = replay_frames(r, poll, false, batch->desc);
	batch->ahead = poll->ahead;
	batch->exec_busy = poll->exec_busy;
	batch->polled_tsc = poll->polled;
	batch->since_tsc = poll->since;
	batch->empty_tsc = poll->empty;
	batch->before = poll->before;
	batch->turn_tsc = poll->turn;
	batch->pushed_tsc = poll->pushed;
}

/* Finds the batches that are in flight at the STATE s of segment seg among the POLLs of segments
 * [at, seg), and puts them into their ring. Another backend's batches with the same numbers are
 * older, since it was left before these were pushed: the later POLL replaces them. A batch that
 * several units shared has several numbers and one POLL: it counts as not found. Returns: the first
 * from which all were found; head_seq if none was. */
static uint64_t window_lead_in(struct spw_replay *r, uint32_t at, uint32_t seg,
			       const struct spw_flight_state *s)
{
	const uint64_t from = s->retired_seq, to = s->head_seq;
	uint64_t known = to, next = to;

	for (; at < seg && from < to; at++) {
		const struct spw_flight_seg *in = r->lane->seg[at];
		const struct spw_flight_rec *rec = spw_flight_first(in);

		for (; rec; rec = spw_flight_after(in, rec)) {
			const struct spw_flight_poll *poll = (const void *)rec;

			if (rec->kind != SPW_FLIGHT_POLL || rec->what & SPW_FLIGHT_SPILL ||
			    poll->seq < from || poll->seq >= to)
				continue;
			window_lead_in_put(r, s->backend, poll);
			known = poll->seq == next ? known : poll->seq;
			next = poll->seq + 1;
		}
	}
	return next == to ? known : to;
}

/* whole: only if all batches in flight are known. */
static bool window_begin_at(struct spw_replay *r, uint32_t oldest, uint32_t seg, bool whole)
{
	const struct spw_flight_state *s = window_state(r, seg);

	if (!s || s->tail_seq != s->retired_seq)
		return false;
	r->first = seg;
	r->known_seq = window_lead_in(r, oldest, seg, s);
	r->result.lead_in = s->head_seq - s->retired_seq;
	r->result.unknown = r->known_seq - s->retired_seq;
	return !whole || !r->result.unknown;
}

/* The first segment from which the rest is whole and can be run; where there is none, because an
 * executor stood still for longer than the recording, the first of all. */
static int window_find(struct spw_replay *r)
{
	uint32_t cnt = r->lane->conf->seg_cnt, oldest = 0;

	for (uint32_t i = 1; i < cnt; i++)
		if (r->lane->seg[i]->broken ||
		    r->lane->seg[i]->number != r->lane->seg[i - 1]->number + 1)
			oldest = i;
	for (uint32_t i = oldest; i < cnt; i++)
		if (window_begin_at(r, oldest, i, true))
			return 0;
	for (uint32_t i = oldest; i < cnt; i++)
		if (window_begin_at(r, oldest, i, false))
			return 0;
	return spw_err(EPROTO, "lane of lcore %u: nothing is recorded", r->lane->conf->lcore);
}

/* ---- set-up ---- */

/* No place of the ring may look finished: each gets a tag that its next batch does not have. */
static void window_done_clear(struct spw_gring *ring)
{
	for (uint64_t i = 0; i <= ring->batch_mask; i++) {
		uint64_t seq = ring->retired_seq + i;
		uint64_t *w = ring->done[seq & ring->batch_mask].w;

		w[0] = ~spw_gring_tag(seq, ring->batch_log2);
	}
}

/* What the recorder knew at the STATE, so that the first frames of the window get the causes they
 * had. */
static void window_begin_rec(struct spw_rec *rec, const struct spw_flight_state *s,
			     const struct spw_flight_lane *lane)
{
	rec->last_tsc = rec->start_tsc = rec->turn_start_tsc = s->last_tsc;
	rec->empty_tsc = s->empty_tsc;
	rec->backlog_tsc = s->backlog_tsc;
	rec->backlog_len_tsc = s->backlog_len_tsc;
	rec->backlog_until_tsc = s->backlog_until_tsc;
	rec->keep_tsc = rec->cold_tsc = s->keep_tsc;
	rec->keep_most_tsc = lane->keep_most_tsc;
	rec->gap_cnt = s->gap_cnt;
	rec->gap_tsc = UINT64_MAX; /* gaps come from the recording */
	memcpy(rec->gap, s->gap, sizeof(s->gap));
}

/* The indices are those of the run, so numbers of batches mean the same. */
static void window_begin_ring(struct spw_gring *ring, const struct spw_flight_state *s)
{
	ring->head_seq = s->head_seq;
	ring->tail_seq = s->tail_seq;
	ring->retired_seq = s->retired_seq;
	ring->in_exec_frames = s->in_exec_frames;
	ring->stamp_ref = s->stamp_ref;
	memcpy(ring->unit_frames, s + 1, s->unit_cnt * sizeof(uint64_t));
	window_done_clear(ring);
}

/* Also called by replay.c when the recording changes the executor. */
void replay_backend(struct spw_replay *r, const struct spw_flight_state *s)
{
	spw_pipe_backend_use(r->pipe, s->backend);
	window_begin_ring(r->pipe->ring, s);
	replay_clock(&r->pipe->rec, &s->clock);
	r->elsewhere_frames = s->executed_frames - spw_gring_executed(r->pipe->ring);
}

/* Called after window_find, which has put the batches of the lead-in into the ring. */
static void window_begin(struct spw_replay *r)
{
	const struct spw_flight_state *s = window_state(r, r->first);
	struct spw_pipe *pipe = r->pipe;

	replay_backend(r, s);
	memcpy(&pipe->ledger, s->ledger, sizeof(s->ledger));
	memcpy(pipe->bad, s->bad, sizeof(s->bad));
	pipe->exec_busy = s->exec_busy;
	pipe->exec_last_end = s->exec_last_end;
	pipe->tx_drop = s->rec.what;
	for (uint32_t i = 0; i < SPW_PIPE_DRY_CNT; i++)
		pipe->slow.dry[i] =
			(struct spw_pipe_dry){s->dry[i].from, s->dry[i].to, s->dry[i].dry};
	pipe->slow.dry_cnt = (uint32_t)s->dry_cnt;
	window_begin_rec(&pipe->rec, s, r->lane->conf);
	r->result.skipped = r->first;
	r->result.from_start = r->lane->seg[r->first]->number == 0;
	r->result.from_tsc = r->result.to_tsc = s->last_tsc;
	r->result.ended = s->ended != 0;
}

/* Time is the recording's: an executor's clock is asked for nothing. */
static uint64_t replay_no_clock(struct spw_gring *ring)
{
	return ring->stamp_ref;
}

static void *replay_zeroed(size_t bytes)
{
	void *at = aligned_alloc(2 * SPW_CACHE_LINE, SPW_ALIGN_UP(bytes, 2ul * SPW_CACHE_LINE));

	return at ? memset(at, 0, bytes) : NULL;
}

static int replay_ring_open(struct spw_gring *ring, const struct spw_flight_backend *backend)
{
	size_t cnt = (size_t)1 << backend->batch_log2;

	*ring = (struct spw_gring){
		.desc = replay_zeroed(cnt * SPW_GRING_FRAME_MAX * sizeof(*ring->desc)),
		.done = replay_zeroed(cnt * sizeof(*ring->done)),
		.pauses = replay_zeroed(sizeof(*ring->pauses)),
		.batch = replay_zeroed(cnt * sizeof(*ring->batch)),
		.unit_frames = replay_zeroed(backend->unit_cnt * sizeof(*ring->unit_frames)),
		.batch_mask = (uint32_t)cnt - 1,
		.batch_log2 = backend->batch_log2,
		.unit_cnt = backend->unit_cnt,
		.region_cnt = 1,
		.share_log2 = backend->share_log2,
		.exec_now = replay_no_clock,
	};
	return ring->desc && ring->done && ring->pauses && ring->batch && ring->unit_frames
		       ? 0
		       : spw_err(ENOMEM, "no memory for a ring of %zu batches", cnt);
}

static int replay_rings_open(struct spw_replay *r, const struct spw_flight_lane *lane)
{
	int rc = 0;

	for (uint32_t i = 0; i < lane->backend_cnt && rc == 0; i++)
		rc = replay_ring_open(&r->ring[i], &lane->backend[i]);
	return rc;
}

static void replay_ring_close(struct spw_gring *ring)
{
	free(ring->desc);
	free(ring->done);
	free(ring->pauses);
	free(ring->batch);
	free(ring->unit_frames);
}

/* The turn is the one that ran: its flags and thresholds come from the recording. */
static int replay_pipe_open(struct spw_replay *r, const struct spw_flight_lane *lane)
{
	struct spw_pipe_conf conf = {
		.queue = &r->queue,
		.pool = &r->pool,
		.burst = SPW_BURST_MAX, /* never narrower than a POLL's frames; replay_poll */
		.can_tx = lane->can_tx,
		.record = true,
		.backend_cnt = lane->backend_cnt,
		.nic_stamps = lane->turn_flags & SPW_PIPE_NIC_STAMPS,
		.nic_frames = lane->turn_flags & SPW_PIPE_NIC_FRAMES,
		.slow_tsc = lane->slow_tsc,
		.slow_wait_tsc = lane->wait_tsc,
		.lcore = lane->lcore,
		.queue_idx = lane->queue,
	};

	for (uint32_t i = 0; i < lane->backend_cnt; i++)
		conf.backend[i] = (struct spw_pipe_backend){
			.ring = &r->ring[i],
			.learns = (enum spw_cause_exec)lane->backend[i].learns,
			.has_clock = lane->backend[i].has_clock,
		};
	r->queue = (struct spw_port_queue){.rx_burst = replay_rx,
					   .release_burst = replay_release,
					   .tx_burst = replay_tx,
					   .events = replay_events,
					   .lend_burst = replay_lend,
					   .q = r};
	r->pipe = replay_zeroed(sizeof(*r->pipe));
	return r->pipe ? spw_pipe_init(r->pipe, &conf) : spw_err(ENOMEM, "no memory for a pipe");
}

/* What was opened before an error is closed again. */
int spw_replay_open(const struct spw_flight_read_lane *lane, struct spw_replay **replay_out)
{
	struct spw_replay *r = calloc(1, sizeof(*r));
	int rc;

	*replay_out = NULL;
	if (!r)
		return spw_err(ENOMEM, "no memory for a recorded lane");
	r->lane = lane;
	if ((rc = replay_rings_open(r, lane->conf)) < 0 ||
	    (rc = replay_pipe_open(r, lane->conf)) < 0 || (rc = replay_raw_open(r)) < 0 ||
	    (rc = window_find(r)) < 0) {
		spw_replay_close(r);
		return rc;
	}
	window_begin(r);
	*replay_out = r;
	return 0;
}

void spw_replay_close(struct spw_replay *r)
{
	if (!r)
		return;
	spw_port_raw_close(r->raw_reader);
	replay_handler_close(r->handler);
	for (uint32_t i = 0; i < SPW_PIPE_BACKEND_MAX; i++)
		replay_ring_close(&r->ring[i]);
	free(r->pipe);
	free(r);
}
