/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <pthread.h>
#include <stdlib.h>

#include "rec/rec_impl.h"
#include "unit_test.h"

static struct spw_rec rec, untouched;
static struct spw_rec_view view;

static int fresh(void **state)
{
	(void)state;
	spw_rec_init(&rec);
	spw_rec_view_init(&view);
	return 0;
}

static uint64_t only_value(enum spw_stage stage)
{
	uint64_t value;

	assert_int_equal(spw_hist_percentile(&rec.bank->stage[stage], 0, 0, &value),
			 SPW_HIST_VALUE);
	return value;
}

static uint64_t defects(void)
{
	uint64_t sum = 0;

	for (int s = 0; s < SPW_STAGE_CNT; s++)
		sum += rec.defects[s];
	return sum;
}

static void regimes_sum_to_elapsed(void **state)
{
	uint64_t seed = 21, sum = 0, stamp = 0;

	(void)state;
	spw_rec_begin(&rec);
	for (int i = 0; i < 20000; i++) {
		uint64_t next = spw_rec_mark(
			SPW_REC_ON, &rec, (enum spw_regime)(unit_random(&seed) % SPW_REGIME_CNT));

		assert_true(next >= stamp);
		stamp = next;
		if (i % 5 == 0)
			spw_rec_turn(SPW_REC_ON, &rec);
	}
	spw_rec_collect_rest(&rec, &view);
	for (int i = 0; i < SPW_REGIME_CNT; i++) {
		assert_true(view.regime_tsc[i] > 0);
		sum += view.regime_tsc[i];
	}
	assert_int_equal(sum, view.elapsed_tsc);
	assert_int_equal(sum, stamp - rec.start_tsc);
	assert_int_equal(view.turns, 4000);
	assert_in_range(view.turn_max_tsc, sum / 4000, sum);
}

static void switched_off_it_leaves_no_trace(void **state)
{
	struct spw_rec_stamps stamps = {1, 1, 2, 3, 4, 5, 6};
	struct spw_rec_poll poll = {0};

	(void)state;
	memcpy(&untouched, &rec, sizeof(rec));
	assert_int_equal(spw_rec_mark(0, &rec, SPW_REGIME_rx), 0);
	spw_rec_turn(0, &rec);
	spw_rec_polled(0, &rec, true, &poll);
	assert_false(spw_rec_batch(0, &rec, &stamps, 1));
	assert_memory_equal(&untouched, &rec, sizeof(rec));
}

static void stages_sum_to_the_whole(void **state)
{
	uint64_t seed = 22;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		uint64_t t[6] = {1000000 + unit_random(&seed) % 1000}, sum = 0;
		struct spw_rec_stamps stamps;

		for (int k = 1; k < 6; k++)
			t[k] = t[k - 1] +
			       unit_random(&seed) % 50; /* small values have a bucket each */
		stamps = (struct spw_rec_stamps){t[0], t[0], t[1], t[2], t[3], t[4], t[5]};
		if (i % 3 == 0) /* the executor ran inside push, or before it returned */
			stamps.pushed = t[2] + unit_random(&seed) % (t[4] - t[2] + 1);
		spw_rec_init(&rec);
		spw_rec_batch(SPW_REC_ON, &rec, &stamps, 7);
		for (int s = SPW_STAGE_polled_pushed; s < SPW_STAGE_polled_sent; s++) {
			assert_int_equal(spw_hist_total(&rec.bank->stage[s]), 7);
			sum += only_value((enum spw_stage)s);
		}
		assert_int_equal(sum, only_value(SPW_STAGE_polled_sent));
		assert_int_equal(sum, t[5] - t[0]);
		assert_int_equal(only_value(SPW_STAGE_start_end), t[3] - t[2]);
		assert_int_equal(defects(), 0);
	}
}

static void impossible_stamps_are_counted_and_cut(void **state)
{
	static const struct {
		struct spw_rec_stamps at;
		enum spw_stage defect; /* SPW_STAGE_CNT: none */
	} cases[] = {
		{{1000, 1000, 1010, 1020, 1030, 1040, 1050}, SPW_STAGE_CNT},
		{{1000, 1000, 1010, 991, 1030, 1040, 1050},
		 SPW_STAGE_CNT}, /* within the uncertainty of 10 */
		{{1000, 1000, 1010, 989, 1030, 1040, 1050}, SPW_STAGE_pushed_start},
		{{1000, 1000, 1010, 1020, 1049, 1040, 1050}, SPW_STAGE_CNT}, /* within */
		{{1000, 1000, 1010, 1020, 1051, 1040, 1050}, SPW_STAGE_end_reaped},
		{{1000, 1000, 1010, 1030, 1020, 1040, 1050}, SPW_STAGE_start_end},
		{{1000, 1000, 1010, 5000, 6000, 1040, 1050}, SPW_STAGE_end_reaped},
		{{1000, 1000, 1010, 10, 20, 1040, 1050}, SPW_STAGE_pushed_start},
	};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++) {
		struct spw_rec_stamps at = cases[i].at;
		uint64_t sum = 0;

		spw_rec_init(&rec);
		rec.exec_unc = 10;
		spw_rec_batch(SPW_REC_ON, &rec, &at, 1);
		for (int s = 0; s < SPW_STAGE_CNT; s++)
			assert_int_equal(rec.defects[s], s == (int)cases[i].defect);
		for (int s = SPW_STAGE_polled_pushed; s < SPW_STAGE_polled_sent; s++)
			sum += only_value((enum spw_stage)s);
		assert_int_equal(sum, 50);
	}
}

/* A foreign executor clock and a foreign NIC clock: the first six stages sum to nic_sent. */
static void foreign_stamps_are_translated(void **state)
{
	static struct spw_clock_box exec_box, nic_box;
	struct spw_clock_map map = {.other_base = 500, .ref_base = 1010, .unc = 3};
	const struct spw_desc early = {.nic_stamp = 90, .flags = SPW_DESC_NIC_STAMP},
			      late = {.nic_stamp = 101, .flags = SPW_DESC_NIC_STAMP};
	struct spw_rec_stamps at = {1000, 1000, 1005, 501, 504, 1060, 1070};
	uint64_t sum = 0;

	(void)state;
	assert_int_equal(spw_time_scale_make(1000000, 10000000, &map.scale),
			 0); /* one of its ticks is ten of ours */
	spw_clock_box_put(&exec_box, &map);
	spw_rec_clocks(&rec, &exec_box, &nic_box); /* the NIC's box is empty: its map stays */
	assert_int_equal(rec.exec_unc, 3);
	spw_rec_batch(SPW_REC_ON | SPW_REC_EXEC_CLOCK, &rec, &at, 1);
	assert_int_equal(only_value(SPW_STAGE_pushed_start), 15);
	assert_int_equal(only_value(SPW_STAGE_start_end), 30);
	assert_int_equal(only_value(SPW_STAGE_end_reaped), 10);
	map = (struct spw_clock_map){
		.other_base = 90, .ref_base = 900, .unc = 5, .scale = map.scale};
	spw_clock_box_put(&nic_box, &map);
	spw_rec_clocks(&rec, &exec_box, &nic_box);
	assert_int_equal(rec.nic_unc, 5);
	spw_rec_nic(SPW_REC_ON, &rec, &early, 1, &at);
	assert_int_equal(only_value(SPW_STAGE_nic_polled), 100);
	assert_int_equal(only_value(SPW_STAGE_nic_start), 120);
	assert_int_equal(only_value(SPW_STAGE_nic_sent), 170);
	for (int s = SPW_STAGE_nic_polled; s <= SPW_STAGE_reaped_sent; s++)
		sum += only_value((enum spw_stage)s);
	assert_int_equal(sum, 170);
	assert_int_equal(spw_rec_nic_since(&rec, 98, 1000), 985); /* 980, and the uncertainty */
	assert_int_equal(spw_rec_nic_since(&rec, 100, 1000), 1000);
	assert_int_equal(spw_rec_nic_since(&rec, 101, 1000), 1000);
	spw_rec_nic(SPW_REC_ON, &rec, &late, 1, &at); /* ten ticks after it was polled */
	assert_int_equal(rec.defects[SPW_STAGE_nic_polled], 1);
	rec.nic_unc = 10;
	spw_rec_nic(SPW_REC_ON, &rec, &late, 1, &at);
	assert_int_equal(rec.defects[SPW_STAGE_nic_polled], 1);
	assert_int_equal(only_value(SPW_STAGE_nic_polled), 0);
}

/* Frames of one batch are bridged from the first; near, far, before and after it, each comes out as
 * if alone. */
static void frames_of_a_batch_agree_with_the_map(void **state)
{
	const struct spw_rec_stamps at = {0,          1ull << 40, 1ull << 40, 1ull << 40,
					  1ull << 40, 1ull << 40, 1ull << 40};
	struct spw_clock_map map = {.other_base = 1ull << 36, .ref_base = 1ull << 40};
	static struct spw_clock_box box;
	uint64_t seed = 25;

	(void)state;
	assert_int_equal(spw_time_scale_make(156250000, 2596123457, &map.scale), 0);
	spw_clock_box_put(&box, &map);
	spw_rec_clocks(&rec, NULL, &box);
	for (int round = 0; round < 2000; round++) {
		uint64_t wait[64], sum = 0, seen;
		struct spw_desc desc[64];

		spw_hist_clear(&rec.bank->stage[SPW_STAGE_nic_polled]);
		for (int i = 0; i < 64; i++) {
			desc[i] = (struct spw_desc){.nic_stamp = map.other_base -
								 unit_random_log(&seed, 32),
						    .flags = SPW_DESC_NIC_STAMP};
			wait[i] = at.polled - spw_clock_map_ref(&map, desc[i].nic_stamp);
		}
		spw_rec_nic(SPW_REC_ON, &rec, desc, 64, &at);
		for (int i = 0; i < 64;
		     i++) { /* a tick of rounding may move it to the next bucket */
			const struct spw_hist *hist = &rec.bank->stage[SPW_STAGE_nic_polled];

			seen = hist->count[spw_hist_bucket(wait[i])] +
			       hist->count[spw_hist_bucket(wait[i] + 1)] +
			       hist->count[spw_hist_bucket(wait[i] ? wait[i] - 1 : 0)];
			assert_true(seen > 0);
			sum += 1;
		}
		assert_int_equal(spw_hist_total(&rec.bank->stage[SPW_STAGE_nic_polled]), sum);
		assert_int_equal(rec.defects[SPW_STAGE_nic_polled], 0);
	}
}

/* Push ran the batch from the poll on: what has no length is not recorded, the rest sums to the
 * whole. */
static void an_inline_batch_has_two_stages(void **state)
{
	static struct spw_clock_box box;
	struct spw_rec_stamps at = {100, 100, 150, 100, 150, 150, 170};
	const struct spw_clock_map map = {.other_base = 90, .ref_base = 90};
	const struct spw_desc desc = {.nic_stamp = 90, .flags = SPW_DESC_NIC_STAMP};
	uint64_t frames = 0;

	(void)state;
	spw_clock_box_put(&box, &map);
	spw_rec_clocks(&rec, NULL, &box);
	spw_rec_batch(SPW_REC_ON | SPW_REC_INLINE, &rec, &at, 3);
	spw_rec_nic(SPW_REC_ON | SPW_REC_INLINE, &rec, &desc, 1, &at);
	assert_int_equal(only_value(SPW_STAGE_start_end), 50);
	assert_int_equal(only_value(SPW_STAGE_reaped_sent), 20);
	assert_int_equal(only_value(SPW_STAGE_polled_sent), 70);
	assert_int_equal(spw_hist_total(&rec.bank->stage[SPW_STAGE_nic_sent]), 1);
	for (int s = 0; s < SPW_STAGE_CNT; s++)
		frames += spw_hist_total(&rec.bank->stage[s]);
	assert_int_equal(frames, 3 * 3 + 2); /* three stages of three frames, and of one frame
						nic_polled and nic_sent */
	assert_int_equal(defects(), 0);
}

static int longest_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

#define WORST_BATCHES 5000u

static void the_worst_are_kept_whole(void **state)
{
	static uint64_t whole[WORST_BATCHES];
	uint64_t seed = 23, looked = 0;

	(void)state;
	for (uint32_t i = 0; i < WORST_BATCHES; i++) {
		uint64_t took = unit_random_log(&seed, 30);
		struct spw_rec_stamps at = {i, i, i, i, i, i, i + took};
		struct spw_rec_poll poll = {.turn = 3 * took};

		whole[i] = took;
		if (spw_rec_batch(SPW_REC_ON, &rec, &at, i % 64)) {
			struct spw_rec_slow *slow = spw_rec_slow_new(&rec, &at, &poll);

			slow->seq = i;
			slow->cnt = i % 64;
			spw_rec_slow_judge(&rec, spw_rec_slow_due(&rec, at.sent, true));
			looked++;
		}
		if (i % 1000 == 999) {
			spw_rec_collect(&rec, &view);
			spw_rec_flip(&rec);
		}
	}
	spw_rec_collect_rest(&rec, &view);
	qsort(whole, WORST_BATCHES, sizeof(whole[0]), longest_first);
	assert_int_equal(view.worst_cnt, SPW_REC_WORST_CNT);
	for (uint32_t i = 0; i < SPW_REC_WORST_CNT; i++) {
		const struct spw_rec_slow *w = &view.worst[i];
		uint64_t sum = 0;

		for (int c = 0; c < SPW_CAUSE_CNT; c++)
			sum += w->blame[c];
		assert_int_equal(sum, whole[i]);
		assert_int_equal(spw_rec_slow_whole(w), whole[i]);
		assert_int_equal(w->at.polled, w->seq);
		assert_int_equal(w->cnt, w->seq % 64);
		assert_int_equal(w->poll.turn, 3 * whole[i]);
	}
	assert_true(looked < WORST_BATCHES / 10); /* the floor rises over all intervals */
	assert_int_equal(spw_hist_total(&view.total[SPW_STAGE_polled_sent]),
			 WORST_BATCHES / 64 * 2016 + 28);
}

static void rows_speak_nanoseconds(void **state)
{
	struct spw_rec_row row;
	struct spw_tsc tsc;

	(void)state;
	assert_int_equal(spw_time_scale_make(2000000000, 1000000000, &tsc.to_ns), 0);
	spw_rec_row(&view, SPW_STAGE_end_reaped, false, &tsc, 0, &row);
	assert_int_equal(row.count, 0);
	assert_int_equal(row.answer[SPW_HIST_POINT_p50], SPW_HIST_TOO_FEW);
	rec.exec_unc = 200;
	spw_rec_batch(SPW_REC_ON, &rec, &(struct spw_rec_stamps){0, 0, 0, 0, 0, 100, 100}, 20);
	spw_rec_collect_rest(&rec, &view);
	spw_rec_row(&view, SPW_STAGE_end_reaped, false, &tsc, 0, &row);
	assert_string_equal(row.stage, "end_reaped");
	assert_int_equal(row.count, 20);
	assert_int_equal(row.value_ns[SPW_HIST_POINT_p50], 50);
	assert_int_equal(row.value_ns[SPW_HIST_POINT_max], 50);
	assert_int_equal(row.answer[SPW_HIST_POINT_p99], SPW_HIST_TOO_FEW);
	assert_int_equal(row.uncertainty_ns, 100);
	spw_rec_row(&view, SPW_STAGE_start_end, false, &tsc, 0, &row);
	assert_int_equal(row.uncertainty_ns, 0);
	spw_rec_row(&view, SPW_STAGE_polled_sent, true, &tsc, 100, &row);
	assert_int_equal(row.answer[SPW_HIST_POINT_p50], SPW_HIST_LOST);
	spw_rec_view_interval(&view);
	spw_rec_row(&view, SPW_STAGE_polled_sent, true, &tsc, 0, &row);
	assert_int_equal(row.count, 0);
	spw_rec_row(&view, SPW_STAGE_polled_sent, false, &tsc, 0, &row);
	assert_int_equal(row.count, 20);
}

/* ---- an owner and a reader ---- */

#define LIVE_TURNS 40000u

static uint32_t live_done;

static void *live_owner(void *arg)
{
	struct spw_rec_slow *slow;
	uint64_t seed = 24;

	(void)arg;
	spw_rec_begin(&rec);
	for (uint32_t i = 0; i < LIVE_TURNS; i++) {
		struct spw_rec_stamps at;

		at.since = at.polled = spw_rec_mark(SPW_REC_ON, &rec, SPW_REGIME_rx);
		at.pushed = at.exec_start = at.exec_end =
			spw_rec_mark(SPW_REC_ON, &rec, SPW_REGIME_push);
		at.reaped = spw_rec_mark(SPW_REC_ON, &rec, SPW_REGIME_reap);
		at.sent = spw_rec_mark(SPW_REC_ON, &rec, SPW_REGIME_refill);
		if (spw_rec_batch(SPW_REC_ON, &rec, &at, 3)) {
			if (spw_rec_slow_full(&rec))
				spw_rec_slow_judge(&rec, spw_rec_slow_due(&rec, at.sent, true));
			spw_rec_slow_new(&rec, &at, &(struct spw_rec_poll){0})->above = 3;
		}
		spw_rec_turn(SPW_REC_ON, &rec);
		if (unit_random(&seed) % 16 == 0) {
			spw_rec_flip(&rec);
			spw_rec_mark(SPW_REC_ON, &rec, SPW_REGIME_housekeeping);
		}
	}
	while ((slow = spw_rec_slow_due(&rec, 0, true)))
		spw_rec_slow_judge(&rec, slow);
	spw_rec_end(&rec);
	spw_thr_store_rel(&live_done, 1u);
	return NULL;
}

static void a_reader_loses_nothing(void **state)
{
	uint64_t intervals = 0, sum = 0;
	pthread_t owner;

	(void)state;
	spw_thr_store_rel(&live_done, 0u);
	assert_int_equal(pthread_create(&owner, NULL, live_owner, NULL), 0);
	while (!spw_thr_load_acq(&live_done)) {
		spw_rec_view_interval(&view);
		if (spw_rec_collect(&rec, &view))
			intervals += spw_hist_total(&view.interval[SPW_STAGE_polled_sent]);
	}
	assert_int_equal(pthread_join(owner, NULL), 0);
	spw_rec_view_interval(&view);
	spw_rec_collect_rest(&rec, &view);
	intervals += spw_hist_total(&view.interval[SPW_STAGE_polled_sent]);
	assert_int_equal(intervals, 3 * LIVE_TURNS);
	for (int s = SPW_STAGE_polled_pushed; s <= SPW_STAGE_polled_sent; s++)
		assert_int_equal(spw_hist_total(&view.total[s]), 3 * LIVE_TURNS);
	for (int i = 0; i < SPW_REGIME_CNT; i++)
		sum += view.regime_tsc[i];
	assert_int_equal(sum, view.elapsed_tsc);
	assert_int_equal(view.worst_cnt, SPW_REC_WORST_CNT);
	assert_int_equal(view.turns, LIVE_TURNS);
}

static void names_are_those_of_the_tables(void **state)
{
	(void)state;
	assert_string_equal(spw_stage_name(SPW_STAGE_nic_polled), "nic_polled");
	assert_string_equal(spw_stage_name(SPW_STAGE_polled_sent), "polled_sent");
	assert_string_equal(spw_stage_name(SPW_STAGE_nic_sent), "nic_sent");
	assert_string_equal(spw_regime_name(SPW_REGIME_idle_poll), "idle_poll");
	assert_string_equal(spw_regime_name(SPW_REGIME_housekeeping), "housekeeping");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(regimes_sum_to_elapsed, fresh),
		cmocka_unit_test_setup(switched_off_it_leaves_no_trace, fresh),
		cmocka_unit_test_setup(stages_sum_to_the_whole, fresh),
		cmocka_unit_test_setup(impossible_stamps_are_counted_and_cut, fresh),
		cmocka_unit_test_setup(foreign_stamps_are_translated, fresh),
		cmocka_unit_test_setup(frames_of_a_batch_agree_with_the_map, fresh),
		cmocka_unit_test_setup(an_inline_batch_has_two_stages, fresh),
		cmocka_unit_test_setup(the_worst_are_kept_whole, fresh),
		cmocka_unit_test_setup(rows_speak_nanoseconds, fresh),
		cmocka_unit_test_setup(a_reader_loses_nothing, fresh),
		cmocka_unit_test(names_are_those_of_the_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
