/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The reorder window against a plain model: a source numbers frames, a wire delays, loses and
 * doubles them as a script or a random sequence says, and what leaves the window must be in the
 * source's order, each number once, with every other frame counted. */
#include <stdlib.h>

#include "../../unit_test.h"
#include "port/rails/window.h"

#define SLOT_CNT 4096u
#define WAIT_TSC 1000u

static struct rails_window window;
static uint32_t slot_next;                /* a new slot for every frame, round and round */
static struct rails_tag tag_of[SLOT_CNT]; /* what the frame in a slot is */

static struct rails_tag out[1u << 20]; /* what left the window, in order */
static uint32_t out_cnt, late_cnt, duplicate_cnt;

static void start(uint32_t cnt, uint32_t parked_max)
{
	const struct rails_window_conf conf = {.cnt = cnt,
					       .seq_cnt = 256,
					       .slot_cnt = SLOT_CNT,
					       .parked_max = parked_max,
					       .wait_tsc = WAIT_TSC};

	assert_int_equal(rails_window_init(&window, &conf), 0);
	window.now_tsc = 1;
	slot_next = out_cnt = late_cnt = duplicate_cnt = 0;
}

static void collect(void)
{
	struct spw_desc desc[7];
	uint16_t n;

	while ((n = rails_window_take(&window, desc, SPW_ARRAY_CNT(desc))))
		for (uint16_t i = 0; i < n; i++)
			out[out_cnt++] = tag_of[desc[i].slot];
}

/* One frame comes, as rx.c takes it. */
static enum rails_verdict came(uint32_t idx, uint32_t seq, uint16_t run)
{
	const struct rails_tag tag = {RAILS_WORD(seq, run, 0), .idx = idx};
	const struct spw_desc desc = {.slot = slot_next++ % SLOT_CNT, .len = 64};
	enum rails_verdict verdict = RAILS_PASS;

	tag_of[desc.slot] = tag;
	if (!rails_window_next(&window, &tag))
		verdict = rails_window_put(&window, &tag, &desc);
	if (verdict == RAILS_PASS)
		out[out_cnt++] = tag;
	late_cnt += verdict == RAILS_LATE;
	duplicate_cnt += verdict == RAILS_DUPLICATE;
	return verdict;
}

/* The window is empty, and has nothing of its own left. */
static void end(void)
{
	collect();
	assert_int_equal(window.parked_cnt, 0);
	assert_int_equal(window.waiting, 0);
	assert_int_equal(window.free_cnt, RAILS_RING_CNT);
	rails_window_fini(&window);
}

static void expect_seqs(const uint32_t *seq, uint32_t cnt)
{
	collect();
	assert_int_equal(out_cnt, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(RAILS_WORD_SEQ(out[i].word), seq[i]);
}
#define EXPECT(...)                                  \
	expect_seqs((const uint32_t[]){__VA_ARGS__}, \
		    sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* ---- scripts ---- */

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

/* Each gap has its own wait: it begins when the one before it is over. */
static void each_gap_waits(void **state SPW_UNUSED)
{
	start(8, 64);
	came(0, 1, 1);
	came(0, 3, 1);
	window.rail_is_down = true;
	window.now_tsc += WAIT_TSC + 1;
	rails_window_expire(&window);
	EXPECT(1);
	window.now_tsc += WAIT_TSC + 1;
	rails_window_expire(&window);
	EXPECT(1, 3);
	assert_int_equal(window.stat.gap, 2);
	assert_int_equal(window.stat.gap_down, 2);
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

/* ---- rails with delay, loss and duplicates ---- */

struct wire {
	uint32_t rails, flows, window, parked_max;
	uint32_t delay[4];        /* of a rail, in frames of the source */
	uint32_t jitter;          /* added to each frame's, so that rails reorder themselves */
	uint32_t loss, duplicate; /* one in so many, 0: none */
	uint32_t stops_at;        /* rail 0 takes no frame after so many; 0: never */
};

struct flight {
	uint32_t at, order; /* when it comes; ties as sent */
	uint32_t idx, seq;
};

static int by_time(const void *a, const void *b)
{
	const struct flight *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at) - (x->at < y->at)
			      : (x->order > y->order) - (x->order < y->order);
}

static struct flight flight[1u << 18];

/* Sends `cnt` frames; returns how many come, copies included. */
static uint32_t fly(const struct wire *wire, uint32_t cnt, uint32_t first_seq, uint64_t *random)
{
	static uint32_t seq[256];
	uint32_t n = 0;

	for (uint32_t i = 0; i < 256; i++)
		seq[i] = first_seq;
	for (uint32_t i = 0; i < cnt; i++) {
		const uint32_t r = i % wire->rails,
			       flow = (uint32_t)unit_random(random) % wire->flows;
		const struct flight f = {
			.at = i + wire->delay[r] +
			      (wire->jitter ? (uint32_t)unit_random(random) % wire->jitter : 0),
			.order = n,
			.idx = flow,
			.seq = seq[flow]++};
		const bool lost = (wire->loss && unit_random(random) % wire->loss == 0) ||
				  (wire->stops_at && i > wire->stops_at && r == 0);

		if (!lost)
			flight[n++] = f;
		if (!lost && wire->duplicate && unit_random(random) % wire->duplicate == 0)
			flight[n++] = f;
	}
	qsort(flight, n, sizeof(flight[0]), by_time);
	return n;
}

/* Each flow leaves in order, no number twice; out + late + duplicate is all that came. */
static void judge(uint32_t came_cnt, uint32_t first_seq, bool complete, uint32_t sent)
{
	static uint32_t next[256];
	uint64_t gap = 0;

	for (uint32_t i = 0; i < 256; i++)
		next[i] = first_seq;
	for (uint32_t i = 0; i < out_cnt; i++) {
		const uint32_t step = RAILS_WORD_SEQ(out[i].word) - next[out[i].idx];

		assert_true(step < 1u << 16);
		gap += step;
		next[out[i].idx] = RAILS_WORD_SEQ(out[i].word) + 1;
	}
	assert_int_equal(out_cnt + late_cnt + duplicate_cnt, came_cnt);
	assert_int_equal(window.stat.gap, gap);
	if (complete)
		assert_int_equal(out_cnt, sent);
}

static void run_wire(const struct wire *wire, bool complete, uint64_t seed)
{
	const uint32_t sent = 50000, first_seq = (uint32_t)(seed % 2 ? 0 : UINT32_MAX - 3000);
	uint32_t n;

	start(wire->window, wire->parked_max);
	n = fly(wire, sent, first_seq, &seed);
	for (uint32_t flow = 0; first_seq && flow < wire->flows; flow++)
		came(flow, first_seq - 1, 7); /* joins the source before its numbers count */
	out_cnt = 0;
	for (uint32_t i = 0; i < n; i++) {
		window.now_tsc++;
		rails_window_expire(&window);
		collect();
		came(flight[i].idx, flight[i].seq, 7);
		if (unit_random(&seed) % 3 == 0)
			collect();
	}
	rails_window_flush(&window);
	collect();
	judge(n, first_seq, complete, sent);
	end();
}

/* Nothing is lost and the window holds the skew: the source's order, exactly. */
static void rails_of_different_delay(void **state SPW_UNUSED)
{
	static const struct wire wire[] = {
		{.rails = 2, .flows = 1, .window = 64, .parked_max = 1024, .delay = {0, 40}},
		{.rails = 2, .flows = 16, .window = 64, .parked_max = 1024, .delay = {300, 0}},
		{.rails = 4,
		 .flows = 1,
		 .window = 256,
		 .parked_max = 1024,
		 .delay = {0, 50, 100, 150}},
		{.rails = 3,
		 .flows = 50,
		 .window = 256,
		 .parked_max = 2048,
		 .delay = {7, 0, 90},
		 .jitter = 60},
	};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(wire); i++)
		for (uint64_t seed = 1; seed <= 4; seed++)
			run_wire(&wire[i], true, seed);
}

static void rails_that_lose_and_double(void **state SPW_UNUSED)
{
	static const struct wire wire[] = {
		{.rails = 2,
		 .flows = 8,
		 .window = 64,
		 .parked_max = 1024,
		 .jitter = 30,
		 .loss = 100,
		 .duplicate = 50},
		{.rails = 4,
		 .flows = 1,
		 .window = 16,
		 .parked_max = 8,
		 .delay = {0, 60},
		 .jitter = 30,
		 .loss = 10,
		 .duplicate = 10}, /* the window is shorter than the skew */
		{.rails = 2,
		 .flows = 200,
		 .window = 32,
		 .parked_max = 64,
		 .delay = {0, 900},
		 .jitter = 100,
		 .loss = 30}, /* more flows wait than there are rings */
		{.rails = 2, .flows = 3, .window = 128, .parked_max = 1024, .stops_at = 20000},
	};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(wire); i++)
		for (uint64_t seed = 1; seed <= 4; seed++)
			run_wire(&wire[i], false, seed);
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
		cmocka_unit_test(beyond_the_window_the_oldest_is_given_up),
		cmocka_unit_test(duplicates_are_found),
		cmocka_unit_test(a_far_number_must_be_confirmed),
		cmocka_unit_test(a_new_run_begins_anew),
		cmocka_unit_test(the_longest_wait_ends_first),
		cmocka_unit_test(rails_of_different_delay),
		cmocka_unit_test(rails_that_lose_and_double),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
