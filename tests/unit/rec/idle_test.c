/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Polls replayed against a fake clock, on a port without NIC stamps: what is assumed of a frame
 * that was polled after a gap of the loop. The replay knows when each frame really came; the
 * recorder does not.
 */
#include "rec/rec_impl.h"
#include "unit_test.h"

#define STEP     100u  /* ticks of a step that is no gap */
#define GAP_MIN  2000u /* of one that is */
#define SLOW     8000u /* the threshold; an eighth of it makes a gap */
#define IN_BURST 4u
#define PORT_MAX 4096u

static struct spw_rec rec;

/* The port: when each frame came, and which were taken. */
static struct {
	uint64_t came[PORT_MAX], now, poll_began;
	uint32_t head, tail;
} port;

static int fresh(void **state)
{
	(void)state;
	spw_rec_init(&rec);
	spw_rec_slow_above(&rec, SLOW, 0);
	port.head = port.tail = 0;
	port.now = rec.last_tsc = rec.empty_tsc = rec.start_tsc = 1000000;
	return 0;
}

static void arrive(uint64_t at)
{
	port.came[port.head++ % PORT_MAX] = at;
}

/* A turn of the loop: the step before the poll, and the one after it. Returns: frames polled. */
static uint32_t turn(uint64_t before, uint64_t after, struct spw_rec_poll *poll_out,
		     uint64_t *oldest_out)
{
	uint32_t cnt = 0;

	port.now += before;
	port.poll_began = port.now;
	for (*oldest_out = port.came[port.tail % PORT_MAX];
	     cnt < IN_BURST && port.tail != port.head; cnt++) {
		if (port.came[port.tail % PORT_MAX] > port.now)
			break;
		port.tail++;
	}
	port.now += after;
	if (cnt) {
		spw_rec_polled_at(SPW_REC_ON, &rec, cnt == IN_BURST, port.now, poll_out);
		spw_rec_mark_at(SPW_REC_ON, &rec, SPW_REGIME_refill, port.now);
	} else {
		spw_rec_empty(SPW_REC_ON, &rec);
		spw_rec_mark_at(SPW_REC_ON, &rec, SPW_REGIME_idle_poll, port.now);
	}
	spw_rec_turn(SPW_REC_ON, &rec);
	return cnt;
}

/* One frame now and then, gaps all the while: a frame waited for the step before its poll at most,
 * never for its sender. */
static void idle_time_is_no_latency(void **state)
{
	struct spw_rec_poll poll = {0};
	uint64_t oldest, seed = 31, longest = 0;

	(void)state;
	for (uint32_t i = 1; i <= 400000; i++) {
		uint64_t before = unit_random(&seed) % 1000 ? STEP
							    : GAP_MIN + unit_random(&seed) % 20000;

		if (i % 20000 == 0)
			arrive(port.now);
		if (!turn(before, STEP, &poll, &oldest))
			continue;
		assert_true(poll.since <=
			    oldest + 2 * STEP); /* without a gap it counts from its poll */
		longest = SPW_MAX(longest, poll.polled - poll.since);
	}
	assert_int_equal(port.tail, 20);
	assert_in_range(longest, 0, GAP_MIN + 20000 + 2 * STEP);
	assert_true(rec.gap_cnt > 300);
}

/* Nothing stamped the frames, so none of their time can be blamed on a NIC that was late. */
static void no_stamp_no_late_port(void **state)
{
	struct spw_rec_poll poll = {0};
	uint64_t oldest, seed = 32, batches = 0;

	(void)state;
	for (uint32_t i = 0; i < 200000; i++) {
		uint64_t before = unit_random(&seed) % 50 ? STEP
							  : GAP_MIN + unit_random(&seed) % 50000;
		uint64_t after = unit_random(&seed) % 50 ? STEP
							 : GAP_MIN + unit_random(&seed) % 50000;
		struct spw_rec_slow *slow;

		for (uint64_t n = unit_random(&seed) % 8; n > 6; n--)
			arrive(port.now + unit_random(&seed) % before);
		if (!turn(before, after, &poll, &oldest))
			continue;
		slow = spw_rec_slow_new(
			&rec,
			&(struct spw_rec_stamps){poll.since, poll.polled, poll.polled, poll.polled,
						 poll.polled, poll.polled, poll.polled},
			&poll);
		assert_int_equal(slow->facts.not_polled, 0);
		spw_rec_slow_judge(&rec, slow);
		assert_int_equal(slow->blame[SPW_CAUSE_port_late], 0);
		assert_in_range(poll.since, rec.start_tsc, poll.polled);
		batches++;
	}
	assert_true(batches > 5000);
}

/* A loop that keeps up works off what a gap left; each frame of the backlog waited for no longer
 * than the recorder reports. */
static void a_backlog_counts_from_its_gap(void **state)
{
	struct spw_rec_poll poll = {0};
	uint64_t oldest, seed = 33, gap_frames = 0;

	(void)state;
	for (uint32_t round = 0; round < 500; round++) {
		uint64_t gap = 20000 + unit_random(&seed) % 20000, from = port.now;

		for (uint64_t at = from + 1; at < from + gap; at += 1000)
			arrive(at);
		for (uint64_t before = gap; port.tail != port.head; before = STEP) {
			assert_true(turn(before, STEP, &poll, &oldest) > 0);
			assert_true(poll.since <= oldest);
			assert_true(poll.since >= from);
			gap_frames++;
		}
		for (uint32_t idle = 0; idle < 20; idle++)
			assert_int_equal(turn(STEP, STEP, &poll, &oldest), 0);
	}
	assert_true(gap_frames > 500 * 5);
}

/* A poll that found the port empty is evidence also in a turn that settled a batch. */
static void an_empty_poll_of_a_busy_turn_counts(void **state)
{
	struct spw_rec_poll poll = {0};

	(void)state;
	spw_rec_mark_at(SPW_REC_ON, &rec, SPW_REGIME_reap, 1000100);
	spw_rec_empty(SPW_REC_ON, &rec);
	spw_rec_mark_at(SPW_REC_ON, &rec, SPW_REGIME_reap, 1000200);
	spw_rec_turn(SPW_REC_ON, &rec);
	spw_rec_polled_at(SPW_REC_ON, &rec, true, 1000300, &poll);
	assert_int_equal(poll.empty, 1000100);
	spw_rec_polled_at(SPW_REC_ON, &rec, false, 1000400, &poll);
	assert_int_equal(poll.empty, 1000100);
	spw_rec_polled_at(SPW_REC_ON, &rec, false, 1000500, &poll);
	assert_int_equal(poll.empty, 1000400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(idle_time_is_no_latency, fresh),
		cmocka_unit_test_setup(no_stamp_no_late_port, fresh),
		cmocka_unit_test_setup(a_backlog_counts_from_its_gap, fresh),
		cmocka_unit_test_setup(an_empty_poll_of_a_busy_turn_counts, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
