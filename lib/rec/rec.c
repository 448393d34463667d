/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The owner's side around the hot calls of spw_rec.h: set-up, clock maps, intervals, and stamps
 * that are out of order. lib/pipe calls it at set-up and in housekeeping; the records themselves
 * are inline in spw_rec.h.
 *
 *   begin      preemption trap set, first mark taken; "nobody polled before" is gap 0
 *   turns      spw_rec_mark, spw_rec_batch, spw_rec_nic (inline, no call into this file)
 *   house      spw_rec_clocks: newest maps of executor and NIC; spw_rec_flip: bank change
 *   end        trap removed; the reader then takes both banks (view.c)
 *
 * All memory is inside struct spw_rec. The owner writes it, other threads sample single words of
 * it; only a bank changes hands, by the flip of hist/spw_hist.h (H1 to H4).
 */
#include <string.h>

#include "rec/rec_impl.h"

static const struct spw_enum_word stage_word[] = {SPW_ENUM_WORDS(SPW_STAGE)};
static const struct spw_enum_word regime_word[] = {SPW_ENUM_WORDS(SPW_REGIME)};

const char *spw_stage_name(enum spw_stage stage)
{
	return SPW_ENUM_NAME(stage_word, stage);
}

const char *spw_regime_name(enum spw_regime regime)
{
	return SPW_ENUM_NAME(regime_word, regime);
}

void spw_rec_init(struct spw_rec *rec)
{
	memset(rec, 0, sizeof(*rec));
	spw_clock_map_identity(&rec->exec_map);
	spw_clock_map_identity(&rec->nic_map);
	rec->nic_step_2_32 = 1ll << 32;
	rec->bank = &rec->bank_of[0];
	rec->slow_tsc = UINT64_MAX;
	rec->keep_most_tsc = UINT64_MAX;
	rec->gap_tsc = UINT64_MAX;
}

/* A step is a gap if it takes an eighth of the threshold: shorter ones cannot make a frame slow by
 * themselves, and eight of them in a row would. */
void spw_rec_slow_above(struct spw_rec *rec, uint64_t slow_tsc, uint64_t wait_tsc)
{
	rec->slow_tsc = slow_tsc;
	rec->keep_most_tsc = slow_tsc;
	rec->gap_tsc = slow_tsc / 8;
	rec->wait_tsc = wait_tsc;
}

void spw_rec_quota(struct spw_rec *rec, int fd)
{
	rec->preempt.quota_fd = fd;
	rec_preempt_throttled(&rec->preempt);
}

void spw_rec_exec(struct spw_rec *rec, bool push_calls, uint64_t unc_tsc)
{
	rec->push_calls = push_calls;
	spw_clock_map_identity(&rec->exec_map);
	rec->exec_map.unc = unc_tsc;
	spw_thr_store_rlx(&rec->exec_unc, unc_tsc);
}

void spw_rec_trail(struct spw_rec *rec, struct spw_trail *trail)
{
	rec->trail = trail;
	rec->keep_most_tsc = trail ? rec->slow_tsc / 8 : rec->keep_most_tsc;
}

void spw_rec_gaps_to(struct spw_rec *rec, spw_rec_gap_note *note, void *to)
{
	rec->gap_note = note;
	rec->gap_to = to;
}

/* Begins the count. The gap from tick 0 to now stands for the time before the loop: frames that
 * arrived then waited for it, and are judged like any others. */
void spw_rec_begin(struct spw_rec *rec)
{
	uint64_t now;

	rec_preempt_begin(&rec->preempt);
	now = spw_tsc_now();
	spw_thr_store_rlx(&rec->start_tsc, now);
	spw_thr_store_rlx(&rec->last_tsc, now);
	rec->turn_start_tsc = now;
	rec->empty_tsc = now;
	/* Nobody polled before now: that is a gap. */
	rec->gap[0] = (struct spw_rec_gap){0, now, now, SPW_REGIME_idle_poll, SPW_HOLD_LOST};
	rec->gap_cnt = 1;
}

void spw_rec_end(struct spw_rec *rec)
{
	rec_preempt_end(&rec->preempt);
}

/* Takes the newest map from its box. If the feeder overtakes the read, the old map stays: it is
 * valid, with a larger uncertainty. */
static void clock_update(struct spw_clock_box *box, struct spw_clock_map *map, uint64_t *unc,
			 uint64_t now)
{
	if (!box)
		return;
	spw_clock_box_get(box, map);
	spw_thr_store_rlx(unc, spw_clock_map_unc_at(map, now));
}

/* nic_step_2_32 is the map's slope in 32.32 fixed point: with it spw_rec_nic converts the distance
 * of two NIC stamps by one multiplication. It is read off the map itself, as the image of 2^32 NIC
 * ticks. */
void spw_rec_clocks(struct spw_rec *rec, struct spw_clock_box *exec_box,
		    struct spw_clock_box *nic_box)
{
	uint64_t now = spw_tsc_now();

	clock_update(exec_box, &rec->exec_map, &rec->exec_unc, now);
	clock_update(nic_box, &rec->nic_map, &rec->nic_unc, now);
	rec->nic_step_2_32 =
		(int64_t)(spw_clock_map_ref(&rec->nic_map, rec->nic_map.other_base + (1ull << 32)) -
			  rec->nic_map.ref_base);
}

void spw_rec_flip(struct spw_rec *rec)
{
	uint64_t off;

	if (rec->preempt
		    .word) /* discards small losses, so that a later gap does not include them */
		rec_preempt_check(&rec->preempt, rec->last_tsc, &off);
	rec->bank = &rec->bank_of[spw_hist_flip_follow(&rec->flip)];
}

/* Puts the executor's stamps between polled and reaped, which the same CPU wrote and which are
 * therefore in order:
 *
 *   polled <= exec_start <= exec_end <= reaped
 *
 * Before it clamps, it counts what lies outside by more than the map's uncertainty: a defect of the
 * measurement, which the report shows beside the stage. */
void spw_rec_chain_fix(struct spw_rec *rec, struct spw_rec_stamps *at)
{
	if (at->exec_end < at->exec_start)
		spw_thr_count(&rec->defects[SPW_STAGE_start_end], 1);
	if (at->exec_start + rec->exec_unc < at->polled)
		spw_thr_count(&rec->defects[SPW_STAGE_pushed_start], 1);
	if (at->exec_end > at->reaped + rec->exec_unc)
		spw_thr_count(&rec->defects[SPW_STAGE_end_reaped], 1);
	at->exec_end = SPW_MIN(SPW_MAX(at->exec_end, at->polled), at->reaped);
	at->exec_start = SPW_MIN(SPW_MAX(at->exec_start, at->polled), at->exec_end);
}

/* The time from NIC stamp to poll; 0 if the stamp is later, which is a defect if by more than the
 * uncertainty. */
static uint64_t nic_wait(struct spw_rec *rec, uint64_t nic_stamp, uint64_t polled)
{
	int64_t took = (int64_t)(polled - spw_clock_map_ref(&rec->nic_map, nic_stamp));

	if (took >= 0)
		return (uint64_t)took;
	if ((uint64_t)-took > rec->nic_unc)
		spw_thr_count(&rec->defects[SPW_STAGE_nic_polled], 1);
	return 0;
}

/* For bursts that spw_rec_nic cannot record at once: a frame without a stamp, a stamp after the
 * poll, stamps far apart, a new maximum, or a value beyond the last bucket. */
void spw_rec_nic_odd(const unsigned int flags, struct spw_rec *rec, const struct spw_desc *desc,
		     uint32_t cnt, const struct spw_rec_stamps *at)
{
	struct spw_hist *stage = rec->bank->stage;

	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t wait;

		if (!(desc[i].flags & SPW_DESC_NIC_STAMP))
			continue;
		wait = nic_wait(rec, desc[i].nic_stamp, at->polled);
		spw_hist_record(&stage[SPW_STAGE_nic_polled], wait, 1);
		if (!(flags & SPW_REC_INLINE))
			spw_hist_record(&stage[SPW_STAGE_nic_start],
					wait + at->exec_start - at->polled, 1);
		spw_hist_record(&stage[SPW_STAGE_nic_sent], wait + at->sent - at->polled, 1);
	}
}
