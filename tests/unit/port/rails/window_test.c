/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The reorder window, frame by frame: what passes, what is parked, what is waited for and how long,
 * and what of it is late or a duplicate.
 */
#include "window_kit.h"

static void in_order_passes(void **state SPW_UNUSED)
{
	start(8, 64);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(came(3, i, 9), RAILS_PASS);
	assert_int_equal(window.stat.parked, 0);
	end();
}

static void a_gap_is_filled(void **state SPW_UNUSED)
{
	start(8, 64);
	assert_int_equal(came(0, 0, 1), RAILS_PASS);
	assert_int_equal(came(0, 2, 1), RAILS_KEPT);
	assert_int_equal(came(0, 4, 1), RAILS_KEPT);
	EXPECT(0);
	assert_int_equal(came(0, 1, 1), RAILS_PASS);
	EXPECT(0, 1, 2);
	assert_int_equal(came(0, 3, 1), RAILS_PASS);
	EXPECT(0, 1, 2, 3, 4);
	assert_int_equal(window.stat.gap, 0);
	end();
}

/* The first frame may have come over the slower rail. */
static void the_first_is_waited_for(void **state SPW_UNUSED)
{
	start(8, 64);
	assert_int_equal(came(0, 1, 1), RAILS_KEPT);
	assert_int_equal(came(0, 0, 1), RAILS_PASS);
	EXPECT(0, 1);
	end();
}

static void who_joins_late_begins_there(void **state SPW_UNUSED)
{
	start(8, 64);
	assert_int_equal(came(0, 5000, 1), RAILS_PASS);
	assert_int_equal(came(0, 5001, 1), RAILS_PASS);
	end();
}

/* While frames are ready, those that come in order queue up behind them. */
static void ready_ones_go_first(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, 1, 1);
	came(0, 0, 1); /* passes; 1 is ready */
	assert_int_equal(came(0, 2, 1), RAILS_KEPT);
	assert_int_equal(came(5, 0, 1), RAILS_KEPT);
	collect();
	assert_int_equal(out_cnt, 4);
	assert_int_equal(RAILS_WORD_SEQ(out[1].word), 1);
	assert_int_equal(RAILS_WORD_SEQ(out[2].word), 2);
	assert_int_equal(out[3].idx, 5);
	assert_int_equal(came(0, 3, 1), RAILS_PASS);
	end();
}

static void numbers_wrap(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, UINT32_MAX - 16, 1);
	for (uint32_t i = 0; i < 32; i++)
		came(0, (UINT32_MAX - 15 + i) ^ 1, 1); /* pairs swapped, across 0 */
	collect();
	assert_int_equal(out_cnt, 33);
	for (uint32_t i = 1; i < 33; i++)
		assert_int_equal(RAILS_WORD_SEQ(out[i].word) - RAILS_WORD_SEQ(out[i - 1].word), 1);
	end();
}

static void a_number_that_never_comes_is_given_up(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, 0, 1);
	came(0, 2, 1);
	window.now_tsc += WAIT_TSC;
	rails_window_expire(&window);
	EXPECT(0);
	window.now_tsc++;
	rails_window_expire(&window);
	EXPECT(0, 2);
	assert_int_equal(window.stat.gap, 1);
	assert_int_equal(window.stat.gap_down, 0);
	assert_int_equal(came(0, 1, 1), RAILS_LATE);
	assert_int_equal(came(0, 2, 1), RAILS_DUPLICATE);
	assert_int_equal(came(0, 0, 1), RAILS_DUPLICATE);
	end();
}

static void expire_at(uint64_t tsc)
{
	window.now_tsc = tsc;
	rails_window_expire(&window);
}

/* Each number is waited for from the frame behind it on, whatever is missing before it. */
static void each_gap_waits(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, 1, 1);
	window.now_tsc = 11;
	came(0, 3, 1);
	came(0, 5, 1);
	window.rail_is_down = true;
	expire_at(1 + WAIT_TSC);
	EXPECT();
	expire_at(2 + WAIT_TSC);
	EXPECT(1);
	expire_at(11 + WAIT_TSC);
	EXPECT(1);
	expire_at(12 + WAIT_TSC);
	EXPECT(1, 3, 5);
	assert_int_equal(window.stat.gap, 3);
	assert_int_equal(window.stat.gap_down, 3);
	end();
}

/* A number of a gap that comes after all leaves the others of the gap their wait. */
static void a_gap_that_fills_slowly_waits_on(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, 3, 1);
	window.now_tsc = WAIT_TSC;
	came(0, 0, 1);
	expire_at(1 + WAIT_TSC);
	EXPECT(0);
	expire_at(2 + WAIT_TSC);
	EXPECT(0, 3);
	assert_int_equal(window.stat.gap, 2);
	end();
}

/* A wait that began behind another one takes its place among those of other flows. */
static void waits_end_in_the_order_of_their_beginning(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, 1, 1);
	window.now_tsc = 5;
	came(0, 3, 1);
	window.now_tsc = 9;
	came(1, 1, 1);
	came(0, 0, 1); /* flow 0 waits for 2 now, since 5 */
	EXPECT(0, 1);
	expire_at(6 + WAIT_TSC);
	EXPECT(0, 1, 3);
	expire_at(10 + WAIT_TSC);
	EXPECT(0, 1, 3, 1);
	end();
}

static void beyond_the_window_the_oldest_is_given_up(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, 0, 1);
	for (uint32_t i = 2; i <= 8; i++)
		assert_int_equal(came(0, i, 1), RAILS_KEPT);
	EXPECT(0);
	assert_int_equal(came(0, 9, 1), RAILS_KEPT); /* 1 does not fit a window that ends at 9 */
	EXPECT(0, 2, 3, 4, 5, 6, 7, 8, 9);
	assert_int_equal(window.stat.gap, 1);
	assert_int_equal(came(0, 30, 1), RAILS_KEPT); /* far beyond: 10 .. 22 at once */
	assert_int_equal(window.stat.gap, 1 + 13);
	assert_int_equal(came(0, 23, 1), RAILS_PASS);
	assert_int_equal(came(0, 22, 1), RAILS_LATE);
	rails_window_flush(&window);
	assert_int_equal(window.stat.gap, 1 + 13 + 6);
	end();
}

static void duplicates_are_found(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, 0, 1);
	came(0, 2, 1);
	assert_int_equal(came(0, 2, 1), RAILS_DUPLICATE);
	assert_int_equal(came(0, 0, 1), RAILS_DUPLICATE);
	came(0, 1, 1);
	assert_int_equal(came(0, 1, 1), RAILS_DUPLICATE);
	EXPECT(0, 1, 2);
	end();
}

/* A damaged number moves nothing; a source that really is there continues it. */
static void a_far_number_must_be_confirmed(void **state SPW_UNUSED)
{
	const uint32_t far = 3 * RAILS_FAR;

	start(8, 64);
	came(0, 0, 1);
	assert_int_equal(came(0, far, 1), RAILS_PASS);
	assert_int_equal(came(0, 1, 1), RAILS_PASS);
	assert_int_equal(window.stat.far, 1);
	assert_int_equal(came(0, far + 1, 1), RAILS_PASS);
	assert_int_equal(came(0, far + 2, 1), RAILS_PASS);
	assert_int_equal(came(0, far + 3, 1), RAILS_PASS);
	assert_int_equal(window.stat.far, 1);
	assert_int_equal(came(0, 2, 1), RAILS_PASS); /* now this one is far */
	assert_int_equal(came(0, 3, 1), RAILS_PASS); /* and confirmed: back again */
	assert_int_equal(came(0, 4, 1), RAILS_PASS);
	assert_int_equal(window.stat.far, 2);
	end();
}

static void a_new_run_begins_anew(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, 0, 1);
	came(0, 2, 1);
	assert_int_equal(came(0, 0, 2), RAILS_KEPT); /* behind 2 of the old run, which is flushed */
	collect();
	assert_int_equal(out_cnt, 3);
	assert_int_equal(RAILS_WORD_RUN(out[1].word), 1);
	assert_int_equal(RAILS_WORD_RUN(out[2].word), 2);
	assert_int_equal(came(0, 1, 2), RAILS_PASS);
	end();
}

/* Rings, and parked frames, are bounded: the longest wait ends. */
static void the_longest_wait_ends_first(void **state SPW_UNUSED)
{
	start(8, 1024);
	for (uint32_t flow = 0; flow <= RAILS_RING_CNT; flow++)
		assert_int_equal(came(flow, 1, 1), RAILS_KEPT);
	collect();
	assert_int_equal(out_cnt, 1);
	assert_int_equal(out[0].idx, 0);
	assert_int_equal(window.waiting, RAILS_RING_CNT);
	rails_window_flush(&window);
	end();

	start(64, 16);
	for (uint32_t seq = 1; seq <= 17; seq++)
		came(seq % 2, 1 + seq / 2, 1);
	assert_true(window.parked_cnt <= 16);
	rails_window_flush(&window);
	collect();
	assert_int_equal(out_cnt, 17);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order_passes),
		cmocka_unit_test(a_gap_is_filled),
		cmocka_unit_test(the_first_is_waited_for),
		cmocka_unit_test(who_joins_late_begins_there),
		cmocka_unit_test(ready_ones_go_first),
		cmocka_unit_test(numbers_wrap),
		cmocka_unit_test(a_number_that_never_comes_is_given_up),
		cmocka_unit_test(each_gap_waits),
		cmocka_unit_test(a_gap_that_fills_slowly_waits_on),
		cmocka_unit_test(waits_end_in_the_order_of_their_beginning),
		cmocka_unit_test(beyond_the_window_the_oldest_is_given_up),
		cmocka_unit_test(duplicates_are_found),
		cmocka_unit_test(a_far_number_must_be_confirmed),
		cmocka_unit_test(a_new_run_begins_anew),
		cmocka_unit_test(the_longest_wait_ends_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
