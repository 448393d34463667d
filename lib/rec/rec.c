/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The owner's cold side.
 */
#include <string.h>

#include "rec/rec_impl.h"

static const char *const stage_name[SPW_STAGE_CNT] = {
#define X(name, text) #name,
        SPW_STAGE_LIST(X)
#undef X
};

static const char *const regime_name[SPW_REGIME_CNT] = {
#define X(name, text) #name,
        SPW_REGIME_LIST(X)
#undef X
};

const char *spw_stage_name(enum spw_stage stage)
{
	return stage_name[stage];
}

const char *spw_regime_name(enum spw_regime regime)
{
	return regime_name[regime];
}

void spw_rec_init(struct spw_rec *rec)
{
	memset(rec, 0, sizeof(*rec));
	spw_clock_map_identity(&rec->exec_map);
	spw_clock_map_identity(&rec->nic_map);
	rec->bank = &rec->bank_of[0];
}

void spw_rec_begin(struct spw_rec *rec)
{
	uint64_t now = spw_tsc_now();

	spw_thr_store_rlx(&rec->start_tsc, now);
	spw_thr_store_rlx(&rec->last_tsc, now);
	rec->turn_start_tsc = now;
}

static void clock_renew(struct spw_clock_box *box, struct spw_clock_map *map, uint64_t *unc,
                        uint64_t now)
{
	if (!box)
		return;
	spw_clock_box_get(box, map);
	spw_thr_store_rlx(unc, spw_clock_map_unc_at(map, now));
}

void spw_rec_clocks(struct spw_rec *rec, struct spw_clock_box *exec_box,
                    struct spw_clock_box *nic_box)
{
	uint64_t now = spw_tsc_now();

	clock_renew(exec_box, &rec->exec_map, &rec->exec_unc, now);
	clock_renew(nic_box, &rec->nic_map, &rec->nic_unc, now);
}

void spw_rec_flip(struct spw_rec *rec)
{
	rec->bank = &rec->bank_of[spw_hist_flip_obey(&rec->flip)];
}

void spw_rec_order_keep(struct spw_rec *rec, struct spw_rec_stamps *at)
{
	if (at->exec_end < at->exec_start || at->exec_start + rec->exec_unc < at->polled ||
	    at->exec_end > at->reaped + rec->exec_unc)
		spw_thr_count(&rec->out_of_order, 1);
	at->exec_end = SPW_MIN(SPW_MAX(at->exec_end, at->polled), at->reaped);
	at->exec_start = SPW_MIN(SPW_MAX(at->exec_start, at->polled), at->exec_end);
}

static uint64_t whole_of(const struct spw_rec_worst *w)
{
	return w->at.sent - w->at.polled;
}

void rec_worst_put(struct spw_rec_worst *heap, uint32_t *cnt, const struct spw_rec_worst *one)
{
	uint32_t hole, child;

	if (*cnt < SPW_REC_WORST_CNT) { /* grows: up from the end */
		for (hole = (*cnt)++; hole && whole_of(one) < whole_of(&heap[(hole - 1) / 2]);
		     hole = (hole - 1) / 2)
			heap[hole] = heap[(hole - 1) / 2];
		heap[hole] = *one;
		return;
	}
	if (whole_of(one) <= whole_of(&heap[0]))
		return;
	for (hole = 0; (child = 2 * hole + 1) < *cnt;
	     hole = child) { /* full: down from the least */
		if (child + 1 < *cnt && whole_of(&heap[child + 1]) < whole_of(&heap[child]))
			child++;
		if (whole_of(one) <= whole_of(&heap[child]))
			break;
		heap[hole] = heap[child];
	}
	heap[hole] = *one;
}

void spw_rec_worst_take(struct spw_rec *rec, const struct spw_rec_stamps *at, uint64_t seq,
                        uint32_t cnt, uint32_t in_exec_frames)
{
	struct spw_rec_bank *bank = rec->bank;
	struct spw_rec_worst one = {.at = *at,
	                            .seq = seq,
	                            .turn_tsc = rec->turn_tsc,
	                            .cnt = cnt,
	                            .in_exec_frames = in_exec_frames};

	rec_worst_put(bank->worst, &bank->worst_cnt, &one);
	if (bank->worst_cnt == SPW_REC_WORST_CNT)
		bank->worst_floor = whole_of(&bank->worst[0]);
}
