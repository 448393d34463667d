/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>

#include "gen/spw_gen_slow.h"

static struct gen_slow slow, other;

static uint64_t clock_tsc;

/* Each after the one before; a tick is a nanosecond. The sender emptied its port behind_ns before
 * it found the echo. */
static void note(struct gen_slow *to, uint64_t whole_ns, uint64_t late_ns, uint64_t behind_ns)
{
	clock_tsc += 2000000;
	gen_slow_note(to, &(struct gen_worst){.whole_ns = whole_ns,
					      .intended_tsc = clock_tsc - whole_ns,
					      .sent_tsc = clock_tsc - whole_ns + late_ns,
					      .echo_tsc = clock_tsc,
					      .drained_tsc = clock_tsc - behind_ns});
}

static void a_cause_is_the_larger_part(void **state)
{
	(void)state;
	gen_slow_init(&slow, 1000);
	note(&slow, 1001, 501, 1);
	note(&slow, 5000, 2500, 2500);
	note(&slow, 1000, 999, 1); /* not above the threshold */
	note(&slow, 3000, 10, 1501);
	note(&slow, 4000, 2001, 90000); /* an absence before the frame was sent made it late */
	gen_slow_missing(&slow, GEN_CAUSE_lost, 7);
	assert_int_equal(slow.by[GEN_CAUSE_sender_late].frames, 2);
	assert_int_equal(slow.by[GEN_CAUSE_sender_late].worst_ns, 4000);
	assert_int_equal(slow.by[GEN_CAUSE_sender_behind].frames, 1);
	assert_int_equal(slow.by[GEN_CAUSE_sender_behind].worst_ns, 3000);
	assert_int_equal(slow.by[GEN_CAUSE_beyond_sender].frames, 1);
	assert_int_equal(slow.by[GEN_CAUSE_beyond_sender].worst_ns, 5000);
	assert_int_equal(gen_slow_above(&slow), 11);
}

static int falling(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

/* The loop shows only what is above floor_ns: nothing that belongs among the worst may be below it.
 */
static void the_worst_are_kept(void **state)
{
	static uint64_t trip[2][20000], all[40000];
	struct gen_slow *part[2] = {&slow, &other};

	(void)state;
	srand(3);
	for (int p = 0; p < 2; p++) {
		gen_slow_init(part[p], 900000);
		for (uint32_t i = 0; i < 20000; i++) {
			trip[p][i] = all[p * 20000 + (int)i] = (uint64_t)(rand() % 1000000);
			if (trip[p][i] > part[p]->floor_ns)
				note(part[p], trip[p][i], 0, 0);
		}
	}
	gen_slow_merge(&slow, &other);
	gen_slow_sort(&slow);
	qsort(all, 40000, sizeof(all[0]), falling);
	assert_int_equal(slow.worst_cnt, GEN_WORST_MAX);
	for (uint32_t i = 0; i < GEN_WORST_MAX; i++)
		assert_int_equal(slow.worst[i].whole_ns, all[i]);
	assert_int_equal(slow.by[GEN_CAUSE_beyond_sender].worst_ns, all[0]);
	assert_true(all[gen_slow_above(&slow) - 1] > 900000 &&
		    all[gen_slow_above(&slow)] <= 900000);
}

static void note_span(uint64_t from_tsc, uint64_t to_tsc)
{
	gen_slow_note(&slow, &(struct gen_worst){.whole_ns = to_tsc - from_tsc,
						 .intended_tsc = from_tsc,
						 .echo_tsc = to_tsc});
}

static void one_is_kept_of_each_hold_up(void **state)
{
	(void)state;
	gen_slow_init(&slow, 1000);
	for (uint64_t i = 0; i < 500; i++)
		note_span(100000 + i, 200000); /* all wait for one end */
	note_span(500000, 540000);
	note_span(600000, 650000);
	note_span(530000, 610000); /* joins the two before, and is longer than either */
	gen_slow_sort(&slow);
	assert_int_equal(slow.worst_cnt, 2);
	assert_int_equal(slow.worst[0].whole_ns, 100000);
	assert_int_equal(slow.worst[0].like, 499);
	assert_int_equal(slow.worst[1].whole_ns, 80000);
	assert_int_equal(slow.worst[1].like, 2);
	assert_int_equal(gen_slow_above(&slow), 503);
}

static void a_send_time_is_found_or_unknown(void **state)
{
	struct gen_sent sent = {.tsc = calloc(1u << GEN_SENT_LOG2, sizeof(uint64_t))};
	const uint64_t lap = 1u << GEN_SENT_LOG2;

	(void)state;
	gen_sent_note(&sent, 5, 1000);
	sent.made_cnt = 6;
	assert_int_equal(gen_sent_find(&sent, 5, 900), 1000);
	assert_int_equal(gen_sent_find(&sent, 5 + lap, 2000),
			 0); /* made, and not yet written down */
	sent.made_cnt = 5 + lap;
	assert_int_equal(gen_sent_find(&sent, 5, 900), 1000);
	sent.made_cnt = 6 + lap;
	assert_int_equal(gen_sent_find(&sent, 5, 900), 0); /* its place has been given away */
	free(sent.tsc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_cause_is_the_larger_part),
					   cmocka_unit_test(the_worst_are_kept),
					   cmocka_unit_test(one_is_kept_of_each_hold_up),
					   cmocka_unit_test(a_send_time_is_found_or_unknown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
