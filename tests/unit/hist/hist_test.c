/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The histogram: buckets, percentiles against a sort, correction for omission, interval flips.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "hist/spw_hist.h"
#include "unit_test.h"

#define SAMPLES 200000u

static struct spw_hist hist, other;

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void buckets_tile_the_range(void **state)
{
	uint64_t next = 0;

	(void)state;
	for (uint32_t i = 0; i < SPW_HIST_BUCKET_CNT; i++) {
		uint64_t low = spw_hist_bucket_low(i), high = spw_hist_bucket_high(i);

		assert_int_equal(low, next);
		assert_true(high >= low);
		assert_int_equal(spw_hist_bucket(low), i);
		assert_int_equal(spw_hist_bucket(high), i);
		assert_true(high - low <= low / 128); /* the value error */
		next = high + 1;
	}
	assert_int_equal(next - 1, SPW_HIST_VALUE_MAX);
}

/* Shapes of load: uniform, log-uniform, a fast mode with a rare slow one, all the same,
 * exponential. */
static uint64_t sample(uint64_t *seed, int shape)
{
	double u = (double)(unit_random(seed) >> 11) / 9007199254740992.0;

	switch (shape) {
	case 0:
		return unit_random(seed) % 100000;
	case 1:
		return unit_random_log(seed, 40);
	case 2:
		return unit_random(seed) % 5000 ? 2000 + unit_random(seed) % 300
						: 1000000 + unit_random(seed) % 9000000;
	case 3:
		return 123456789;
	default:
		return (uint64_t)(-20000.0 * log(1.0 - u));
	}
}

/* Every percentile that is answered, against a sort of the raw samples. */
static void percentiles_agree_with_a_sort(void **state)
{
	static uint64_t raw[SAMPLES];
	static const uint32_t sizes[] = {1, 2, 9, 10, 11, 99, 100, 999, 1000, 9999, 10000, SAMPLES};
	uint64_t seed = 11;

	(void)state;
	for (size_t k = 0; k < 5 * SPW_ARRAY_CNT(sizes); k++) {
		uint32_t n = sizes[k / 5];

		spw_hist_clear(&hist);
		for (uint32_t i = 0; i < n; i++)
			spw_hist_record(&hist, raw[i] = sample(&seed, (int)(k % 5)), 1);
		qsort(raw, n, sizeof(raw[0]), compare_u64);
		assert_int_equal(spw_hist_total(&hist), n);
		for (uint32_t ppm = 0; ppm <= SPW_HIST_PPM; ppm += ppm < 990000 ? 1000 : 1) {
			uint64_t rank = ((uint64_t)n * ppm + 999999) / 1000000, got, want;
			bool reaches = ppm == 0 || ppm == 1000000 ||
				       (uint64_t)n * (1000000 - ppm) >= 1000000;
			enum spw_hist_answer answer;

			if (ppm > 990000 && ppm % 10 && n != SAMPLES)
				continue;
			answer = spw_hist_percentile(&hist, ppm, 0, &got);
			assert_int_equal(answer, reaches ? SPW_HIST_VALUE : SPW_HIST_TOO_FEW);
			want = raw[rank ? rank - 1 : 0];
			if (reaches)
				assert_true(got >= want && got - want <= want / 100);
			if (n == SAMPLES && ppm > 990000)
				ppm += 36; /* enough of them */
		}
	}
}

static void summary_agrees_with_percentile(void **state)
{
	static const uint32_t ppm[] = {0, 500000, 900000, 990000, 999000, 999900, 1000000};
	struct spw_hist_summary sum;
	uint64_t seed = 12, value;

	(void)state;
	spw_hist_clear(&hist);
	for (uint32_t n = 0; n < 20000; n++) {
		if (n % 977 == 0) {
			spw_hist_summary(&hist, n % 3, &sum);
			assert_int_equal(sum.count, n);
			for (int i = 0; i < SPW_HIST_POINT_CNT; i++) {
				assert_int_equal(spw_hist_percentile(&hist, ppm[i], n % 3, &value),
						 sum.answer[i]);
				assert_int_equal(value, sum.value[i]);
			}
		}
		spw_hist_record(&hist, sample(&seed, 4), 1);
	}
	spw_hist_summary(&hist, 0, &sum);
	assert_true(fabs(sum.mean - 20000) < 1000);
	assert_string_equal(spw_hist_point_name(SPW_HIST_POINT_p9999), "p9999");
	assert_string_equal(spw_hist_point_text(SPW_HIST_POINT_p9999), "p99.99");
}

static void a_batch_is_one_record(void **state)
{
	(void)state;
	spw_hist_clear(&hist);
	spw_hist_clear(&other);
	for (uint32_t v = 0; v < 5000; v += 7) {
		spw_hist_record(&hist, v, v % 64);
		for (uint32_t i = 0; i < v % 64; i++)
			spw_hist_record(&other, v, 1);
	}
	other.max_value = hist.max_value; /* the last batch may be empty */
	assert_memory_equal(&hist, &other, sizeof(hist));
}

/* spw_hist_bump_each counts as one record for each value would: for equal values, for values
 * within a power of two, and over the whole range. */
static void values_together_are_values_one_by_one(void **state)
{
	static struct spw_hist one, each;
	uint64_t seed = 31, value[64];

	(void)state;
	for (uint32_t round = 0; round < 3000; round++) {
		uint32_t cnt = 1 + (uint32_t)unit_random(&seed) % 64;
		uint64_t base = unit_random_log(&seed, 38),
			 spread = unit_random_log(&seed, 38) >> unit_random(&seed) % 40;
		uint64_t add = unit_random_log(&seed, 36), least = UINT64_MAX, most = 0;

		for (uint32_t i = 0; i < cnt; i++) {
			value[i] = base + (spread ? unit_random(&seed) % spread : 0);
			least = SPW_MIN(least, value[i]);
			most = SPW_MAX(most, value[i]);
			spw_hist_record(&one, value[i] + add, 1);
		}
		spw_hist_bump_each(&each, value, cnt, add, least, most);
		assert_int_equal(each.max_value, one.max_value);
	}
	assert_int_equal(one.overflow, 0);
	assert_memory_equal(one.count, each.count, sizeof(one.count));
}

/* Volatile: gcc at -O0 warns of the branch that a constant of this size never takes. */
static void the_ends_of_the_range(void **state)
{
	const volatile uint64_t beyond[] = {SPW_HIST_VALUE_MAX + 1, UINT64_MAX};
	uint64_t value;

	(void)state;
	spw_hist_clear(&hist);
	assert_int_equal(spw_hist_percentile(&hist, 0, 0, &value), SPW_HIST_TOO_FEW);
	assert_int_equal(spw_hist_percentile(&hist, 1000000, 0, &value), SPW_HIST_TOO_FEW);
	spw_hist_record(&hist, 0, 1);
	assert_int_equal(spw_hist_percentile(&hist, 1000000, 0, &value), SPW_HIST_VALUE);
	assert_int_equal(value, 0);
	spw_hist_record(&hist, SPW_HIST_VALUE_MAX, 1);
	assert_int_equal(hist.overflow, 0);
	assert_int_equal(hist.count[SPW_HIST_BUCKET_CNT - 1], 1);
	spw_hist_record(&hist, beyond[0], 3);
	spw_hist_record(&hist, beyond[1], 5);
	assert_int_equal(hist.overflow, 8);
	assert_int_equal(spw_hist_total(&hist), 10);
	assert_int_equal(spw_hist_percentile(&hist, 0, 0, &value), SPW_HIST_VALUE);
	assert_int_equal(value, 0);
	assert_int_equal(spw_hist_percentile(&hist, 200000, 0, &value), SPW_HIST_VALUE);
	assert_int_equal(value, SPW_HIST_VALUE_MAX);
	assert_int_equal(spw_hist_percentile(&hist, 500000, 0, &value), SPW_HIST_OVERFLOW);
	assert_int_equal(spw_hist_percentile(&hist, 1000000, 0, &value), SPW_HIST_VALUE);
	assert_true(value == UINT64_MAX); /* the maximum is exact wherever it lies */
}

static void lost_frames_have_no_latency(void **state)
{
	uint64_t value;

	(void)state;
	spw_hist_clear(&hist);
	spw_hist_record(&hist, 100, 990);
	assert_int_equal(spw_hist_percentile(&hist, 990000, 10, &value),
			 SPW_HIST_VALUE); /* rank 990 of 1000 */
	assert_int_equal(spw_hist_percentile(&hist, 990000, 11, &value),
			 SPW_HIST_LOST); /* rank 991 of 1001 */
	assert_int_equal(spw_hist_percentile(&hist, 1000000, 1, &value), SPW_HIST_LOST);
	assert_int_equal(spw_hist_percentile(&hist, 500000, 980, &value), SPW_HIST_VALUE);
	assert_int_equal(spw_hist_percentile(&hist, 500000, 1000, &value), SPW_HIST_LOST);
}

/* Each step agrees with percentile, steps ascend, and the last is the maximum; with lost frames the
 * spectrum ends before them. */
static void a_spectrum_ends_where_the_samples_end(void **state)
{
	struct spw_hist_step step[SPW_HIST_SPECTRUM_MAX];
	uint64_t seed = 31, value;
	uint32_t cnt;

	(void)state;
	spw_hist_clear(&hist);
	assert_int_equal(spw_hist_spectrum(&hist, 0, step), 0);
	for (int i = 0; i < 3000; i++)
		spw_hist_record(&hist, unit_random_log(&seed, 30), 1000);
	cnt = spw_hist_spectrum(&hist, 0, step);
	assert_in_range(cnt, 50, SPW_HIST_SPECTRUM_MAX);
	for (uint32_t i = 0; i < cnt; i++) {
		assert_int_equal(spw_hist_percentile(&hist,
						     (uint32_t)(step[i].percentile * 1e4 + 0.5), 0,
						     &value),
				 SPW_HIST_VALUE);
		assert_int_equal(step[i].value, value);
		assert_true(i == 0 || (step[i].percentile > step[i - 1].percentile &&
				       value >= step[i - 1].value));
	}
	assert_int_equal(step[cnt - 1].value, hist.max_value);
	cnt = spw_hist_spectrum(&hist, 1000000, step); /* a quarter of all is lost */
	assert_in_range(cnt, 2, 9);
	assert_true(step[cnt - 1].percentile <= 75);
}

static void merge_adds(void **state)
{
	uint64_t seed = 14;

	(void)state;
	spw_hist_clear(&hist);
	spw_hist_clear(&other);
	for (int i = 0; i < 1000; i++) {
		spw_hist_record(&hist, unit_random_log(&seed, 42), 2);
		spw_hist_record(&other, unit_random_log(&seed, 42), 3);
	}
	spw_hist_merge(&hist, &other);
	assert_int_equal(spw_hist_total(&hist), 5000);
	assert_true(hist.max_value >= other.max_value && hist.overflow >= other.overflow);
}

/* ---- intervals ---- */

#define FLIP_RECORDS 300000u

static struct {
	struct spw_hist_flip flip;
	struct spw_hist bank[2];
	uint32_t finished SPW_ALIGNED(128);
} live;

static void *flip_writer(void *arg)
{
	uint32_t bank = 0;

	(void)arg;
	for (uint32_t i = 0; i < FLIP_RECORDS; i++) {
		spw_hist_record(&live.bank[bank], i, 1);
		if (i % 64 == 0)
			bank = spw_hist_flip_follow(&live.flip);
	}
	spw_thr_store_rel(&live.finished, 1u);
	return NULL;
}

/* No value is lost, counted twice, or torn while a reader takes one interval after another. */
static void intervals_add_up_to_the_whole(void **state)
{
	uint32_t bank, intervals = 0;
	pthread_t writer;

	(void)state;
	memset(&live, 0, sizeof(live));
	spw_hist_clear(&hist);
	spw_hist_flip_ask(&live.flip);
	assert_int_equal(pthread_create(&writer, NULL, flip_writer, NULL), 0);
	while (!spw_thr_load_acq(&live.finished)) {
		if (!spw_hist_flip_ready(&live.flip, &bank))
			continue;
		spw_hist_merge(&hist, &live.bank[bank]);
		spw_hist_clear(&live.bank[bank]);
		spw_hist_flip_ask(&live.flip);
		spw_hist_flip_ask(&live.flip); /* asking twice is asking once */
		intervals++;
	}
	assert_int_equal(pthread_join(writer, NULL), 0);
	spw_hist_merge(&hist, &live.bank[0]);
	spw_hist_merge(&hist, &live.bank[1]);
	assert_int_equal(spw_hist_total(&hist), FLIP_RECORDS);
	assert_int_equal(hist.max_value, FLIP_RECORDS - 1);
	for (uint32_t v = 0; v < 256; v++)
		assert_int_equal(hist.count[v], 1);
	(void)intervals; /* on one core it may be none */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_tile_the_range),
		cmocka_unit_test(percentiles_agree_with_a_sort),
		cmocka_unit_test(summary_agrees_with_percentile),
		cmocka_unit_test(a_batch_is_one_record),
		cmocka_unit_test(values_together_are_values_one_by_one),
		cmocka_unit_test(the_ends_of_the_range),
		cmocka_unit_test(lost_frames_have_no_latency),
		cmocka_unit_test(a_spectrum_ends_where_the_samples_end),
		cmocka_unit_test(merge_adds),
		cmocka_unit_test(intervals_add_up_to_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
