/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The wait for another rank, by a clock that is moved by hand.
 */
#include "coll/wait.h"
#include "unit_test.h"

#define WAIT 1000u
#define STEP (WAIT / COLL_WAIT_LOOKS)

/* Who looks often waits as long as it was asked for. */
static void is_exact_for_who_looks_often(void **state SPW_UNUSED)
{
	struct coll_wait w = coll_wait_of(5, WAIT);
	uint64_t now = 5;

	while (!coll_wait_is_over(&w, now))
		now++;
	assert_int_equal(now, 5 + WAIT + 1);
	assert_true(coll_wait_is_over(&w, now));
}

/* However long it stood still: it looks again, and has most of its time left. */
static void a_pause_counts_an_eighth(void **state SPW_UNUSED)
{
	struct coll_wait w = coll_wait_of(0, WAIT);
	uint64_t now = 1000 * WAIT;

	assert_false(coll_wait_is_over(&w, now));
	while (!coll_wait_is_over(&w, now))
		now++;
	assert_int_equal(now, 1000 * WAIT + WAIT - STEP + 1);
}

/* A pause at the very end: one look follows before it is over. */
static void the_last_look_comes_after_the_pause(void **state SPW_UNUSED)
{
	struct coll_wait w = coll_wait_of(0, WAIT);

	for (uint64_t now = 0; now < WAIT; now++)
		assert_false(coll_wait_is_over(&w, now));
	assert_false(coll_wait_is_over(&w, 1000 * WAIT));
	assert_true(coll_wait_is_over(&w, 1000 * WAIT));
}

/* Nine looks, if each one is late. It never sleeps past the next of them. */
static void rare_looks_end_it(void **state SPW_UNUSED)
{
	struct coll_wait w = coll_wait_of(0, WAIT);
	uint32_t looks = 0;

	for (uint64_t now = WAIT; !coll_wait_is_over(&w, now); now += WAIT) {
		looks++;
		assert_int_equal(coll_wait_sleep_ns(&w), looks < COLL_WAIT_LOOKS ? STEP : 0);
	}
	assert_int_equal(looks, COLL_WAIT_LOOKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_exact_for_who_looks_often),
		cmocka_unit_test(a_pause_counts_an_eighth),
		cmocka_unit_test(the_last_look_comes_after_the_pause),
		cmocka_unit_test(rare_looks_end_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
