/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include <stdlib.h>

#include "../unit_test.h"
#include "rec/spw_stamps.h"

static struct spw_stamps_rec *rec;

static int set_up(void **state)
{
	(void)state;
	rec = aligned_alloc(SPW_CACHE_LINE, sizeof(*rec));
	memset(rec, 0, sizeof(*rec));
	rec->slow_tsc = 1000;
	rec->ticks_per_byte = 2;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(rec);
	return 0;
}

/* The stages take a, b, c, d ticks. */
static struct spw_stamps_send send_of(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	return (struct spw_stamps_send){.started = 50,
					.granted = 50 + a,
					.posted = 50 + a + b,
					.acked = 50 + a + b + c,
					.taken = 50 + a + b + c + d};
}

static void expect_split(struct spw_stamps_send s, const uint64_t want[SPW_STAMPS_CAUSE_CNT],
			 enum spw_stamps_cause cause)
{
	uint64_t ticks[SPW_STAMPS_CAUSE_CNT];

	assert_int_equal(spw_stamps_split(&s, ticks), cause);
	assert_memory_equal(ticks, want, sizeof(ticks));
}

static void each_part_has_its_cause(void **state)
{
	struct spw_stamps_send s = send_of(10, 20, 30, 5);

	(void)state;
	expect_split(s, (uint64_t[]){10, 20, 30, 0, 5}, SPW_STAMPS_CAUSE_network);
	s.rail_failed = true;
	expect_split(s, (uint64_t[]){10, 0, 0, 50, 5}, SPW_STAMPS_CAUSE_rail_failed);
	s = send_of(100, 20, 30, 0);
	expect_split(s, (uint64_t[]){100, 20, 30, 0, 0}, SPW_STAMPS_CAUSE_peer_late);
	s = send_of(0, 200, 30, 0);
	expect_split(s, (uint64_t[]){0, 200, 30, 0, 0}, SPW_STAMPS_CAUSE_rails_busy);
}

static void time_without_a_poll_is_taken_from_the_end(void **state)
{
	struct spw_stamps_send s = send_of(10, 20, 30, 5);

	(void)state;
	s.not_polled = 25;
	expect_split(s, (uint64_t[]){10, 20, 10, 0, 25}, SPW_STAMPS_CAUSE_not_polled);
	s.not_polled = 1000; /* it began before the message */
	expect_split(s, (uint64_t[]){0, 0, 0, 0, 65}, SPW_STAMPS_CAUSE_not_polled);
	s.rail_failed = true;
	expect_split(s, (uint64_t[]){0, 0, 0, 50, 15}, SPW_STAMPS_CAUSE_rail_failed);
}

static void causes_sum_to_the_whole(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		struct spw_stamps_send s =
			send_of(unit_random_log(&seed, 30), unit_random_log(&seed, 30),
				unit_random_log(&seed, 30), unit_random_log(&seed, 30));
		uint64_t ticks[SPW_STAMPS_CAUSE_CNT], sum = 0;

		s.not_polled = unit_random_log(&seed, 32);
		s.rail_failed = unit_random(&seed) & 1;
		spw_stamps_split(&s, ticks);
		for (int c = 0; c < SPW_STAMPS_CAUSE_CNT; c++)
			sum += ticks[c];
		assert_int_equal(sum, s.taken - s.started);
	}
}

static void stages_are_counted(void **state)
{
	struct spw_stamps_send s = send_of(10, 20, 30, 5);

	(void)state;
	s.bytes = 4096;
	spw_stamps_send(rec, &s);
	spw_stamps_recv(rec, 5, 105, 106, 77);
	assert_int_equal(rec->send_cnt, 1);
	assert_int_equal(rec->send_bytes, 4096);
	assert_int_equal(rec->recv_cnt, 1);
	assert_int_equal(rec->recv_bytes, 77);
	assert_int_equal(rec->stage[SPW_STAMPS_send_granted].max_value, 10);
	assert_int_equal(rec->stage[SPW_STAMPS_granted_posted].max_value, 20);
	assert_int_equal(rec->stage[SPW_STAMPS_posted_acked].max_value, 30);
	assert_int_equal(rec->stage[SPW_STAMPS_acked_taken].max_value, 5);
	assert_int_equal(rec->stage[SPW_STAMPS_send_taken].max_value, 65);
	assert_int_equal(rec->stage[SPW_STAMPS_recv_arrived].max_value, 100);
	assert_int_equal(rec->stage[SPW_STAMPS_arrived_taken].max_value, 1);
	assert_int_equal(rec->stage[SPW_STAMPS_recv_taken].max_value, 101);
}

static void a_send_is_slow_for_its_size(void **state)
{
	struct spw_stamps_send s = send_of(0, 0, 1001, 0);

	(void)state;
	spw_stamps_send(rec, &s);
	assert_int_equal(rec->cause_cnt[SPW_STAMPS_CAUSE_network], 1);
	assert_int_equal(rec->cause_max[SPW_STAMPS_CAUSE_network], 1001);
	s = send_of(0, 0, 1000, 0);
	spw_stamps_send(rec, &s);
	assert_int_equal(rec->cause_cnt[SPW_STAMPS_CAUSE_network], 1);
	s = send_of(0, 0, 5000, 0);
	s.bytes = 1000; /* 2000 ticks, twice, and 1000 */
	spw_stamps_send(rec, &s);
	assert_int_equal(rec->cause_cnt[SPW_STAMPS_CAUSE_network], 1);
	s.bytes = 999;
	spw_stamps_send(rec, &s);
	assert_int_equal(rec->cause_cnt[SPW_STAMPS_CAUSE_network], 2);
}

static void the_worst_are_kept_in_order(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 40; i++) {
		const struct spw_stamps_send s = send_of(0, 0, 2000 + (i * 7919) % 40, 0);

		spw_stamps_send(rec, &s);
	}
	assert_int_equal(rec->worst_cnt, SPW_STAMPS_WORST_CNT);
	for (uint64_t i = 0; i < SPW_STAMPS_WORST_CNT; i++)
		assert_int_equal(rec->worst[i].send.taken - rec->worst[i].send.started, 2039 - i);
}

int main(void)
{
#define CASE(F) cmocka_unit_test_setup_teardown(F, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(each_part_has_its_cause),     CASE(time_without_a_poll_is_taken_from_the_end),
		CASE(causes_sum_to_the_whole),     CASE(stages_are_counted),
		CASE(a_send_is_slow_for_its_size), CASE(the_worst_are_kept_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
