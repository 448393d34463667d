/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slow batches: gathers what port, ring and executor know about each, for the recorder to judge.
 *
 * The loop (pipe.c) calls pipe_slow_take() for a batch that is slow or among the longest, and
 * housekeeping calls spw_pipe_slow_judge() when its waiting time is over:
 *
 *   reap              pipe_slow_ident: who sent the oldest frame (its bytes are still there)
 *   record            pipe_slow_take: stamps, poll, gaps, dry port, batches ahead
 *   + slow_wait_tsc   spw_pipe_slow_judge: pauses and relaunches that the executor has reported by
 *                     then; lib/rec (cause.c) names the cause
 *
 * Everything here is off the fast path: it may divide and loop, but not wait.
 */
#include "exec/spw_pause.h"
#include "flight/spw_flight_turn.h"
#include "pipe/pipe_impl.h"

/* Batches judged in one slice of housekeeping at most: each takes about a microsecond. */
#define JUDGE_MAX 4u

/* ---- identity ---- */

bool pipe_slow_ident_of(const struct spw_pipe_slow *slow, const struct spw_desc *d,
			struct spw_ident *ident_out)
{
	return slow->frames && spw_ident_find(spw_pool_head_addr(slow->frames, d->slot) + d->offset,
					      SPW_MIN(d->len, slow->frames->head_bytes),
					      d->flags & SPW_DESC_MSG, ident_out);
}

void pipe_slow_ident(struct spw_pipe *pipe, const struct spw_gring_batch *batch)
{
	const struct spw_desc *d = &batch->desc[0];
	struct spw_pipe_slow *slow = &pipe->slow;

	if (!slow->frames)
		return;
	slow->ident_seq = batch->seq;
	slow->ident_known = pipe_slow_ident_of(slow, d, &slow->ident);
	if (pipe->flight && slow->ident_known)
		spw_flight_ident(pipe->flight, slow->ident_seq, &slow->ident);
	if (pipe->rec.trail)
		pipe_trail_frames(pipe, batch);
}

/* ---- facts from the port ---- */

static uint64_t slow_overlap(uint64_t a_from, uint64_t a_to, uint64_t b_from, uint64_t b_to)
{
	uint64_t from = SPW_MAX(a_from, b_from), to = SPW_MIN(a_to, b_to);

	return to > from ? to - from : 0;
}

/* Adds a dry time. One that follows the last stretch by no more than that stretch's length extends
 * it, so that the few entries cover a long shortage. */
void spw_pipe_dry_add(struct spw_pipe_slow *slow, uint64_t from, uint64_t to)
{
	struct spw_pipe_dry *last = &slow->dry[slow->dry_cnt % SPW_PIPE_DRY_CNT];

	if (from > last->to + (last->to - last->from)) {
		last = &slow->dry[++slow->dry_cnt % SPW_PIPE_DRY_CNT];
		*last = (struct spw_pipe_dry){.from = from};
	}
	last->to = to;
	last->dry += to - from;
}

/* The port only counts how often it found no slot: if the counter grew between two samples, the
 * whole time between them counts as dry. */
void pipe_slow_dry(struct spw_pipe *pipe)
{
	struct spw_pipe_slow *slow = &pipe->slow;
	uint64_t now, cnt;

	if (!pipe->queue->no_slot)
		return;
	now = pipe->rec.last_tsc;
	cnt = *pipe->queue->no_slot;
	if (cnt != slow->no_slot_last && now > slow->dry_tsc) {
		spw_pipe_dry_add(slow, slow->dry_tsc, now);
		if (pipe->flight)
			spw_flight_dry(pipe->flight, slow->dry_tsc, now);
	}
	slow->no_slot_last = cnt;
	slow->dry_tsc = now;
}

static uint64_t slow_dry_in(const struct spw_pipe_slow *slow, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < SPW_PIPE_DRY_CNT; i++) {
		const struct spw_pipe_dry *d = &slow->dry[i];
		uint64_t both = slow_overlap(d->from, d->to, from, to);

		sum += both ? (uint64_t)((double)both * (double)d->dry / (double)(d->to - d->from))
			    : 0;
	}
	return sum;
}

/* ---- facts from the executor ring ---- */

uint64_t pipe_slow_to_tsc(const unsigned int flags, const struct spw_pipe *pipe,
			  uint64_t exec_stamp)
{
	return flags & SPW_REC_EXEC_CLOCK ? spw_clock_map_ref(&pipe->rec.exec_map, exec_stamp)
					  : exec_stamp;
}

/* How long the executor was busy with batches pushed before this one: their executions, summed and
 * divided over the units that ran them in parallel. */
uint64_t pipe_slow_ahead(const unsigned int flags, const struct spw_pipe *pipe,
			 const struct spw_gring_batch *batch, uint64_t exec_busy)
{
	uint64_t busy = (exec_busy - batch->exec_busy) / pipe->ring->unit_cnt;

	return pipe_slow_to_tsc(flags, pipe, batch->exec_start + busy) -
	       pipe_slow_to_tsc(flags, pipe, batch->exec_start);
}

/* How long this batch was finished but waited for an earlier one: batches are reaped in order. */
static uint64_t slow_reap_ahead(const unsigned int flags, const struct spw_pipe *pipe,
				const struct spw_rec_stamps *at)
{
	uint64_t last = SPW_MIN(pipe_slow_to_tsc(flags, pipe, pipe->exec_last_end), at->reaped);

	return last > at->exec_end ? last - at->exec_end : 0;
}

/* ---- description ---- */

/* Counts the frames above the threshold. Frames are in order of arrival, so the first that is fast
 * enough ends the count; without NIC stamps all have the batch's age. */
static uint32_t slow_above(const struct spw_rec *rec, const struct spw_gring_batch *batch,
			   const struct spw_rec_stamps *at, bool nic_known)
{
	uint32_t cnt = 0;

	if (!nic_known)
		return at->sent - at->since > rec->slow_tsc ? batch->cnt : 0;
	while (cnt < batch->cnt &&
	       at->sent - spw_rec_nic_since(rec, batch->desc[cnt].nic_stamp, at->polled) >
		       rec->slow_tsc)
		cnt++;
	return cnt;
}

static void slow_batch_judge(struct spw_pipe *pipe, struct spw_rec_slow *slow);

void pipe_slow_take(const unsigned int flags, struct spw_pipe *pipe,
		    const struct spw_gring_batch *batch, const struct spw_rec_stamps *at,
		    bool sent_tx)
{
	struct spw_rec_poll poll = {batch->polled_tsc, batch->since_tsc, batch->empty_tsc,
				    batch->before, batch->turn_tsc};
	struct spw_pipe_slow *ps = &pipe->slow;
	struct spw_rec_slow *slow;

	if (pipe->rec.trail)
		pipe_trail_batch(pipe, batch, at);
	/* Judged first, since that may raise the bar: a recording has it in this order too. */
	if (spw_rec_slow_full(&pipe->rec))
		slow_batch_judge(pipe, spw_rec_slow_due(&pipe->rec, at->sent, true));
	if (!spw_rec_slow_wants(&pipe->rec, at))
		return;
	slow = spw_rec_slow_new(&pipe->rec, at, &poll);
	slow->raw_start = batch->exec_start;
	slow->raw_end = batch->exec_end;
	slow->seq = batch->seq;
	slow->cnt = batch->cnt;
	slow->nic_known = (flags & SPW_PIPE_NIC_STAMPS) &&
			  batch->desc[0].flags & SPW_DESC_NIC_STAMP;
	slow->above = slow_above(&pipe->rec, batch, at, slow->nic_known);
	slow->in_exec_frames = (uint32_t)pipe->ring->in_exec_frames;
	slow->ahead = batch->ahead;
	slow->lcore = ps->lcore;
	slow->queue = ps->queue;
	slow->ident_known = ps->ident_known && ps->ident_seq == batch->seq;
	slow->ident = ps->ident;
	pipe_slow_dry(pipe);
	slow->facts.dry = slow_dry_in(ps, at->since, at->polled);
	slow->facts.ahead = pipe_slow_ahead(flags, pipe, batch, pipe->exec_busy);
	slow->facts.reap_ahead = slow_reap_ahead(flags, pipe, at);
	slow->facts.sent_tx = sent_tx;
	slow->facts.exec = ps->exec;
}

/* ---- judgement ---- */

/* The longest pause of the executor within [raw_from, raw_to] of its clock, converted to ticks by
 * proportion: the interval is `ticks` long on the CPU's clock. */
static uint64_t slow_pause_in(struct spw_pipe *pipe, uint64_t raw_from, uint64_t raw_to,
			      uint64_t ticks)
{
	struct spw_pause pause;
	uint64_t raw = raw_to > raw_from ? spw_pause_find(pipe->ring, raw_from, raw_to, &pause) : 0;

	return raw ? (uint64_t)((double)ticks * (double)raw / (double)(raw_to - raw_from)) : 0;
}

static void slow_batch_judge(struct spw_pipe *pipe, struct spw_rec_slow *slow)
{
	struct spw_cause_facts *facts = &slow->facts;
	uint64_t wait = facts->part[SPW_STAGE_pushed_start], run = facts->part[SPW_STAGE_start_end];
	uint64_t reap = facts->part[SPW_STAGE_end_reaped];
	uint64_t relaunch[2] = {spw_thr_load_rlx(&pipe->slow.relaunch_tsc[0]),
				spw_thr_load_rlx(&pipe->slow.relaunch_tsc[1])};
	uint64_t raw_wait = spw_clock_map_span(&pipe->rec.exec_map, wait);

	facts->wait_pause = slow_pause_in(
		pipe, slow->raw_start - SPW_MIN(raw_wait, slow->raw_start), slow->raw_start, wait);
	facts->run_pause = slow_pause_in(pipe, slow->raw_start, slow->raw_end, run);
	facts->reap_pause =
		slow_pause_in(pipe, slow->raw_end,
			      slow->raw_end + spw_clock_map_span(&pipe->rec.exec_map, reap), reap);
	facts->wait_relaunch = slow_overlap(relaunch[0], relaunch[1], slow->at.exec_start - wait,
					    slow->at.exec_start) != 0;
	facts->run_relaunch =
		slow_overlap(relaunch[0], relaunch[1], slow->at.exec_start, slow->at.exec_end) != 0;
	spw_rec_slow_judge(&pipe->rec, slow);
	if (pipe->flight)
		spw_flight_judged(pipe->flight, slow, pipe->rec.keep_tsc);
}

void spw_pipe_slow_judge(struct spw_pipe *pipe, bool all)
{
	struct spw_rec_slow *slow;

	for (uint32_t i = 0; (all || i < JUDGE_MAX) &&
			     (slow = spw_rec_slow_due(&pipe->rec, pipe->rec.last_tsc, all));
	     i++)
		slow_batch_judge(pipe, slow);
}
