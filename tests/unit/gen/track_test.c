/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>

#include "gen/spw_gen_track.h"

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

	return gen_track_saw(&track, 0, gen_flow_extend(flow, (uint32_t)seq));
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
	assert_int_equal(saw(5), GEN_SEEN_LATE);      /* just out of the window */
	assert_int_equal(saw(6), GEN_SEEN_REORDERED); /* just inside, and never seen */
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

static void missing_are(const struct gen_range *want, uint32_t cnt)
{
	gen_track_settle(&track);
	assert_int_equal(track.missing_cnt, cnt);
	for (uint32_t i = 0; i < cnt; i++) {
		assert_int_equal(track.missing[i].flow, want[i].flow);
		assert_int_equal(track.missing[i].first, want[i].first);
		assert_int_equal(track.missing[i].last, want[i].last);
	}
}

static void what_is_missing_is_named(void **state)
{
	static const struct gen_range want[] = {
		{0, 2, 3}, {0, 7, 7}, {0, 9000, 9499}, {0, 20000, 20004}, {1, 0, 9}};

	(void)state;
	for (uint64_t s = 0; s < 20000; s++)
		if (s != 2 && s != 3 && s != 7 && s != 30 && !(s >= 9000 && s < 9500))
			saw(s);
	assert_int_equal(saw(30), GEN_SEEN_LATE);
	gen_track_end(&track, 0, 20005);
	gen_track_end(&track, 1, 10);
	missing_are(want, SPW_ARRAY_CNT(want));
	assert_false(track.missing_cut);
}

static void a_long_gap_is_one_range(void **state)
{
	static const struct gen_range want[] = {{0, 1, 99999}, {0, 100001, 100001}};

	(void)state;
	saw(0);
	saw(100000);
	saw(100002);
	gen_track_end(&track, 0, 100003);
	missing_are(want, SPW_ARRAY_CNT(want));
}

/* Loss of every kind, against a table; late ones that fall out of the middle, the front and the end
 * of a range. */
static void random_losses_are_named(void **state)
{
	enum { N = 60000 };
	unsigned char *came = calloc(N, 1), *named = calloc(N, 1);

	(void)state;
	srand(2);
	for (uint64_t s = 0; s < N; s++) {
		if (rand() % 50 == 0)
			s += (uint64_t)(rand() % 9000);
		if (s < N && ++came[s])
			saw(s);
		if (s < N && s > 20000 && rand() % 100 == 0 && !came[s - 19000]++)
			saw(s - 19000);
	}
	gen_track_end(&track, 0, N);
	gen_track_settle(&track);
	for (uint32_t i = 0; i < track.missing_cnt; i++)
		for (uint64_t s = track.missing[i].first; s <= track.missing[i].last; s++)
			named[s]++;
	for (uint64_t s = 0; s < N; s++)
		assert_int_equal(named[s], came[s] == 0);
	free(came);
	free(named);
}

static void a_full_list_says_so(void **state)
{
	(void)state;
	for (uint64_t s = 0; s < 2 * (GEN_MISSING_MAX + GEN_TRACK_WINDOW); s += 2)
		saw(s);
	assert_true(track.missing_cut);
	assert_int_equal(track.missing_cnt, GEN_MISSING_MAX);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {T(in_order),
					   T(each_kind_once),
					   T(a_number_never_sent_is_late),
					   T(sequence_passes_32_bits),
					   T(random_against_a_table),
					   T(what_is_missing_is_named),
					   T(a_long_gap_is_one_range),
					   T(random_losses_are_named),
					   T(a_full_list_says_so)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
