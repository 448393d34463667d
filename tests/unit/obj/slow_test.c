/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slow objects: each cause from the stamps that prove it, stamps on borders and out of order, and
 * invented ones against a model that hands out tick by tick.
 */
#include "obj/spw_obj_slow.h"
#include "unit_test.h"

/* Parts of 10 ticks each, all known. */
static struct spw_obj_facts facts_of_ten(void)
{
	struct spw_obj_facts f = {.came_known = true, .batch_known = true};

	for (uint64_t p = 0; p <= SPW_OBJ_PART_CNT; p++)
		f.edge[p] = 100 + 10 * p;
	return f;
}

/* Of that cause; all of them sum to the whole. */
static uint64_t ticks_of(const struct spw_obj_facts *f, enum spw_obj_slow cause)
{
	uint64_t ticks[SPW_OBJ_SLOW_CNT], sum = 0;

	spw_obj_slow_split(f, ticks);
	for (int c = 0; c < SPW_OBJ_SLOW_CNT; c++)
		sum += ticks[c];
	assert_int_equal(sum, f->edge[SPW_OBJ_PART_CNT] - f->edge[0]);
	return ticks[cause];
}

/* ---- each cause ---- */

/* The part that is lengthened names the object. */
static void every_part_has_its_cause(void **state)
{
	static const enum spw_obj_slow cause[] = {
		[SPW_OBJ_PART_arrive] = SPW_OBJ_SLOW_sender,
		[SPW_OBJ_PART_port] = SPW_OBJ_SLOW_port,
		[SPW_OBJ_PART_missing] = SPW_OBJ_SLOW_missing,
		[SPW_OBJ_PART_unseen] = SPW_OBJ_SLOW_unexplained,
		[SPW_OBJ_PART_order] = SPW_OBJ_SLOW_order,
		[SPW_OBJ_PART_push] = SPW_OBJ_SLOW_unexplained,
		[SPW_OBJ_PART_wait] = SPW_OBJ_SLOW_exec_late,
		[SPW_OBJ_PART_move] = SPW_OBJ_SLOW_mover,
		[SPW_OBJ_PART_reap] = SPW_OBJ_SLOW_reap_late,
	};

	(void)state;
	for (int p = 0; p < SPW_OBJ_PART_CNT; p++) {
		struct spw_obj_facts f = facts_of_ten();
		uint64_t ticks[SPW_OBJ_SLOW_CNT];

		for (int q = p + 1; q <= SPW_OBJ_PART_CNT; q++)
			f.edge[q] += 500;
		assert_int_equal(spw_obj_slow_split(&f, ticks), cause[p]);
		assert_true(ticks[cause[p]] >= 510 && ticks[cause[p]] <= 520);
	}
}

static void a_gap_of_the_loop_delays_only_what_waits_for_it(void **state)
{
	(void)state;
	for (int p = 0; p < SPW_OBJ_PART_CNT; p++) {
		struct spw_obj_facts f = facts_of_ten();
		const bool proved = p == SPW_OBJ_PART_arrive || p == SPW_OBJ_PART_missing;

		f.away[p] = 7;
		assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_poll_gap), proved ? 0 : 7);
		f.away[p] = 77;
		assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_poll_gap), proved ? 0 : 10);
		f.came_known = false;
		assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_poll_gap),
				 p == SPW_OBJ_PART_missing ? 0 : 10);
	}
}

static void what_no_stamp_proves_is_unexplained(void **state)
{
	struct spw_obj_facts f = facts_of_ten();

	(void)state;
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_unexplained), 20);
	f.came_known = false;
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_unexplained), 30);
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_sender), 0);
	f.batch_known = false;
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_unexplained), 40);
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_reap_late), 0);
	f.port_unknown = 4;
	f.away[SPW_OBJ_PART_port] = 3;
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_port), 3);
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_unexplained), 44);
}

static void the_executor_is_busy_full_or_late(void **state)
{
	struct spw_obj_facts f = facts_of_ten();

	(void)state;
	f.ahead = 6;
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_batch_ahead), 6);
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_exec_late), 4);
	f.filled = true; /* a fill batch waits for room alone */
	assert_int_equal(ticks_of(&f, SPW_OBJ_SLOW_batch_ahead), 16);
}

/* ---- borders ---- */

static void the_first_of_equals_is_named(void **state)
{
	struct spw_obj_facts f = facts_of_ten();
	uint64_t ticks[SPW_OBJ_SLOW_CNT];

	(void)state;
	f.edge[SPW_OBJ_PART_push] = f.edge[SPW_OBJ_PART_wait] = f.edge[SPW_OBJ_PART_order];
	f.edge[SPW_OBJ_PART_unseen] = f.edge[SPW_OBJ_PART_order];
	f.came_known = false;                                     /* arrive is unexplained, too */
	f.edge[SPW_OBJ_PART_missing] = f.edge[SPW_OBJ_PART_port]; /* 20 are missing, 30 not late */
	assert_int_equal(spw_obj_slow_split(&f, ticks), SPW_OBJ_SLOW_missing);
	memset(f.edge, 0, sizeof(f.edge)); /* no time at all */
	assert_int_equal(spw_obj_slow_split(&f, ticks), SPW_OBJ_SLOW_sender);
	assert_int_equal(ticks[SPW_OBJ_SLOW_sender], 0);
}

/* Missing, early and late ones. */
static void edges_do_not_fall(void **state)
{
	struct spw_obj_facts f = {.edge = {100, 90, 150, 0, 140, 150, 900, 0, 160, 200}};
	static const uint64_t want[] = {100, 100, 150, 150, 150, 150, 200, 200, 200, 200};

	(void)state;
	spw_obj_slow_order(&f);
	for (int p = 0; p <= SPW_OBJ_PART_CNT; p++)
		assert_int_equal(f.edge[p], want[p]);
}

/* ---- against a model ---- */

/* The cause of tick number i of a part. */
static enum spw_obj_slow naive(const struct spw_obj_facts *f, int part, uint64_t i)
{
	const bool gaps = part != SPW_OBJ_PART_missing &&
			  !(part == SPW_OBJ_PART_arrive && f->came_known);
	const uint64_t ahead = part == SPW_OBJ_PART_wait ? f->ahead : 0;
	const uint64_t away = ahead + (gaps ? f->away[part] : 0);

	if (i < ahead)
		return SPW_OBJ_SLOW_batch_ahead;
	if (i < away)
		return SPW_OBJ_SLOW_poll_gap;
	if (part == SPW_OBJ_PART_port)
		return i < away + f->port_unknown ? SPW_OBJ_SLOW_unexplained : SPW_OBJ_SLOW_port;
	if (part == SPW_OBJ_PART_arrive && f->came_known)
		return SPW_OBJ_SLOW_sender;
	if (part == SPW_OBJ_PART_missing)
		return SPW_OBJ_SLOW_missing;
	if (part == SPW_OBJ_PART_order)
		return SPW_OBJ_SLOW_order;
	if (part == SPW_OBJ_PART_push && f->filled)
		return SPW_OBJ_SLOW_batch_ahead;
	if (part == SPW_OBJ_PART_wait)
		return SPW_OBJ_SLOW_exec_late;
	if (part == SPW_OBJ_PART_move)
		return SPW_OBJ_SLOW_mover;
	if (part == SPW_OBJ_PART_reap && f->batch_known)
		return SPW_OBJ_SLOW_reap_late;
	return SPW_OBJ_SLOW_unexplained;
}

/* A fifth of the stamps is missing, and neighbours overlap. */
static struct spw_obj_facts facts_random(uint64_t *random)
{
	struct spw_obj_facts f = {.ahead = unit_random(random) % 9,
				  .port_unknown = unit_random(random) % 9,
				  .came_known = unit_random(random) % 2,
				  .batch_known = unit_random(random) % 2,
				  .filled = unit_random(random) % 2};

	for (int p = 0; p <= SPW_OBJ_PART_CNT; p++)
		f.edge[p] = unit_random(random) % 5
				    ? 50 + 5 * (uint64_t)p + unit_random(random) % 20
				    : 0;
	f.edge[SPW_OBJ_PART_CNT] = SPW_MAX(f.edge[SPW_OBJ_PART_CNT], f.edge[0]);
	for (int p = 0; p < SPW_OBJ_PART_CNT; p++)
		f.away[p] = unit_random(random) % 3 ? 0 : unit_random(random) % 9;
	return f;
}

static void invented_stamps_as_the_model_says(void **state)
{
	uint64_t random = 7, seen[SPW_OBJ_SLOW_CNT] = {0};

	(void)state;
	for (int n = 0; n < 20000; n++) {
		struct spw_obj_facts f = facts_random(&random);
		uint64_t ticks[SPW_OBJ_SLOW_CNT], want[SPW_OBJ_SLOW_CNT] = {0}, most = 0;
		enum spw_obj_slow cause;

		spw_obj_slow_order(&f);
		for (int p = 0; p < SPW_OBJ_PART_CNT; p++)
			for (uint64_t t = f.edge[p]; t < f.edge[p + 1]; t++)
				want[naive(&f, p, t - f.edge[p])]++;
		cause = spw_obj_slow_split(&f, ticks);
		assert_memory_equal(ticks, want, sizeof(want));
		for (int c = 0; c < SPW_OBJ_SLOW_CNT; c++)
			most = SPW_MAX(most, want[c]);
		assert_int_equal(want[cause], most);
		seen[cause]++;
	}
	for (int c = 0; c < SPW_OBJ_SLOW_CNT; c++)
		assert_true(c == SPW_OBJ_SLOW_consumer || seen[c] > 10);
}

static void every_cause_has_words(void **state)
{
	(void)state;
	assert_string_equal(spw_obj_slow_name(SPW_OBJ_SLOW_mover), "mover");
	for (int c = 0; c < SPW_OBJ_SLOW_CNT; c++)
		assert_true(strlen(spw_obj_slow_text((enum spw_obj_slow)c)) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_part_has_its_cause),
		cmocka_unit_test(a_gap_of_the_loop_delays_only_what_waits_for_it),
		cmocka_unit_test(what_no_stamp_proves_is_unexplained),
		cmocka_unit_test(the_executor_is_busy_full_or_late),
		cmocka_unit_test(the_first_of_equals_is_named),
		cmocka_unit_test(edges_do_not_fall),
		cmocka_unit_test(invented_stamps_as_the_model_says),
		cmocka_unit_test(every_cause_has_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
