/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Log-linear histogram of 64-bit values: fixed memory, O(1) record, no division, value error at
 * most 1/128 (0.8 %).
 *
 * Values below 256 have a bucket each; above, every power of two is cut into 128 equal buckets:
 *
 *   value    0 1 2 ... 255   256 .. 511          512 .. 1023         ... 2^40 - 1   2^40 ..
 *   bucket   width 1         128 of width 2      128 of width 4      ...            overflow
 *
 * That is the layout of an HdrHistogram with two significant digits, unit 1 and limit 2^40, so a
 * log export is a copy of the counts. Values of 2^40 and more (7 minutes in 2.6 GHz ticks) are
 * counted in overflow and never lost.
 *
 * Source of the layout: HdrHistogram's description of its buckets (Gil Tene), sub-bucket count 256.
 */
#ifndef SPW_HIST_H
#define SPW_HIST_H

#include "base/spw_enum.h"
#include "base/spw_order.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_HIST_SUB_LOG2   7u  /* 128 buckets per power of two */
#define SPW_HIST_VALUE_LOG2 40u /* values below 2^40 have a bucket */
#define SPW_HIST_VALUE_MAX  ((1ull << SPW_HIST_VALUE_LOG2) - 1)
#define SPW_HIST_BUCKET_CNT \
	((SPW_HIST_VALUE_LOG2 - SPW_HIST_SUB_LOG2 + 1) << SPW_HIST_SUB_LOG2) /* 4352 */

/* One writer; others may sample it at any time. All zero is an empty histogram. */
struct spw_hist {
	uint64_t overflow;  /* values above SPW_HIST_VALUE_MAX */
	uint64_t max_value; /* exact, overflow included */
	uint64_t reserved[6];
	uint64_t count[SPW_HIST_BUCKET_CNT];
} SPW_ALIGNED(SPW_CACHE_LINE);
SPW_ASSERT_OFFSET(struct spw_hist, count, 64);

/* Private: log2 of the bucket width of a value below 2^40. Thread: any; pure. */
SPW_INLINE uint32_t spw_hist_exp(uint64_t value)
{
	return spw_log2_floor64(value | (1u << SPW_HIST_SUB_LOG2)) - SPW_HIST_SUB_LOG2;
}

/* Purpose: the bucket of a value; without a branch.
 * Shape: value 0 .. SPW_HIST_VALUE_MAX.
 * Thread: any.
 */
SPW_INLINE uint32_t spw_hist_bucket(uint64_t value)
{
	uint32_t exp = spw_hist_exp(value);

	return (exp << SPW_HIST_SUB_LOG2) + (uint32_t)(value >> exp);
}

/* Purpose: the lowest and the highest value of a bucket.
 * Shape: bucket 0 .. SPW_HIST_BUCKET_CNT - 1.
 * Thread: any.
 */
uint64_t spw_hist_bucket_low(uint32_t bucket);
uint64_t spw_hist_bucket_high(uint32_t bucket);

/* Purpose: counts value n times (a batch of n frames is one record).
 * Shape: any value; above SPW_HIST_VALUE_MAX it goes to overflow.
 * Thread: owner. Counts are written whole, so another thread may sample a live histogram.
 */
SPW_INLINE void spw_hist_record(struct spw_hist *hist, uint64_t value, uint64_t n)
{
	if (spw_unlikely(value > hist->max_value))
		spw_thr_store_rlx(&hist->max_value, value);
	if (spw_unlikely(value > SPW_HIST_VALUE_MAX)) {
		spw_thr_count(&hist->overflow, n);
		return;
	}
	spw_thr_count(&hist->count[spw_hist_bucket(value)], n);
}

/* Consecutive samples often hit the same bucket, and an increment must wait for the one before it
 * to the same address. So samples are counted in strides: 0, 8, 16 ..., then 1, 9, 17 ... */
#define SPW_HIST_STRIDE 8u

/* Purpose: counts value[i] + add once for each i, and updates max_value. Equal values are one
 *   count; values within one power of two share the search for it.
 * Shape: cnt > 0; least and most are the smallest and the largest of value[]; most + add <=
 *   SPW_HIST_VALUE_MAX.
 * Thread: owner.
 */
SPW_INLINE void spw_hist_bump_each(struct spw_hist *hist, const uint64_t *value, uint32_t cnt,
				   uint64_t add, uint64_t least, uint64_t most)
{
	uint32_t low = spw_hist_exp(least + add);

	if (spw_unlikely(most + add > hist->max_value))
		spw_thr_store_rlx(&hist->max_value, most + add);
	if (least == most)
		spw_thr_count(&hist->count[spw_hist_bucket(most + add)], cnt);
	else if (spw_likely(low == spw_hist_exp(most + add)))
		for (uint32_t s = 0; s < SPW_HIST_STRIDE; s++)
			for (uint32_t i = s; i < cnt; i += SPW_HIST_STRIDE)
				spw_thr_count(&hist->count[(low << SPW_HIST_SUB_LOG2) +
							   ((value[i] + add) >> low)],
					      1);
	else
		for (uint32_t i = 0; i < cnt; i++)
			spw_thr_count(&hist->count[spw_hist_bucket(value[i] + add)], 1);
}

/* Purpose: adds the counts of `from` to hist.
 * Shape: `from` may be live; each of its counts is then as it was when it was read.
 * Thread: owner of hist.
 */
void spw_hist_merge(struct spw_hist *hist, const struct spw_hist *from);

/* Purpose: what was recorded between two copies of one growing histogram: now minus before.
 * max_value is exact if it is also the largest value of `now`, else the top of its bucket.
 * Shape: both are copies; diff_out is neither of them.
 * Thread: any.
 */
void spw_hist_difference(const struct spw_hist *now, const struct spw_hist *before,
			 struct spw_hist *diff_out);

/* Purpose: empties it.
 * Thread: owner, with no reader.
 */
void spw_hist_clear(struct spw_hist *hist);

/* Purpose: the number of recorded values, overflow included. Reads all buckets.
 * Thread: any.
 */
uint64_t spw_hist_total(const struct spw_hist *hist);

/* ---- percentiles ---- */

enum spw_hist_answer {
	SPW_HIST_VALUE,    /* value_out has it */
	SPW_HIST_TOO_FEW,  /* too few samples for that percentile: print nothing */
	SPW_HIST_OVERFLOW, /* its rank lies above SPW_HIST_VALUE_MAX */
	SPW_HIST_LOST,     /* its rank lies among the lost frames: it has no number */
};

#define SPW_HIST_PPM 1000000u /* percentiles are given in parts per million: 999900 is p99.99 */

/* Purpose: the smallest recorded value that at least ppm of all values do not exceed. It is known
 *   to within its bucket: value_out is the top of that bucket, but never above the exact maximum,
 *   so it is too large by 0 .. 1/128.
 * Shape: ppm 0 .. 1000000 (0: the minimum, 1000000: the maximum). lost_cnt values count as larger
 *   than all recorded ones. Minimum and maximum apart, a percentile p is answered only if at least
 *   one sample lies above it: count * (1 - p) >= 1.
 * Returns: whether value_out has the value (else it is 0), and if not, why.
 * Thread: any, on a histogram that nobody writes to.
 */
enum spw_hist_answer spw_hist_percentile(const struct spw_hist *hist, uint32_t ppm,
					 uint64_t lost_cnt, uint64_t *value_out);

/* The percentiles that every table prints. name, what people read, ppm */
#define SPW_HIST_POINT_LIST(X, P)     \
	X(P, min, "min", 0)           \
	X(P, p50, "p50", 500000)      \
	X(P, p90, "p90", 900000)      \
	X(P, p99, "p99", 990000)      \
	X(P, p999, "p99.9", 999000)   \
	X(P, p9999, "p99.99", 999900) \
	X(P, max, "max", 1000000)

enum spw_hist_point { SPW_ENUM(SPW_HIST_POINT) };

/* Purpose: the name in keys: "min", "p50" ... "p9999", "max".
 * Shape: point below SPW_HIST_POINT_CNT.
 * Thread: any.
 */
const char *spw_hist_point_name(enum spw_hist_point point);

/* Purpose: the name above a column: "min", "p50" ... "p99.99", "max".
 * Shape: point below SPW_HIST_POINT_CNT.
 * Thread: any.
 */
const char *spw_hist_point_text(enum spw_hist_point point);

struct spw_hist_summary {
	uint64_t count;                     /* with overflow, without lost */
	uint64_t value[SPW_HIST_POINT_CNT]; /* 0 where answer is not SPW_HIST_VALUE */
	enum spw_hist_answer answer[SPW_HIST_POINT_CNT];
	double mean; /* of the bucket middles; 0 if empty */
};

/* Purpose: all percentiles of SPW_HIST_POINT_LIST in one walk, and the mean.
 * Shape, Thread: as spw_hist_percentile.
 */
void spw_hist_summary(const struct spw_hist *hist, uint64_t lost_cnt,
		      struct spw_hist_summary *summary_out);

/* One step of a percentile spectrum. */
struct spw_hist_step {
	double percentile; /* 0 .. 100 */
	uint64_t value;
};

/* Three steps for each halving of the distance to 100 %, and the maximum. */
#define SPW_HIST_SPECTRUM_MAX 61u

/* Purpose: the percentile curve as HdrHistogram's plots draw it: the nearer to 100 %, the finer.
 * Shape: ends where the samples end. The last step is then the maximum, unless frames were lost,
 *   which are larger than it.
 * Returns: steps written; 0 for an empty histogram.
 * Thread: as spw_hist_percentile.
 */
uint32_t spw_hist_spectrum(const struct spw_hist *hist, uint64_t lost_cnt,
			   struct spw_hist_step step_out[SPW_HIST_SPECTRUM_MAX]);

/* ---- intervals: one writer, one reader, two banks ---- */

/* The writer records into one of two banks; the other is the reader's. To get the bank that is
 * being written, the reader asks for a flip, which the writer performs in its housekeeping:
 *
 *   reader   merges and CLEARS bank 1   ask (H3)                      ready (H4): bank 0 is its own
 *   writer   records into bank 0                  follow (H1, H2): records into bank 1
 *
 * Any number of histograms may follow one flip. All zero is the start: bank 0 is written, bank 1 is
 * empty and the reader's. */
struct spw_hist_flip {
	uint32_t asked SPW_ALIGNED(2 * SPW_CACHE_LINE); /* written by the reader */
	/* Written by the writer; its lowest bit is the bank that it writes to. */
	uint32_t done SPW_ALIGNED(2 * SPW_CACHE_LINE);
};

/* Purpose: performs a flip if one is asked for.
 * Returns: the bank (0 or 1) to write to from now on.
 * Thread: owner (writer), in housekeeping.
 * Order: [H1 acquire: the reader's clearing comes before our records]; [H2 release: our records
 * come before the reader's reads].
 */
SPW_INLINE uint32_t spw_hist_flip_follow(struct spw_hist_flip *flip)
{
	/* [H1 acquire, pairs with H3 in spw_hist_flip_ask] */
	uint32_t asked = spw_thr_load_acq(&flip->asked);

	if (asked != flip->done)
		/* [H2 release, pairs with H4 in spw_hist_flip_ready] */
		spw_thr_store_rel(&flip->done, asked);
	return asked & 1;
}

/* Purpose: asks for the bank that is being written. Does nothing while an earlier flip is pending.
 * Thread: owner (reader).
 */
SPW_INLINE void spw_hist_flip_ask(struct spw_hist_flip *flip)
{
	if (spw_thr_load_acq(&flip->done) == flip->asked)         /* [H4] */
		spw_thr_store_rel(&flip->asked, flip->asked + 1); /* [H3 release, pairs with H1] */
}

/* Purpose: whether the flip has happened; bank_out is then the reader's until it asks again.
 * Thread: owner (reader).
 */
SPW_INLINE bool spw_hist_flip_ready(struct spw_hist_flip *flip, uint32_t *bank_out)
{
	uint32_t done = spw_thr_load_acq(&flip->done); /* [H4 acquire, pairs with H2] */

	*bank_out = (done & 1) ^ 1;
	return done == flip->asked;
}

#ifdef __cplusplus
}
#endif
#endif
