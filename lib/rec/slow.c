/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Gaps of the loop, and slow batches from description to judgement. Everything here runs on the
 * owner, off the fast path: spw_rec_mark calls spw_rec_gap_take for a long step, and lib/pipe calls
 * the spw_rec_slow_ functions.
 *
 *   loop      ──turn──turn──[ gap: lost its core ]──turn──turn──────────────> time
 *   gap[]                   from              to    ring of the newest SPW_REC_GAP_CNT
 *   batch           since ─────── polled ─ pushed ─ start ── end ─ reaped ─ sent
 *                   └ part 0: nic_polled ┘└ 1 ┘└ 2 ┘└── 3 ──┘└ 4 ┘└── 5 ──┘
 *
 * A batch is described when it is sent: each gap that overlaps a part adds its ticks to that part
 * (held[part][hold]). It is judged at least wait_tsc later, because an executor reports a pause
 * only after it ends. So the ring of gaps must reach back at least as far as a batch lives;
 * pending[] is a ring of described batches, head at the newest, tail at the next to judge.
 */
#include <string.h>

#include "rec/rec_impl.h"

/* ---- gaps ---- */

/* What a long step is attributed to. A step that waits for nothing cannot be long by itself: the
 * core was lost, even if rseq did not show it (an interrupt, a hypervisor). */
static enum spw_hold gap_hold(const struct spw_rec *rec, enum spw_regime regime)
{
	switch (regime) {
	case SPW_REGIME_rx:
	case SPW_REGIME_housekeeping:
		return SPW_HOLD_PORT;
	case SPW_REGIME_push:
		return rec->push_calls ? SPW_HOLD_PUSH : SPW_HOLD_LOST;
	case SPW_REGIME_tx:
		return SPW_HOLD_TX;
	case SPW_REGIME_refill:
		return SPW_HOLD_REFILL;
	default:
		return SPW_HOLD_LOST;
	}
}

/* Counters of the report: how often, how long in all, how long at most. */
static void gap_hold_add(struct spw_rec_held *held, enum spw_hold hold, uint64_t ticks)
{
	if (!ticks)
		return;
	spw_thr_count(&held->cnt[hold], 1);
	spw_thr_count(&held->sum_tsc[hold], ticks);
	if (ticks > held->max_tsc[hold])
		spw_thr_store_rlx(&held->max_tsc[hold], ticks);
}

/* It is not known where in the step the core was lost, so the gap is one record, by its larger
 * part. */
static void gap_trail(struct spw_trail *trail, const struct spw_rec_gap *gap)
{
	bool lost = 2 * gap->lost > gap->to - gap->from;

	spw_trail_gap(trail, (uint8_t)(lost ? SPW_HOLD_LOST : gap->hold), gap->from, gap->to);
}

/* The counters of the report, the ring of gaps, and what it means for frames that queued
 * meanwhile: backlog_* is for spw_rec_backlog_since. */
void spw_rec_gap_add(struct spw_rec *rec, const struct spw_rec_gap *gap)
{
	rec->gap[rec->gap_cnt++ % SPW_REC_GAP_CNT] = *gap;
	gap_hold_add(&rec->held, SPW_HOLD_LOST, gap->lost);
	gap_hold_add(&rec->held, gap->hold, gap->to - gap->from - gap->lost);
	if (rec->backlog_tsc < rec->empty_tsc)
		rec->backlog_tsc = gap->from;
	rec->backlog_len_tsc = gap->to - rec->backlog_tsc;
	rec->backlog_until_tsc = gap->to + rec->backlog_len_tsc / 2;
}

/* Records a step that took longer than gap_tsc. rseq shows how much of it the thread was off its
 * core (lost); the rest belongs to the call that the step made (hold). A step most of which the
 * quota took is the quota's. */
void spw_rec_gap_take(struct spw_rec *rec, enum spw_regime regime, uint64_t now)
{
	uint64_t took = now - rec->last_tsc, off = 0;
	bool by_quota = false;
	struct spw_rec_gap gap;

	if (rec_preempt_check(&rec->preempt, now, &off))
		by_quota = rec_preempt_throttled(&rec->preempt) && 2 * off > took;
	gap = (struct spw_rec_gap){rec->last_tsc, now, SPW_MIN(off, took), regime,
				   gap_hold(rec, regime)};
	if (by_quota) {
		gap.lost = 0;
		gap.hold = SPW_HOLD_QUOTA;
	}
	if (rec->trail)
		gap_trail(rec->trail, &gap);
	if (rec->gap_note)
		rec->gap_note(rec->gap_to, &gap, rec->empty_tsc);
	spw_rec_gap_add(rec, &gap);
}

/* Since when frames polled now may have waited. Right after a gap: since the gap began; those
 * queued after them: for no longer than the gap took, as a loop that keeps up works its backlog
 * off. This ends when a poll brings less than it could, or half the gap's length after the gap:
 * beyond that it would be a guess. */
uint64_t spw_rec_backlog_since(struct spw_rec *rec, bool full, uint64_t now)
{
	uint64_t since = SPW_MAX(rec->backlog_tsc, now - rec->backlog_len_tsc);
	bool over = now > rec->backlog_until_tsc || rec->backlog_tsc < rec->empty_tsc;

	if (over || !full)
		rec->backlog_tsc = 0;
	return over ? now : since;
}

/* Ticks that [from, to] and a gap have in common. */
static uint64_t gap_overlap(uint64_t from, uint64_t to, const struct spw_rec_gap *gap)
{
	uint64_t low = SPW_MAX(from, gap->from), high = SPW_MIN(to, gap->to);

	return high > low ? high - low : 0;
}

/* It is not known where in a gap the core was lost: each part gets its proportion. */
static void gap_share(const struct spw_rec_gap *gap, uint64_t ticks, uint64_t held[SPW_HOLD_CNT])
{
	uint64_t lost = ticks ? (uint64_t)((double)ticks * (double)gap->lost /
					   (double)(gap->to - gap->from))
			      : 0;

	held[SPW_HOLD_LOST] += lost;
	held[gap->hold] += ticks - lost;
}

/* Newest first, as in spw_rec_slow_new: gaps lie in the order of time. */
uint64_t spw_rec_away(const struct spw_rec *rec, uint64_t from, uint64_t to)
{
	uint64_t held[SPW_HOLD_CNT] = {0}, sum = 0;

	for (uint64_t g = rec->gap_cnt; g > 0 && rec->gap_cnt - g < SPW_REC_GAP_CNT; g--) {
		const struct spw_rec_gap *gap = &rec->gap[(g - 1) % SPW_REC_GAP_CNT];

		if (gap->to <= from)
			break;
		gap_share(gap, gap_overlap(from, to, gap), held);
	}
	for (unsigned int h = 0; h < SPW_HOLD_CNT; h++)
		sum += h == SPW_HOLD_PUSH ? 0 : held[h];
	return sum;
}

/* The ring's next place has the oldest gap; one before it may have been forgotten. */
uint64_t spw_rec_gaps_since(const struct spw_rec *rec)
{
	return rec->gap_cnt > SPW_REC_GAP_CNT ? rec->gap[rec->gap_cnt % SPW_REC_GAP_CNT].from : 0;
}

/* ---- description ---- */

bool spw_rec_slow_full(const struct spw_rec *rec)
{
	return rec->pending_head - rec->pending_tail == SPW_REC_PENDING_CNT;
}

/* Lays the gaps over the parts, newest first, and stops at the first gap that ended before the
 * batch arrived. A batch may be described although it is not above the threshold: it is then among
 * the longest so far (slow_floor_raise). */
struct spw_rec_slow *spw_rec_slow_new(struct spw_rec *rec, const struct spw_rec_stamps *at,
				      const struct spw_rec_poll *poll)
{
	struct spw_rec_slow *slow = &rec->pending[rec->pending_head++ % SPW_REC_PENDING_CNT];
	const uint64_t edge[SPW_STAGE_PART_CNT + 1] = {
		at->since,      at->polled,   SPW_MIN(at->pushed, at->exec_start),
		at->exec_start, at->exec_end, at->reaped,
		at->sent};
	struct spw_cause_facts *facts = &slow->facts;

	memset(slow, 0, sizeof(*slow));
	slow->at = *at;
	slow->poll = *poll;
	for (unsigned int p = 0; p < SPW_STAGE_PART_CNT; p++)
		facts->part[p] = edge[p + 1] - edge[p];
	for (uint64_t g = rec->gap_cnt; g > 0 && rec->gap_cnt - g < SPW_REC_GAP_CNT; g--) {
		const struct spw_rec_gap *gap = &rec->gap[(g - 1) % SPW_REC_GAP_CNT];

		if (gap->to <= at->since)
			break;
		for (unsigned int p = 0; p < SPW_STAGE_PART_CNT; p++)
			gap_share(gap, gap_overlap(edge[p], edge[p + 1], gap), facts->held[p]);
	}
	if (poll->empty > at->since)
		facts->not_polled = SPW_MIN(poll->empty, at->polled) - at->since;
	return slow;
}

struct spw_rec_slow *spw_rec_slow_due(struct spw_rec *rec, uint64_t now, bool all)
{
	struct spw_rec_slow *oldest = &rec->pending[rec->pending_tail % SPW_REC_PENDING_CNT];

	if (rec->pending_tail == rec->pending_head ||
	    (!all && now - oldest->at.sent < rec->wait_tsc))
		return NULL;
	return oldest;
}

/* ---- judgement ---- */

/* A binary heap in an array: the parent of i is (i - 1) / 2, and no entry is shorter than its
 * parent. The shortest of the worst is at [0], so that one comparison decides whether a batch is
 * kept. */
void rec_worst_put(struct spw_rec_slow *heap, uint32_t *cnt, const struct spw_rec_slow *one)
{
	uint64_t whole = spw_rec_slow_whole(one);
	uint32_t hole, child;

	if (*cnt < SPW_REC_WORST_CNT) { /* not full: move up from the end */
		for (hole = (*cnt)++; hole && whole < spw_rec_slow_whole(&heap[(hole - 1) / 2]);
		     hole = (hole - 1) / 2)
			heap[hole] = heap[(hole - 1) / 2];
		heap[hole] = *one;
		return;
	}
	if (whole <= spw_rec_slow_whole(&heap[0]))
		return;
	/* full: replace the least and move down */
	for (hole = 0; (child = 2 * hole + 1) < *cnt; hole = child) {
		if (child + 1 < *cnt &&
		    spw_rec_slow_whole(&heap[child + 1]) < spw_rec_slow_whole(&heap[child]))
			child++;
		if (whole <= spw_rec_slow_whole(&heap[child]))
			break;
		heap[hole] = heap[child];
	}
	heap[hole] = *one;
}

/* Raises the threshold above which a batch is described at all. It only rises, over all intervals,
 * so a batch below it cannot be among the worst of the run. With a trail it stays below an eighth
 * of the threshold: a round trip may be slow although its batch was not. */
static void slow_floor_raise(struct spw_rec *rec)
{
	struct spw_rec_bank *bank = rec->bank;

	if (bank->worst_cnt == SPW_REC_WORST_CNT)
		rec->keep_tsc = SPW_MAX(rec->keep_tsc, SPW_MIN(spw_rec_slow_whole(&bank->worst[0]),
							       rec->keep_most_tsc));
	rec->cold_tsc = rec->trail ? 0 : rec->keep_tsc;
}

/* Each part of the batch's time, by cause. */
static void slow_blame_trail(struct spw_trail *trail, const struct spw_rec_slow *slow)
{
	for (unsigned int p = 0; p < SPW_STAGE_PART_CNT; p++) {
		uint64_t ticks[SPW_CAUSE_CNT] = {0};
		struct spw_trail_rec *rec;
		uint32_t n = 1;

		if (!slow->facts.part[p])
			continue;
		spw_cause_split_part(&slow->facts, p, ticks);
		rec = spw_trail_next(trail, SPW_TRAIL_BLAME, (uint8_t)p, 0, 0);
		memset(rec->at, 0, sizeof(rec->at));
		rec->at[0] = slow->seq;
		for (unsigned int c = 0; c < SPW_CAUSE_CNT && n < SPW_TRAIL_AT_CNT; c++)
			if (ticks[c])
				rec->at[n++] = (uint64_t)c << 56 | ticks[c];
	}
}

void spw_rec_slow_judge(struct spw_rec *rec, struct spw_rec_slow *slow)
{
	struct spw_rec_causes *causes = &rec->bank->causes;

	slow->cause = spw_cause_split(&slow->facts, slow->blame);
	if (rec->trail)
		slow_blame_trail(rec->trail, slow);
	if (slow->above) {
		uint64_t whole = spw_rec_slow_whole(slow);

		causes->frames[slow->cause] += slow->above;
		causes->worst_tsc[slow->cause] = SPW_MAX(causes->worst_tsc[slow->cause], whole);
	}
	rec_worst_put(rec->bank->worst, &rec->bank->worst_cnt, slow);
	slow_floor_raise(rec);
	rec->pending_tail++;
}
