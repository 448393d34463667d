/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The reader's side: adds up what one or several recorders hold. Called by telemetry while the
 * lcores run, and for the summary after they have ended.
 *
 *   recorder   bank 0 (written)   bank 1 (reader's)       counters (sampled live)
 *                                    │ collect: merge, then clear    │ read, relaxed
 *   view                             ├──> total[]  (since start)     ├──> regimes, turns, holds
 *                                    └──> interval[] (since _interval)
 *
 * A bank moves by the flip of hist/spw_hist.h: the reader takes the one that the owner has left,
 * clears it, and asks for the other. The last two banks are taken after the owner has ended. Each
 * sample is therefore in exactly one interval, and total is the sum of all intervals.
 */
#include <stdlib.h>
#include <string.h>

#include "rec/rec_impl.h"

void spw_rec_view_init(struct spw_rec_view *view)
{
	memset(view, 0, sizeof(*view));
}

/* What sums over recorders must start at 0 for each round of spw_rec_collect; totals, causes and
 * the worst batches stay. */
void spw_rec_view_round(struct spw_rec_view *view)
{
	memset(view->regime_tsc, 0, sizeof(view->regime_tsc));
	memset(view->defects, 0, sizeof(view->defects));
	memset(&view->held, 0, sizeof(view->held));
	view->elapsed_tsc = 0;
	view->turns = 0;
	view->turn_max_tsc = 0;
	view->away_cnt = 0;
	view->away_known = true;
	view->exec_unc = 0;
	view->nic_unc = 0;
}

void spw_rec_view_interval(struct spw_rec_view *view)
{
	memset(view->interval, 0, sizeof(view->interval));
	spw_rec_view_round(view);
}

static void view_hold_add(const struct spw_rec_held *from, struct spw_rec_held *sum)
{
	for (uint32_t i = 0; i < SPW_HOLD_CNT; i++) {
		sum->cnt[i] += spw_thr_load_rlx(&from->cnt[i]);
		sum->sum_tsc[i] += spw_thr_load_rlx(&from->sum_tsc[i]);
		sum->max_tsc[i] = SPW_MAX(sum->max_tsc[i], spw_thr_load_rlx(&from->max_tsc[i]));
	}
}

/* Counters run since start and are not cleared: each round of collecting sums them anew over all
 * recorders. */
static void view_counters_add(struct spw_rec *rec, struct spw_rec_view *view)
{
	for (uint32_t i = 0; i < SPW_REGIME_CNT; i++)
		view->regime_tsc[i] += spw_thr_load_rlx(&rec->regime_tsc[i]);
	for (uint32_t i = 0; i < SPW_STAGE_CNT; i++)
		view->defects[i] += spw_thr_load_rlx(&rec->defects[i]);
	view_hold_add(&rec->held, &view->held);
	view->elapsed_tsc += spw_thr_load_rlx(&rec->last_tsc) - spw_thr_load_rlx(&rec->start_tsc);
	view->turns += spw_thr_load_rlx(&rec->turns);
	view->turn_max_tsc = SPW_MAX(view->turn_max_tsc, spw_thr_load_rlx(&rec->turn_max_tsc));
	view->away_cnt += spw_thr_load_rlx(&rec->preempt.cnt);
	view->away_known &= spw_thr_load_rlx(&rec->preempt.word) != NULL;
	view->exec_unc = SPW_MAX(view->exec_unc, spw_thr_load_rlx(&rec->exec_unc));
	view->nic_unc = SPW_MAX(view->nic_unc, spw_thr_load_rlx(&rec->nic_unc));
}

/* For qsort. */
static int view_longer_first(const void *a, const void *b)
{
	uint64_t wa = spw_rec_slow_whole(a), wb = spw_rec_slow_whole(b);

	return (wa < wb) - (wa > wb);
}

/* The list is sorted longest first, but the heap has its shortest at [0]: rebuilds the heap, adds,
 * and sorts again. */
static void view_worst_add(struct spw_rec_view *view, const struct spw_rec_bank *bank)
{
	struct spw_rec_slow heap[SPW_REC_WORST_CNT];
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < view->worst_cnt; i++)
		rec_worst_put(heap, &cnt, &view->worst[i]);
	for (uint32_t i = 0; i < bank->worst_cnt; i++)
		rec_worst_put(heap, &cnt, &bank->worst[i]);
	memcpy(view->worst, heap, cnt * sizeof(heap[0]));
	view->worst_cnt = cnt;
	qsort(view->worst, cnt, sizeof(heap[0]), view_longer_first);
}

/* Takes everything out of a bank that the owner does not write, and leaves it empty for the owner.
 */
static void view_bank_take(struct spw_rec_bank *bank, struct spw_rec_view *view)
{
	for (uint32_t i = 0; i < SPW_STAGE_CNT; i++) {
		spw_hist_merge(&view->total[i], &bank->stage[i]);
		spw_hist_merge(&view->interval[i], &bank->stage[i]);
	}
	for (uint32_t i = 0; i < SPW_CAUSE_CNT; i++) {
		view->causes.frames[i] += bank->causes.frames[i];
		view->causes.worst_tsc[i] =
			SPW_MAX(view->causes.worst_tsc[i], bank->causes.worst_tsc[i]);
	}
	view_worst_add(view, bank);
	memset(bank, 0, sizeof(*bank));
}

/* Never waits for the owner: if the flip asked for last time has not happened, only the counters
 * are read. */
bool spw_rec_collect(struct spw_rec *rec, struct spw_rec_view *view)
{
	uint32_t bank;

	view_counters_add(rec, view);
	if (!spw_hist_flip_ready(&rec->flip, &bank))
		return false;
	view_bank_take(&rec->bank_of[bank], view);
	spw_hist_flip_ask(&rec->flip);
	return true;
}

void spw_rec_collect_rest(struct spw_rec *rec, struct spw_rec_view *view)
{
	view_counters_add(rec, view);
	view_bank_take(&rec->bank_of[0], view);
	view_bank_take(&rec->bank_of[1], view);
}

/* A stage is uncertain only if its two stamps come from different clocks; start_end has one. */
static uint64_t view_stage_unc(const struct spw_rec_view *view, enum spw_stage stage)
{
	switch (stage) {
	case SPW_STAGE_nic_polled:
	case SPW_STAGE_nic_sent:
		return view->nic_unc;
	case SPW_STAGE_nic_start:
		return view->nic_unc + view->exec_unc;
	case SPW_STAGE_pushed_start:
	case SPW_STAGE_end_reaped:
		return view->exec_unc;
	default:
		return 0;
	}
}

void spw_rec_row(const struct spw_rec_view *view, enum spw_stage stage, bool interval,
		 const struct spw_tsc *tsc, uint64_t lost_cnt, struct spw_rec_row *row_out)
{
	const struct spw_hist *hist = interval ? &view->interval[stage] : &view->total[stage];
	struct spw_hist_summary sum;

	spw_hist_summary(hist, lost_cnt, &sum);
	row_out->stage = spw_stage_name(stage);
	row_out->count = sum.count;
	row_out->defects = view->defects[stage];
	row_out->uncertainty_ns = spw_tsc_to_ns(tsc, view_stage_unc(view, stage));
	for (uint32_t i = 0; i < SPW_HIST_POINT_CNT; i++) {
		row_out->value_ns[i] = spw_tsc_to_ns(tsc, sum.value[i]);
		row_out->answer[i] = sum.answer[i];
	}
}
