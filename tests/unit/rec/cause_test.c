/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The verdict as a table, and how the recorder comes by its facts: gaps, empty polls, a core that
 * was taken.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "rec/rec_impl.h"
#include "unit_test.h"

enum {
	PORT = SPW_STAGE_nic_polled,
	PUSH = SPW_STAGE_polled_pushed,
	WAIT = SPW_STAGE_pushed_start,
	RUN = SPW_STAGE_start_end,
	REAP = SPW_STAGE_end_reaped,
	SEND = SPW_STAGE_reaped_sent
};

/* One part of 1000 ticks beside parts of 10, and what is known of it. */
#define LONG(part_, ...)                        \
	{                                       \
		.part[part_] = 990, __VA_ARGS__ \
	}
#define HELD(part_, hold, ticks) .held[part_][SPW_HOLD_##hold] = ticks

static const struct {
	struct spw_cause_facts facts;
	enum spw_cause cause;
} verdicts[] = {
#define X(cause, ...)                          \
	{                                      \
		__VA_ARGS__, SPW_CAUSE_##cause \
	}
	X(port_backlog, LONG(PORT, .sent_tx = true)),
	X(port_late, LONG(PORT, .not_polled = 900)),
	X(port_backlog, LONG(PORT, .not_polled = 100)),
	X(refill_stall, LONG(PORT, .not_polled = 1000, .dry = 800)),
	X(poll_gap, LONG(PORT, .not_polled = 1000, .dry = 1000, HELD(PORT, LOST, 700))),
	X(poll_gap, LONG(PORT, .not_polled = 1000, HELD(PORT, PORT, 700))),
	X(cpu_quota, LONG(PORT, .not_polled = 1000, HELD(PORT, QUOTA, 700))),
	X(cpu_quota, LONG(WAIT, .wait_pause = 1000, HELD(WAIT, QUOTA, 1000))),
	X(cpu_quota, LONG(REAP, HELD(REAP, QUOTA, 900))),
	X(tx_stall, LONG(PORT, HELD(PORT, TX, 700))),
	X(refill_stall, LONG(PORT, HELD(PORT, REFILL, 700))),
	X(batch_ahead, LONG(PORT, HELD(PORT, PUSH, 700), .exec = SPW_CAUSE_EXEC_INLINE)),
	X(exec_late, LONG(PORT, HELD(PORT, PUSH, 700), .exec = SPW_CAUSE_EXEC_LAUNCHED)),
	X(poll_gap, LONG(PUSH, .exec = SPW_CAUSE_EXEC_GPU)),
	X(exec_late, LONG(PUSH, .exec = SPW_CAUSE_EXEC_LAUNCHED)),
	X(poll_gap, LONG(PUSH, HELD(PUSH, LOST, 900), .exec = SPW_CAUSE_EXEC_LAUNCHED)),
	X(exec_late, LONG(WAIT, .exec = SPW_CAUSE_EXEC_GPU)),
	X(batch_ahead, LONG(WAIT, .ahead = 600, .wait_pause = 1000)),
	X(gpu_sliced, LONG(WAIT, .wait_pause = 600, .exec = SPW_CAUSE_EXEC_GPU)),
	X(exec_late, LONG(WAIT, .wait_pause = 600, .exec = SPW_CAUSE_EXEC_POLLS)),
	X(relaunched,
	  LONG(WAIT, .wait_relaunch = true, .wait_pause = 1000, HELD(WAIT, LOST, 1000))),
	X(poll_gap, LONG(WAIT, .wait_pause = 1000, HELD(WAIT, LOST, 1000))), /* both were stopped */
	X(handler_slow, LONG(RUN, .exec = SPW_CAUSE_EXEC_GPU)),
	X(handler_slow,
	  LONG(RUN, HELD(RUN, LOST, 1000), .exec = SPW_CAUSE_EXEC_GPU)), /* the GPU ran on */
	X(poll_gap, LONG(RUN, HELD(RUN, LOST, 1000), .exec = SPW_CAUSE_EXEC_INLINE)),
	X(handler_slow, LONG(RUN, HELD(RUN, PUSH, 1000), .exec = SPW_CAUSE_EXEC_INLINE)),
	X(gpu_sliced, LONG(RUN, .run_pause = 900, .exec = SPW_CAUSE_EXEC_GPU)),
	X(relaunched, LONG(RUN, .run_relaunch = true)),
	X(reap_late, LONG(REAP, .dry = 0)),
	X(reap_late, LONG(REAP, HELD(REAP, PORT, 900))),
	X(poll_gap, LONG(REAP, HELD(REAP, LOST, 900))),
	X(tx_stall, LONG(REAP, HELD(REAP, TX, 900))),
	X(gpu_sliced, LONG(REAP, .reap_pause = 900, .exec = SPW_CAUSE_EXEC_GPU)),
	X(poll_gap, LONG(REAP, .reap_pause = 900, HELD(REAP, LOST, 900))),
	X(batch_ahead, LONG(REAP, .reap_ahead = 900, HELD(REAP, LOST, 900))),
	X(tx_stall, LONG(SEND, .sent_tx = true)),
	X(refill_stall, LONG(SEND, .dry = 0)),
	X(refill_stall, LONG(SEND, .sent_tx = true, HELD(SEND, REFILL, 900))),
	X(poll_gap, LONG(SEND, .sent_tx = true, HELD(SEND, LOST, 900), HELD(SEND, TX, 900))),
#undef X
};

static void each_fact_has_its_verdict(void **state)
{
	bool seen[SPW_CAUSE_CNT] = {false};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(verdicts); i++) {
		struct spw_cause_facts facts = verdicts[i].facts;
		uint64_t ticks[SPW_CAUSE_CNT], sum = 0;
		enum spw_cause cause;

		for (unsigned int p = 0; p < SPW_STAGE_PART_CNT; p++)
			facts.part[p] += 10;
		cause = spw_cause_split(&facts, ticks);
		for (int c = 0; c < SPW_CAUSE_CNT; c++)
			sum += ticks[c];
		assert_int_equal(sum, 1050);
		if (cause != verdicts[i].cause)
			fail_msg("case %zu: %s, expected %s", i, spw_cause_name(cause),
				 spw_cause_name(verdicts[i].cause));
		seen[cause] = true;
	}
	for (int c = 0; c < SPW_CAUSE_CNT; c++)
		assert_true(seen[c]);
}

/* Whatever the facts, even foolish ones, the parts sum to the whole and one cause has the most. */
static void shares_always_sum_to_the_whole(void **state)
{
	uint64_t seed = 41;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		uint64_t ticks[SPW_CAUSE_CNT], sum = 0, whole = 0, bits = unit_random(&seed);
		struct spw_cause_facts f = {.dry = unit_random_log(&seed, 30),
					    .not_polled = unit_random_log(&seed, 30),
					    .ahead = unit_random_log(&seed, 30),
					    .reap_ahead = unit_random_log(&seed, 30),
					    .wait_pause = unit_random_log(&seed, 30),
					    .run_pause = unit_random_log(&seed, 30),
					    .reap_pause = unit_random_log(&seed, 30),
					    .wait_relaunch = bits & 1,
					    .run_relaunch = bits & 2,
					    .sent_tx = bits & 4,
					    .exec = (enum spw_cause_exec)(bits >> 3 & 3)};
		enum spw_cause cause;

		for (unsigned int p = 0; p < SPW_STAGE_PART_CNT; p++) {
			whole += f.part[p] = unit_random_log(&seed, 30);
			for (int h = 0; h < SPW_HOLD_CNT; h++)
				f.held[p][h] = unit_random_log(&seed, 30);
		}
		cause = spw_cause_split(&f, ticks);
		for (int c = 0; c < SPW_CAUSE_CNT; c++) {
			sum += ticks[c];
			assert_true(ticks[c] <= ticks[cause]);
		}
		assert_int_equal(sum, whole);
	}
}

/* ---- the recorder's facts ---- */

static struct spw_rec rec;

static int fresh(void **state)
{
	(void)state;
	spw_rec_init(&rec);
	spw_rec_slow_above(&rec, 8000, 500);
	return 0;
}

/* Gaps fall into the parts that they overlap, by what held the loop; older ones and others' do not
 * count. */
static void gaps_fall_into_parts(void **state)
{
	const struct spw_rec_stamps at = {1000, 2000, 2100, 2200, 3000, 5000, 6000};
	const struct spw_rec_gap gaps[] = {
		{0, 900, 900, SPW_REGIME_rx, SPW_HOLD_PORT},
		{950, 1500, 0, SPW_REGIME_idle_poll, SPW_HOLD_LOST},
		{1600, 1900, 0, SPW_REGIME_rx, SPW_HOLD_PORT},
		{2900, 4000, 550, SPW_REGIME_tx, SPW_HOLD_TX}, /* half of it lost */
		{4900, 5200, 0, SPW_REGIME_refill, SPW_HOLD_REFILL},
		{6500, 7000, 500, SPW_REGIME_rx, SPW_HOLD_PORT}};
	const struct spw_rec_poll poll = {.polled = 2000, .since = 1000, .empty = 1200};
	const struct spw_cause_facts *f;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(gaps); i++)
		rec.gap[rec.gap_cnt++ % SPW_REC_GAP_CNT] = gaps[i];
	f = &spw_rec_slow_new(&rec, &at, &poll)->facts;
	assert_int_equal(f->part[PORT], 1000);
	assert_int_equal(f->part[PUSH], 100);
	assert_int_equal(f->part[WAIT], 100);
	assert_int_equal(f->part[RUN], 800);
	assert_int_equal(f->part[REAP], 2000);
	assert_int_equal(f->part[SEND], 1000);
	assert_int_equal(f->held[PORT][SPW_HOLD_LOST], 500);
	assert_int_equal(f->held[PORT][SPW_HOLD_PORT], 300);
	assert_int_equal(f->held[RUN][SPW_HOLD_TX], 50);
	assert_int_equal(f->held[RUN][SPW_HOLD_LOST], 50);
	assert_int_equal(f->held[REAP][SPW_HOLD_TX], 500);
	assert_int_equal(f->held[REAP][SPW_HOLD_LOST], 500);
	assert_int_equal(f->held[REAP][SPW_HOLD_REFILL], 100);
	assert_int_equal(f->held[SEND][SPW_HOLD_REFILL], 200);
	assert_int_equal(f->held[SEND][SPW_HOLD_LOST], 0);
	assert_int_equal(f->not_polled, 200);
}

static void spin(uint64_t ticks)
{
	uint64_t from = spw_tsc_now();

	while (spw_tsc_now() - from < ticks)
		spw_cpu_relax();
}

/* A long step is a gap of the kind that its regime and the kernel say; what is polled after it may
 * have waited for it. */
static void a_long_step_is_a_gap(void **state)
{
	struct spw_rec_poll poll;
	uint64_t from;

	(void)state;
	spw_rec_slow_above(&rec, 8000000, 500);
	spw_rec_begin(&rec);
	from = spw_rec_mark(SPW_REC_ON, &rec, SPW_REGIME_idle_poll);
	spin(3000000);
	spw_rec_mark(SPW_REC_ON, &rec, SPW_REGIME_tx);
	assert_true(rec.gap_cnt >= 2);
	assert_int_equal(rec.gap[rec.gap_cnt - 1].from, from);
	assert_int_equal(rec.gap[rec.gap_cnt - 1].regime, SPW_REGIME_tx);
	assert_int_equal(rec.gap[rec.gap_cnt - 1].hold, SPW_HOLD_TX);
	spw_rec_polled(SPW_REC_ON, &rec, true, &poll);
	assert_true(poll.polled > poll.since && poll.since >= from);
	spw_rec_polled(SPW_REC_ON, &rec, false, &poll); /* the port is empty now */
	spw_rec_polled(SPW_REC_ON, &rec, true, &poll);
	if (rec.gap[rec.gap_cnt - 1].from == from) /* the machine was kind */
		assert_int_equal(poll.polled, poll.since);
	spw_rec_end(&rec);
}

/* The kernel reports that the core was lost: a thread that sleeps is not on it. */
static void a_taken_core_is_noticed(void **state)
{
	const struct timespec nap = {.tv_nsec = 3000000};
	struct spw_rec_gap *gap;

	(void)state;
	spw_rec_slow_above(&rec, 800000, 500);
	spw_rec_exec(&rec, true, 0);
	spw_rec_begin(&rec);
	if (!rec.preempt.word)
		skip();
	for (int i = 0; i < 5; i++) {
		spw_rec_mark(SPW_REC_ON, &rec, SPW_REGIME_idle_poll);
		nanosleep(&nap, NULL);
		spw_rec_mark(SPW_REC_ON, &rec, SPW_REGIME_push);
		gap = &rec.gap[(rec.gap_cnt - 1) % SPW_REC_GAP_CNT];
		assert_int_equal(gap->regime, SPW_REGIME_push);
		assert_int_equal(gap->hold, SPW_HOLD_PUSH);
		assert_true(gap->lost >= (gap->to - gap->from) / 2);
	}
	assert_true(rec.preempt.cnt >= 5);
	assert_true(rec.held.cnt[SPW_HOLD_LOST] >= 5);
	spw_rec_end(&rec);
}

/* A batch waits for its executor's word, then it is counted once, under one cause. */
static void a_slow_batch_is_counted_once(void **state)
{
	struct spw_rec_view *view = calloc(1, sizeof(*view));
	struct spw_rec_stamps at = {1000, 1000, 1010, 1020, 21000, 21010, 21020};
	struct spw_rec_poll poll = {.polled = 1000, .since = 1000};
	struct spw_rec_slow *slow;

	(void)state;
	assert_non_null(view);
	for (int i = 0; i < 100; i++) {
		assert_true(spw_rec_batch(SPW_REC_ON, &rec, &at, 3));
		slow = spw_rec_slow_new(&rec, &at, &poll);
		slow->above = 3;
		slow->cnt = 3;
		assert_null(spw_rec_slow_due(&rec, at.sent + 499, false));
		assert_ptr_equal(spw_rec_slow_due(&rec, at.sent + 500, false), slow);
		spw_rec_slow_judge(&rec, slow);
		assert_null(spw_rec_slow_due(&rec, at.sent + 10000, true));
	}
	spw_rec_view_init(view);
	spw_rec_collect_rest(&rec, view);
	for (int c = 0; c < SPW_CAUSE_CNT; c++)
		assert_int_equal(view->causes.frames[c], c == SPW_CAUSE_handler_slow ? 300 : 0);
	assert_int_equal(view->causes.worst_tsc[SPW_CAUSE_handler_slow], 20020);
	free(view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fact_has_its_verdict),
		cmocka_unit_test(shares_always_sum_to_the_whole),
		cmocka_unit_test_setup(gaps_fall_into_parts, fresh),
		cmocka_unit_test_setup(a_long_step_is_a_gap, fresh),
		cmocka_unit_test_setup(a_taken_core_is_noticed, fresh),
		cmocka_unit_test_setup(a_slow_batch_is_counted_once, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
