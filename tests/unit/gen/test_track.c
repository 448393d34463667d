/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>

#include "gen_track.h"

static struct gen_track track;

static int setup(void **state)
{
	(void)state;
	return gen_track_init(&track, 2);
}

static int teardown(void **state)
{
	(void)state;
	gen_track_fini(&track);
	return 0;
}

static enum gen_seen saw(uint64_t seq)
{
	struct gen_flow *flow = &track.flow[0];

	return gen_flow_saw(flow, gen_flow_extend(flow, (uint32_t)seq));
}

static void in_order(void **state)
{
	(void)state;
	for (uint64_t s = 0; s < 20000; s++)
		assert_int_equal(saw(s), GEN_SEEN_NEW);
	assert_int_equal(track.flow[0].unique, 20000);
	assert_int_equal(track.flow[1].unique, 0);
}

static void each_kind_once(void **state)
{
	struct gen_flow *flow = &track.flow[0];

	(void)state;
	assert_int_equal(saw(0), GEN_SEEN_NEW);
	assert_int_equal(saw(5), GEN_SEEN_NEW);
	assert_int_equal(saw(3), GEN_SEEN_REORDERED);
	assert_int_equal(saw(3), GEN_SEEN_DUPLICATE);
	assert_int_equal(saw(0), GEN_SEEN_DUPLICATE);
	assert_int_equal(saw(5 + GEN_TRACK_WINDOW), GEN_SEEN_NEW);
	assert_int_equal(saw(5), GEN_SEEN_LATE);            /* just out of the window */
	assert_int_equal(saw(6), GEN_SEEN_REORDERED);       /* just inside, and never seen */
	assert_int_equal(flow->unique, 5);
	assert_int_equal(flow->duplicated, 2);
	assert_int_equal(flow->reordered, 2);
	assert_int_equal(flow->late, 1);
}

static void a_number_never_sent_is_late(void **state)
{
	(void)state;
	saw(10);
	assert_int_equal(saw((uint32_t)-3), GEN_SEEN_LATE);
	assert_int_equal(track.flow[0].next_seq, 11);
}

static void sequence_passes_32_bits(void **state)
{
	struct gen_flow *flow = &track.flow[0];

	(void)state;
	flow->next_seq = (1ull << 32) - 2;
	assert_int_equal(saw((1ull << 32) - 2), GEN_SEEN_NEW);
	assert_int_equal(saw((1ull << 32) + 1), GEN_SEEN_NEW);
	assert_int_equal(saw(1ull << 32), GEN_SEEN_REORDERED);
	assert_int_equal(flow->next_seq, (1ull << 32) + 2);
}

/* Against the plain truth: a byte for each number. */
static void random_against_a_table(void **state)
{
	enum { N = 50000 };
	unsigned char *times = calloc(N, 1);
	uint64_t unique = 0, dup = 0;
	uint64_t base = 0;

	(void)state;
	srand(1);
	for (uint32_t i = 0; i < 200000; i++) {
		uint64_t seq = base + (uint64_t)(rand() % 2000);

		base = SPW_MIN(base + (uint64_t)(rand() % 2), (uint64_t)N - 2000);
		if (times[seq]++)
			dup++;
		else
			unique++;
		saw(seq);
	}
	assert_int_equal(track.flow[0].unique, unique);
	assert_int_equal(track.flow[0].duplicated, dup);
	assert_int_equal(track.flow[0].late, 0);
	free(times);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {T(in_order), T(each_kind_once), T(a_number_never_sent_is_late),
					   T(sequence_passes_32_bits), T(random_against_a_table)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
