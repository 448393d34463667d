/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Runs a recorded lane again (spw_replay.h). read.c has checked the records; here they
 * are fed to the pipe one by one:
 *
 *   RAW              a burst without frames again, in the port (raw.c)
 *   POLL             a turn that polls and pushes      script: polled, pushed
 *   DONE             a turn that settles one batch     script: reaped, tx, refill
 *   SNAP             the bytes on which the handler runs again (handler.c)
 *   all others       what housekeeping, clocks and executor did in between
 *
 * Idle turns are not recorded: what they left in the recorder stands in the next POLL.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/spw_err.h"
#include "replay/replay.h"

/* ---- turns ---- */

/* Stamps of 0 were not taken in the run; the last one is repeated, as the loop may read the clock
 * once more. */
static void replay_script_set(struct spw_replay *r, const uint64_t *stamp, uint32_t cnt)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < cnt; i++)
		if (stamp[i])
			r->script[n++] = stamp[i];
	for (uint64_t last = n ? r->script[n - 1] : 0; n < SCRIPT_CNT; n++)
		r->script[n] = last;
	r->pipe->rec.script = r->script;
	r->pipe->house_turns = UINT32_MAX;
}

/* The inline executor runs within push, so some stamps of a turn do not exist. */
static bool replay_is_inline(const struct spw_replay *r)
{
	return r->pipe->turn_flags & SPW_REC_INLINE;
}

/* The run's burst may have changed from poll to poll, so whether one was full is recorded with it:
 * a full one is given no more room than it took, any other more. */
static void replay_poll(struct spw_replay *r, const struct spw_flight_poll *poll)
{
	bool spill = poll->rec.what & SPW_FLIGHT_SPILL;
	const uint64_t stamp[] = {poll->polled, !spill && replay_is_inline(r) ? 0 : poll->pushed};
	uint64_t seq = r->pipe->ring->head_seq;
	struct spw_pipe *pipe = r->pipe;
	struct spw_rec *rec = &pipe->rec;
	const struct spw_gring_batch *batch;

	rec->empty_tsc = poll->empty;
	rec->before = poll->before;
	rec->turn_tsc = poll->turn;
	pipe->frames_left = poll->rec.what & SPW_FLIGHT_FULL ? poll->rec.cnt : UINT64_MAX;
	replay_script_set(r, stamp, SPW_ARRAY_CNT(stamp));
	r->poll = poll;
	spw_pipe_turn_again(pipe);
	replay_handler_poll(r, poll, seq);
	batch = spill ? &pipe->spill : spw_gring_at(r->pipe->ring, seq);
	r->result.polls++;
	r->result.frames += poll->rec.cnt;
	r->result.since_differs += batch->since_tsc != poll->since || (!spill && seq != poll->seq);
}

/* A batch that was pushed before the recording begins. Its completion says how many frames it has,
 * which is all that the ledger needs; it is never described. */
static int replay_unknown_put(struct spw_replay *r, uint64_t seq,
			      const struct spw_flight_done *done)
{
	struct spw_gring_batch *batch = spw_gring_at(r->pipe->ring, seq);
	uint32_t cnt = (uint32_t)(done->w[2] >> 16) & 0x7f;

	if (cnt < 1 || cnt > SPW_GRING_FRAME_MAX)
		return spw_err(EPROTO, "batch %" PRIu64 ": a completion of %u frames", seq, cnt);
	memset(batch, 0, sizeof(*batch));
	batch->seq = seq;
	batch->cnt = cnt;
	batch->polled_tsc = batch->since_tsc = batch->pushed_tsc = r->pipe->rec.last_tsc;
	r->pipe->rec.keep_tsc = r->pipe->rec.cold_tsc = UINT64_MAX;
	return 0;
}

/* The recorded completion stands in the ring, as the executor had written it; the turn then reaps
 * it. */
static int replay_done(struct spw_replay *r, const struct spw_flight_done *done)
{
	const uint64_t stamp[] = {replay_is_inline(r) ? 0 : done->reaped, done->tx, done->refill};
	uint64_t seq = r->pipe->ring->retired_seq, keep = r->pipe->rec.keep_tsc;
	int rc = seq < r->known_seq ? replay_unknown_put(r, seq, done) : 0;

	if (rc)
		return rc;
	memcpy(r->pipe->ring->done[seq & r->pipe->ring->batch_mask].w, done->w, sizeof(done->w));
	r->sent = done->rec.what;
	replay_script_set(r, stamp, SPW_ARRAY_CNT(stamp));
	spw_pipe_turn_again(r->pipe);
	if (r->pipe->ring->retired_seq != seq + 1)
		return spw_err(EPROTO,
			       "batch %" PRIu64 ": the completion recorded for it is of "
			       "another batch",
			       seq);
	replay_handler_done(r, seq);
	if (seq < r->known_seq)
		r->pipe->rec.keep_tsc = r->pipe->rec.cold_tsc = keep;
	r->result.settled++;
	return 0;
}

/* ---- what is not a turn ---- */

void replay_clock(struct spw_rec *rec, const struct spw_flight_clock *clock)
{
	rec->exec_map = clock->exec_map;
	rec->nic_map = clock->nic_map;
	rec->exec_unc = clock->exec_unc;
	rec->nic_unc = clock->nic_unc;
	rec->nic_step_2_32 = clock->nic_step_2_32;
}

/* Gaps come from the recording: the loop that runs again has none of its own. */
static void replay_gap(struct spw_rec *rec, const struct spw_flight_gap *note)
{
	struct spw_rec_gap gap = {note->from, note->to, note->lost,
				  (enum spw_regime)(note->rec.what >> 8),
				  (enum spw_hold)(note->rec.what & 0xff)};

	rec->empty_tsc = note->empty;
	spw_rec_gap_add(rec, &gap);
}

/* The executor's pauses are given, the cause is found again. A judgement of a batch that was
 * described before the window has nothing to stand on. */
static void replay_judged(struct spw_replay *r, const struct spw_flight_judged *note)
{
	struct spw_rec *rec = &r->pipe->rec;
	struct spw_rec_slow *slow = spw_rec_slow_due(rec, 0, true);

	if (!slow || slow->seq > note->seq) {
		r->result.before++;
		rec->keep_tsc = rec->cold_tsc = note->keep_tsc;
		return;
	}
	slow->facts.wait_pause = note->wait_pause;
	slow->facts.run_pause = note->run_pause;
	slow->facts.reap_pause = note->reap_pause;
	slow->facts.wait_relaunch = note->rec.what & SPW_FLIGHT_WAIT_RELAUNCH;
	slow->facts.run_relaunch = note->rec.what & SPW_FLIGHT_RUN_RELAUNCH;
	spw_rec_slow_judge(rec, slow);
	r->result.described++;
	r->result.cause_differs +=
		slow->seq != note->seq || slow->cause != (note->rec.what & 0xffu) ||
		spw_rec_slow_whole(slow) != note->whole || slow->above != note->above;
	rec->keep_tsc = rec->cold_tsc = note->keep_tsc;
}

/* Which of the generator's frames the next described batch begins with. */
static void replay_ident(struct spw_pipe *pipe, const struct spw_flight_ident *note)
{
	pipe->slow.ident = note->ident;
	pipe->slow.ident_seq = note->seq;
	pipe->slow.ident_known = true;
}

/* A file that says otherwise must not get as far as the rings: a place of the new one that has no
 * batch would be read as one. */
static int replay_backend_take(struct spw_replay *r, const struct spw_flight_state *s)
{
	const struct spw_gring *ring = r->pipe->ring;

	if (ring->retired_seq != ring->head_seq || s->retired_seq != s->head_seq)
		return spw_err(EPROTO,
			       "batch %" PRIu64 ": the executor was changed while it was in flight",
			       ring->retired_seq);
	replay_backend(r, s);
	r->known_seq = 0;
	r->result.backend_changes++;
	return 0;
}

/* The counters at the end of a segment, or where the backend changes. */
static int replay_state(struct spw_replay *r, const struct spw_flight_state *s)
{
	const struct spw_pipe *pipe = r->pipe;
	const bool same = s->backend == pipe->backend_idx;

	r->result.states++;
	r->result.ledger_differs += memcmp(&pipe->ledger, s->ledger, sizeof(s->ledger)) ||
				    memcmp(pipe->bad, s->bad, sizeof(s->bad)) ||
				    spw_replay_executed(r) != s->executed_frames ||
				    (same && (pipe->ring->retired_seq != s->retired_seq ||
					      pipe->ring->head_seq != s->head_seq));
	r->result.to_tsc = s->last_tsc;
	r->result.ended |= s->ended != 0;
	return same ? 0 : replay_backend_take(r, s);
}

/* Kinds that need no work of the pipe fill what it or the recorder would have read. */
static int replay_feed(struct spw_replay *r, const struct spw_flight_rec *rec)
{
	const void *any = rec;
	const struct spw_flight_dry *dry = any;

	switch (rec->kind) {
	case SPW_FLIGHT_STATE:
		return replay_state(r, any);
	case SPW_FLIGHT_RAW:
		replay_raw_take(r, any);
		break;
	case SPW_FLIGHT_POLL:
		replay_poll(r, any);
		break;
	case SPW_FLIGHT_DONE:
		return replay_done(r, any);
	case SPW_FLIGHT_GAP:
		replay_gap(&r->pipe->rec, any);
		break;
	case SPW_FLIGHT_DRY:
		spw_pipe_dry_add(&r->pipe->slow, dry->from, dry->to);
		break;
	case SPW_FLIGHT_CLOCK:
		replay_clock(&r->pipe->rec, any);
		break;
	case SPW_FLIGHT_IDENT:
		replay_ident(r->pipe, any);
		break;
	case SPW_FLIGHT_JUDGED:
		replay_judged(r, any);
		break;
	case SPW_FLIGHT_EVENT:
		r->pipe->tx_drop = rec->what;
		break;
	case SPW_FLIGHT_SNAP:
		replay_handler_snap(r, rec);
		break;
	default:
		break;
	}
	return 0;
}

/* ---- run ---- */

/* The STATE with which the window begins is the one that it began with. */
int spw_replay_run(struct spw_replay *r)
{
	int rc = 0;

	for (uint32_t i = r->first; rc == 0 && i < r->lane->conf->seg_cnt; i++) {
		const struct spw_flight_seg *seg = r->lane->seg[i];
		const struct spw_flight_rec *rec = spw_flight_first(seg);

		if (rec && i == r->first)
			rec = spw_flight_after(seg, rec);
		for (; rec && rc == 0; rec = spw_flight_after(seg, rec))
			rc = replay_feed(r, rec);
	}
	r->result.unjudged = r->pipe->rec.pending_head - r->pipe->rec.pending_tail;
	spw_pipe_slow_judge(r->pipe, true);
	return rc;
}

const struct spw_replay_result *spw_replay_result(const struct spw_replay *r)
{
	return &r->result;
}

struct spw_pipe *spw_replay_pipe(struct spw_replay *r)
{
	return r->pipe;
}

uint64_t spw_replay_executed(const struct spw_replay *r)
{
	return spw_gring_executed(r->pipe->ring) + r->elsewhere_frames;
}
