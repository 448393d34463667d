/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The reorder window against a plain model: a source numbers frames, a wire delays, loses and
 * doubles them as a random sequence says, and what leaves the window must be in the source's order,
 * each number once, with every other frame counted.
 */
#include <stdlib.h>

#include "window_kit.h"

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
		cmocka_unit_test(rails_of_different_delay),
		cmocka_unit_test(rails_that_lose_and_double),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
