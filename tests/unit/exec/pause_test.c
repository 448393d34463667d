/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Pauses of an executor: what is kept, what is found, and that a thread which loses its core
 * reports so. */
#include "../unit_test.h"

#include <pthread.h>
#include <sched.h>

#include "exec/spw_exec.h"
#include "exec/spw_handler.h"
#include "exec/spw_pause.h"
#include "time/spw_time.h"

static uint64_t now_of_test;

static uint64_t test_now(struct spw_gring *ring)
{
	(void)ring;
	return now_of_test;
}

static void longest_overlap_is_found(void **state)
{
	struct spw_pauses pauses = {0};
	struct spw_gring ring = {.pauses = &pauses, .exec_now = test_now};
	struct spw_pause p = {0};

	(void)state;
	now_of_test = 10000;
	assert_int_equal(spw_pause_find(&ring, 0, 10000, &p), 0);
	spw_pause_add(&pauses, 100, 200);
	spw_pause_add(&pauses, 500, 900);
	spw_pause_add(&pauses, 950, 1000);
	assert_int_equal(spw_pause_find(&ring, 0, 10000, &p), 400);
	assert_int_equal(p.begin, 500);
	assert_int_equal(p.end, 900);
	assert_int_equal(spw_pause_find(&ring, 850, 2000, &p), 50);
	assert_int_equal(spw_pause_find(&ring, 150, 500, &p), 50);
	assert_int_equal(p.begin, 100);
	assert_int_equal(spw_pause_find(&ring, 200, 500, &p), 0);
	assert_int_equal(spw_pause_find(&ring, 600, 700, &p), 100);
}

/* Stamps keep 56 bits in memory, tags 8: both wrap here. */
static void newest_are_kept_past_both_wraps(void **state)
{
	struct spw_pauses pauses = {0};
	struct spw_gring ring = {.pauses = &pauses, .exec_now = test_now};
	uint64_t base = (5ull << SPW_GRING_TAG_SHIFT) - 1000 * 300;
	struct spw_pause p = {0};

	(void)state;
	for (uint64_t k = 0; k < 600; k++) {
		now_of_test = base + k * 1000 + 600;
		spw_pause_add(&pauses, base + k * 1000, base + k * 1000 + 500);
		assert_int_equal(spw_pause_find(&ring, base + k * 1000, now_of_test, &p), 500);
		assert_int_equal(p.begin, base + k * 1000);
		if (k < SPW_PAUSE_CNT)
			continue;
		assert_int_equal(spw_pause_find(&ring, p.begin - 15000, p.begin - 14000, &p), 500);
		assert_int_equal(
			spw_pause_find(&ring, base, base + (k - SPW_PAUSE_CNT) * 1000 + 500, &p),
			0);
	}
}

/* A pair that the writer has half replaced is skipped. */
static void torn_pair_is_passed_over(void **state)
{
	struct spw_pauses pauses = {0};
	struct spw_gring ring = {.pauses = &pauses, .exec_now = test_now};
	struct spw_pause p = {0};

	(void)state;
	now_of_test = 100000;
	for (uint64_t k = 0; k <= SPW_PAUSE_CNT; k++)
		spw_pause_add(&pauses, k * 100, k * 100 + 50);
	pauses.at[0].w[1] = spw_pause_word(0, 50);
	assert_int_equal(spw_pause_find(&ring, 0, 100, &p), 0);
	assert_int_equal(spw_pause_find(&ring, 1500, 1700, &p), 50);
	assert_int_equal(p.begin, 1500);
}

static void *hog(void *stop)
{
	while (!spw_thr_load_rlx((uint32_t *)stop))
		spw_cpu_relax();
	return NULL;
}

/* The executor's thread shares its core with one that never sleeps. */
static void thread_that_loses_its_core_reports_it(void **state)
{
	const struct spw_handler *handler = spw_handler_builtin(0);
	int cpu = sched_getcpu();
	struct spw_exec_conf conf = {.kind = SPW_EXEC_CPU,
				     .handler = handler,
				     .ring_cnt = 1,
				     .cpu = &cpu,
				     .numa_node = -1};
	uint64_t begin = spw_tsc_now(), found = 0;
	struct spw_exec *exec;
	struct spw_tsc tsc;
	struct spw_pause p;
	uint32_t stop = 0;
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t set;

	(void)state;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	assert_int_equal(spw_tsc_calibrate(20, &tsc), 0);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setaffinity_np(&attr, sizeof(set), &set), 0);
	assert_int_equal(pthread_create(&thread, &attr, hog, &stop), 0);
	assert_int_equal(spw_exec_open(&conf, &exec), 0);
	assert_int_equal(spw_exec_start(exec), 0);
	while (!found && spw_tsc_now() - begin < 30 * tsc.hz) {
		found = spw_pause_find(spw_exec_ring(exec, 0), begin, spw_tsc_now(), &p);
		sched_yield();
	}
	spw_thr_store_rlx(&stop, 1);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	assert_int_equal(spw_exec_stop(exec, 10000), 0);
	spw_exec_close(exec);
	assert_true(spw_tsc_to_ns(&tsc, found) >= SPW_PAUSE_NS);
	assert_true(p.end > p.begin && p.end <= spw_tsc_now());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(longest_overlap_is_found),
		cmocka_unit_test(newest_are_kept_past_both_wraps),
		cmocka_unit_test(torn_pair_is_passed_over),
		cmocka_unit_test(thread_that_loses_its_core_reports_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
