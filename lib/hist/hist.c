/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cold half of the histogram: bucket bounds, the corrected record, sums and differences of
 * whole histograms. The record of the data path is inline in spw_hist.h.
 *
 * Bucket numbers. The high bits of a number are the power of two (exp), the low 7 bits the place
 * within it:
 *
 *   value    0..127   128..255   256..511 (width 2)   512..1023 (width 4)
 *   bucket   0..127   128..255   256..383             384..511
 *   exp      0        0          1                    2
 *
 * Merge and total sample live histograms with relaxed loads; all other functions want one that
 * nobody writes to.
 */
#include <string.h>

#include "hist/spw_hist.h"

uint64_t spw_hist_bucket_low(uint32_t bucket)
{
	uint32_t exp = bucket >> SPW_HIST_SUB_LOG2;

	exp -= exp > 0; /* the first two groups of 128 are the values below 256, one bucket each */
	return (uint64_t)(bucket - (exp << SPW_HIST_SUB_LOG2)) << exp;
}

/* One below the next bucket's low end: buckets have no gaps between them. */
uint64_t spw_hist_bucket_high(uint32_t bucket)
{
	return spw_hist_bucket_low(bucket + 1) - 1;
}

/* Coordinated omission: a closed loop that measured one long value was silent for the frames due
 * meanwhile. With a value v and the interval i between frames it adds v - i, v - 2i, ... down to i,
 * which are the waits of the frames that were not sent. Values that share a bucket are added at
 * once, so the cost is that of the buckets, not of the values. */
void spw_hist_record_corrected(struct spw_hist *hist, uint64_t value, uint64_t n, uint64_t interval)
{
	uint64_t owed;

	spw_hist_record(hist, value, n);
	if (interval == 0 || value < 2 * interval || interval > UINT64_MAX / 2)
		return;
	owed = value - interval;
	if (owed > SPW_HIST_VALUE_MAX) { /* all values in overflow at once */
		uint64_t steps = (owed - SPW_HIST_VALUE_MAX - 1) / interval + 1;

		spw_thr_count(&hist->overflow, steps * n);
		owed -= steps * interval;
	}
	while (owed >= interval) { /* then all values of one bucket at a time */
		uint64_t low = SPW_MAX(spw_hist_bucket_low(spw_hist_bucket(owed)), interval);
		uint64_t steps = (owed - low) / interval + 1;

		spw_thr_count(&hist->count[spw_hist_bucket(owed)], steps * n);
		if (owed < steps * interval)
			break;
		owed -= steps * interval;
	}
}

void spw_hist_merge(struct spw_hist *hist, const struct spw_hist *from)
{
	uint64_t max_value = spw_thr_load_rlx(&from->max_value);

	hist->overflow += spw_thr_load_rlx(&from->overflow);
	hist->max_value = SPW_MAX(hist->max_value, max_value);
	for (uint32_t i = 0; i < SPW_HIST_BUCKET_CNT; i++)
		hist->count[i] += spw_thr_load_rlx(&from->count[i]);
}

/* max_value of a difference is not known exactly: the high end of its last bucket, or the newer
 * maximum if that is smaller. */
void spw_hist_difference(const struct spw_hist *now, const struct spw_hist *before,
			 struct spw_hist *diff_out)
{
	uint32_t last = 0;

	spw_hist_clear(diff_out);
	for (uint32_t i = 0; i < SPW_HIST_BUCKET_CNT; i++) {
		diff_out->count[i] = now->count[i] - before->count[i];
		last = diff_out->count[i] ? i : last;
	}
	diff_out->overflow = now->overflow - before->overflow;
	if (diff_out->overflow)
		diff_out->max_value = now->max_value;
	else if (diff_out->count[last])
		diff_out->max_value = SPW_MIN(spw_hist_bucket_high(last), now->max_value);
}

void spw_hist_clear(struct spw_hist *hist)
{
	memset(hist, 0, sizeof(*hist));
}

uint64_t spw_hist_total(const struct spw_hist *hist)
{
	uint64_t total = spw_thr_load_rlx(&hist->overflow);

	for (uint32_t i = 0; i < SPW_HIST_BUCKET_CNT; i++)
		total += spw_thr_load_rlx(&hist->count[i]);
	return total;
}
