/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cold half of the histogram: bucket bounds, sums and differences of
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
