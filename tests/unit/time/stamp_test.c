/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stamp of what another core wrote: one thread writes its reading of the counter, the other polls
 * the word and stamps what it found. No stamp may be before the reading that it found. A core that
 * reads its counter ahead of the load fails this in 3 of 1000 stamps, by up to 300 ticks. Needs two
 * CPUs: else skipped.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "time/spw_time.h"
#include "unit_test.h"

#define SKIP   77
#define STAMPS 100000u

static struct {
	uint64_t word SPW_ALIGNED(2 * SPW_CACHE_LINE);
	uint32_t stop SPW_ALIGNED(2 * SPW_CACHE_LINE);
} shared;

static int cpu[2];

static void pin(int to)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(to, &set);
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), 0);
}

/* Writes at odd times, so that the poll is sometimes just ahead. */
static void *writer(void *arg)
{
	uint64_t seed = 5;

	pin(cpu[1]);
	while (!spw_thr_load_rlx(&shared.stop)) {
		uint64_t until = spw_tsc_now() + unit_random(&seed) % 600;

		while (spw_tsc_now() < until)
			;
		spw_thr_store_rel(&shared.word, spw_tsc_now());
	}
	return arg;
}

static void no_stamp_is_before_what_it_stamps(void **state SPW_UNUSED)
{
	uint64_t last = 0, cnt = 0, early = 0;
	pthread_t thread;

	pin(cpu[0]);
	assert_int_equal(pthread_create(&thread, NULL, writer, NULL), 0);
	while (cnt < STAMPS) {
		uint64_t found = spw_thr_load_acq(&shared.word);

		if (spw_likely(found != last)) {
			early += (int64_t)(spw_tsc_now_after() - found) < 0;
			cnt++;
			last = found;
		}
	}
	spw_thr_store_rlx(&shared.stop, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(early, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_stamp_is_before_what_it_stamps),
	};
	cpu_set_t set;
	int found = 0;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
			if (CPU_ISSET(i, &set))
				cpu[found++] = i;
	if (found < 2) {
		printf("skipped: needs two CPUs\n");
		return SKIP;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
