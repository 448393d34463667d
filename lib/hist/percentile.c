/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Percentiles of a histogram that nobody writes to. A percentile is answered by rank, and only if
 * the samples reach that far; lost frames take the highest ranks:
 *
 *   rank   1 ............ in_range ......... total - lost_cnt ....... total
 *          bucket counts           overflow                   lost
 *
 * A percentile of p ppm asks for the value at rank ceil(total * p / 10^6). It is answered only
 * where at least one sample lies above it in expectation, total * (1 - p) >= 1: with 1000 samples
 * p99.9 is the highest that may be printed. The maximum is exact.
 */
#include "hist/spw_hist.h"

__extension__ typedef unsigned __int128 wide;

/* A walk through the buckets in order of value. Calls must ask for ranks in ascending order. */
struct cursor {
	const struct spw_hist *hist;
	uint32_t bucket; /* the next one to add */
	uint64_t below;  /* values in the buckets before it */
};

/* The high end of the bucket that holds the rank: an estimate never flatters. */
static uint64_t percentile_at_rank(struct cursor *cur, uint64_t rank)
{
	while (cur->below < rank)
		cur->below += cur->hist->count[cur->bucket++];
	return SPW_MIN(spw_hist_bucket_high(cur->bucket - 1), cur->hist->max_value);
}

/* in_range: values with a bucket; total: all values, overflow and lost included. */
static enum spw_hist_answer percentile_answer(struct cursor *cur, uint32_t ppm, uint64_t in_range,
					      uint64_t total, uint64_t lost_cnt,
					      uint64_t *value_out)
{
	wide scaled = (wide)total * ppm;
	uint64_t rank = (uint64_t)((scaled + SPW_HIST_PPM - 1) / SPW_HIST_PPM);

	*value_out = 0;
	if (total == 0)
		return SPW_HIST_TOO_FEW;
	if (ppm != 0 && ppm < SPW_HIST_PPM && (wide)total * (SPW_HIST_PPM - ppm) < SPW_HIST_PPM)
		return SPW_HIST_TOO_FEW;
	rank = SPW_MAX(rank, 1u);
	if (rank > total - lost_cnt)
		return SPW_HIST_LOST;
	if (ppm >= SPW_HIST_PPM) {
		*value_out = cur->hist->max_value;
		return SPW_HIST_VALUE;
	}
	if (rank > in_range)
		return SPW_HIST_OVERFLOW;
	*value_out = percentile_at_rank(cur, rank);
	return SPW_HIST_VALUE;
}

enum spw_hist_answer spw_hist_percentile(const struct spw_hist *hist, uint32_t ppm,
					 uint64_t lost_cnt, uint64_t *value_out)
{
	struct cursor cur = {.hist = hist};
	uint64_t total = spw_hist_total(hist);

	return percentile_answer(&cur, ppm, total - hist->overflow, total + lost_cnt, lost_cnt,
				 value_out);
}

#define POINT_ROW(prefix, name, text, ppm) {#name, text, ppm},

static const struct {
	const char *name, *text;
	uint32_t ppm;
} point_table[SPW_HIST_POINT_CNT] = {SPW_HIST_POINT_LIST(POINT_ROW, )};

const char *spw_hist_point_name(enum spw_hist_point point)
{
	return point_table[point].name;
}

const char *spw_hist_point_text(enum spw_hist_point point)
{
	return point_table[point].text;
}

/* Each value counts as the middle of its bucket; overflow has no middle and is left out. */
static double percentile_mean(const struct spw_hist *hist, uint64_t in_range)
{
	double sum = 0;

	for (uint32_t i = 0; i < SPW_HIST_BUCKET_CNT; i++) {
		if (hist->count[i])
			sum += ((double)spw_hist_bucket_low(i) + (double)spw_hist_bucket_high(i)) /
			       2 * (double)hist->count[i];
	}
	return in_range ? sum / (double)in_range : 0;
}

void spw_hist_summary(const struct spw_hist *hist, uint64_t lost_cnt,
		      struct spw_hist_summary *summary_out)
{
	struct cursor cur = {.hist = hist};
	uint64_t total = spw_hist_total(hist), in_range = total - hist->overflow;

	summary_out->count = total;
	for (uint32_t i = 0; i < SPW_HIST_POINT_CNT; i++)
		summary_out->answer[i] = percentile_answer(&cur, point_table[i].ppm, in_range,
							   total + lost_cnt, lost_cnt,
							   &summary_out->value[i]);
	summary_out->mean = percentile_mean(hist, in_range);
}

/* The distance to 100 % shrinks by 2^(1/3) per step, which HdrHistogram's plots draw as equal steps
 * of their axis. Steps that round to the same ppm are skipped; the last row is the maximum. */
uint32_t spw_hist_spectrum(const struct spw_hist *hist, uint64_t lost_cnt,
			   struct spw_hist_step step_out[SPW_HIST_SPECTRUM_MAX])
{
	static const uint32_t third_ppm[] = {1000000, 793701, 629961}; /* 2^-(i / 3) */
	struct cursor cur = {.hist = hist};
	uint64_t total = spw_hist_total(hist), in_range = total - hist->overflow, value;
	enum spw_hist_answer answer = SPW_HIST_VALUE;
	uint32_t cnt = 0, last = SPW_HIST_PPM;

	for (uint32_t i = 0; i < SPW_HIST_SPECTRUM_MAX - 1 && answer == SPW_HIST_VALUE; i++) {
		uint32_t ppm = SPW_HIST_PPM - (third_ppm[i % 3] >> (i / 3));

		if (ppm == last)
			continue;
		last = ppm;
		answer = percentile_answer(&cur, ppm, in_range, total + lost_cnt, lost_cnt, &value);
		if (answer == SPW_HIST_VALUE)
			step_out[cnt++] = (struct spw_hist_step){(double)ppm / 1e4, value};
	}
	answer =
		percentile_answer(&cur, SPW_HIST_PPM, in_range, total + lost_cnt, lost_cnt, &value);
	if (answer == SPW_HIST_VALUE)
		step_out[cnt++] = (struct spw_hist_step){100, value};
	return cnt;
}
