/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the kernel counts of this thread, in windows with gaps and without: it sleeps, which is a
 * voluntary switch each time.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/spw_order.h"
#include "plat/spw_who.h"
#include "unit_test.h"

#define SLEEPS 20

static void sleep_often(void)
{
	const struct timespec nap = {.tv_nsec = 100000};

	for (int i = 0; i < SLEEPS; i++)
		nanosleep(&nap, NULL);
}

static void only_windows_with_gaps_count(void **state SPW_UNUSED)
{
	struct spw_who who = {0}, *list[] = {&who};
	uint64_t gaps = 5, once;

	spw_who_begin(&who, (uint32_t)sched_getcpu());
	sleep_often();
	spw_who_read(list, &gaps, 1); /* the first reading is a base only */
	assert_int_equal(who.windows, 0);
	assert_int_equal(who.switches[0], 0);
	sleep_often();
	spw_who_read(list, &gaps, 1); /* no new gap */
	assert_int_equal(who.windows, 0);
	assert_int_equal(who.switches[0], 0);
	sleep_often();
	gaps++;
	spw_who_read(list, &gaps, 1);
	assert_int_equal(who.windows, 1);
	assert_true(who.switches[0] >= SLEEPS);
	once = who.switches[0];
	sleep_often();
	spw_who_read(list, &gaps, 1);
	assert_int_equal(who.windows, 1);
	assert_int_equal(who.switches[0], once);
}

/* The control thread may read before the loop's thread has said where it runs: nothing of that is a
 * base for what follows. */
static void a_loop_that_has_not_begun_is_left_out(void **state SPW_UNUSED)
{
	struct spw_who who = {0}, *list[] = {&who};
	uint64_t gaps = 0;

	for (; gaps < 3; gaps++)
		spw_who_read(list, &gaps, 1);
	assert_int_equal(who.windows, 0);
	assert_int_equal(who.irq_cnt, 0);
	spw_who_begin(&who, (uint32_t)sched_getcpu());
	gaps++;
	spw_who_read(list, &gaps, 1);
	assert_int_equal(who.windows, 0);
	assert_true(who.irq_cnt > 0);
	for (uint32_t i = 0; i < who.irq_cnt; i++)
		assert_int_equal(who.irq[i].cnt, 0);
}

static void an_interrupt_that_starts_over_is_not_negative(void **state SPW_UNUSED)
{
	struct spw_who who = {0}, *list[] = {&who};
	const uint64_t before = 1ull << 60; /* what each counted before it was requested again */
	uint64_t gaps = 0;

	spw_who_begin(&who, (uint32_t)sched_getcpu());
	spw_who_read(list, &gaps, 1);
	assert_true(who.irq_cnt > 0);
	for (uint32_t i = 0; i < who.irq_cnt; i++)
		who.irq[i].base = before;
	gaps++;
	spw_who_read(list, &gaps, 1);
	for (uint32_t i = 0; i < who.irq_cnt; i++)
		assert_int_equal(who.irq[i].cnt, who.irq[i].base);
	assert_true(who.irq[0].base < before);
}

static void a_cpu_that_is_not_there_has_no_interrupts(void **state SPW_UNUSED)
{
	struct spw_who who = {0}, *list[] = {&who};
	uint64_t gaps = 0;

	spw_who_begin(&who, 99999);
	for (; gaps < 3; gaps++)
		spw_who_read(list, &gaps, 1);
	assert_int_equal(who.windows, 2);
	assert_int_equal(who.irq_cnt, 0);
}

static void *spin_here(void *stop)
{
	while (!spw_thr_load_rlx((uint32_t *)stop))
		;
	return NULL;
}

/* Two threads that spin on one core: each waits while the other runs. */
static void a_core_that_is_shared_is_waited_for(void **state SPW_UNUSED)
{
	struct spw_who who = {0};
	const clock_t begin = clock();
	uint32_t stop = 0;
	pthread_t rival;
	cpu_set_t kept, one;

	assert_int_equal(spw_who_waited_ns(&who), 0);
	assert_int_equal(sched_getaffinity(0, sizeof(kept), &kept), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	spw_who_begin(&who, (uint32_t)sched_getcpu());
	assert_int_equal(pthread_create(&rival, NULL, spin_here, &stop), 0);
	while (clock() - begin < CLOCKS_PER_SEC / 10) /* of both threads */
		;
	spw_thr_store_rlx(&stop, 1);
	pthread_join(rival, NULL);
	assert_int_equal(sched_setaffinity(0, sizeof(kept), &kept), 0);
	assert_true(spw_who_waited_ns(&who) > 10000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_windows_with_gaps_count),
		cmocka_unit_test(a_loop_that_has_not_begun_is_left_out),
		cmocka_unit_test(an_interrupt_that_starts_over_is_not_negative),
		cmocka_unit_test(a_cpu_that_is_not_there_has_no_interrupts),
		cmocka_unit_test(a_core_that_is_shared_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
