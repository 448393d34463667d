/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The time of a device to flush: it passes for a thread that polls, and not for one that stands
 * still.
 */
#include <time.h>

#include "rdma/spw_rdma.h"
#include "rdma/spw_rdma_drain.h"
#include "unit_test.h"

#define DRAIN_MS 200
#define POLLS    20u /* between the first call and the last */

static struct rdma_dev dev;

static int calibrate(void **state)
{
	(void)state;
	return spw_tsc_calibrate(20, &dev.tsc);
}

/* The owner was preempted for longer than the device has, again and again: it polls in between all
 * the same before it gives up. */
static void test_standing_still_is_not_the_devices_time(void **state)
{
	const struct timespec late = {.tv_nsec = (DRAIN_MS + 20) * 1000000l};
	struct rdma_drain drain = {0};

	(void)state;
	assert_false(rdma_drain_is_over(&dev, &drain));
	for (unsigned i = 0; i < 3; i++) {
		nanosleep(&late, NULL);
		assert_false(rdma_drain_is_over(&dev, &drain));
	}
}

static void test_a_silent_device_is_given_up(void **state)
{
	struct rdma_drain drain = {0};
	unsigned polls = 0;

	(void)state;
	while (rdma_drain_wait(&dev, &drain))
		polls++;
	assert_true(polls >= POLLS);
	assert_true(rdma_drain_is_over(&dev, &drain));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_standing_still_is_not_the_devices_time),
		cmocka_unit_test(test_a_silent_device_is_given_up),
	};

	return cmocka_run_group_tests(tests, calibrate, NULL);
}
