/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The index ring: shapes, full and empty, positions that wrap, and two threads that share one.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "ring/spw_ring.h"
#include "unit_test.h"

#define ITEMS 200000u

static struct spw_ring ring;
static uint64_t entry[64];

/* Entries that are published and not yet released. */
static uint32_t ring_fill(void)
{
	return (uint32_t)(ring.write_pos - ring.read_pos);
}

static void shapes_are_checked(void **state)
{
	(void)state;
	assert_int_equal(spw_ring_init(&ring, 0), -EINVAL);
	assert_int_equal(spw_ring_init(&ring, 3), -EINVAL);
	assert_int_equal(spw_ring_init(&ring, 1), 0);
}

static void full_and_empty_are_distinct(void **state)
{
	(void)state;
	assert_int_equal(spw_ring_init(&ring, 8), 0);
	assert_int_equal(spw_ring_ready(&ring, 8), 0);
	assert_int_equal(spw_ring_room(&ring, 8), 8);
	assert_int_equal(spw_ring_room(&ring, 3), 3);
	spw_ring_publish(&ring, 8);
	assert_int_equal(ring_fill(), 8);
	assert_int_equal(spw_ring_room(&ring, 1), 0);
	assert_int_equal(spw_ring_ready(&ring, 5), 5);
	spw_ring_release(&ring, 5);
	assert_int_equal(spw_ring_room(&ring, 8), 5);
	assert_int_equal(spw_ring_ready(&ring, 8), 3);
	spw_ring_release(&ring, 3);
	assert_int_equal(ring_fill(), 0);
}

/* Random bursts against a count, with positions that run past 2^32 and past 2^64. */
static void positions_survive_any_wrap(void **state)
{
	static const uint64_t starts[] = {0, UINT32_MAX - 100ull, UINT64_MAX - 100};
	uint64_t seed = 31;

	(void)state;
	for (size_t s = 0; s < SPW_ARRAY_CNT(starts); s++) {
		uint64_t written = 0, read = 0;

		assert_int_equal(spw_ring_init(&ring, 64), 0);
		ring.write_pos = ring.read_pos = ring.producer.read_copy =
			ring.consumer.write_copy = starts[s];
		for (int i = 0; i < 20000; i++) {
			uint32_t want = 1 + (uint32_t)(unit_random(&seed) % 64);
			uint32_t n = spw_ring_room(&ring, want);

			assert_int_equal(n, SPW_MIN(want, 64 - (written - read)));
			for (uint32_t k = 0; k < n; k++)
				entry[(spw_ring_write_pos(&ring) + k) & 63] = written + k;
			spw_ring_publish(&ring, n);
			written += n;
			n = spw_ring_ready(&ring, 1 + (uint32_t)(unit_random(&seed) % 64));
			assert_true(n > 0 || written == read);
			for (uint32_t k = 0; k < n; k++)
				assert_int_equal(entry[(spw_ring_read_pos(&ring) + k) & 63],
						 read + k);
			spw_ring_release(&ring, n);
			read += n;
			assert_int_equal(ring_fill(), written - read);
		}
		assert_true(written > 100000);
	}
}

static void *ring_producer(void *arg)
{
	uint64_t seed = 32, next = 0;

	(void)arg;
	while (next < ITEMS) {
		uint32_t n = spw_ring_room(&ring, 1 + (uint32_t)(unit_random(&seed) % 32));

		n = (uint32_t)SPW_MIN((uint64_t)n, ITEMS - next);
		for (uint32_t k = 0; k < n; k++)
			entry[(spw_ring_write_pos(&ring) + k) & 63] =
				next++ * 0x9e3779b97f4a7c15ull;
		spw_ring_publish(&ring, n);
		if (n == 0)
			sched_yield(); /* both threads may share one core */
	}
	return NULL;
}

static void two_threads_share_an_index_ring(void **state)
{
	pthread_t producer;
	uint64_t next = 0;

	(void)state;
	assert_int_equal(spw_ring_init(&ring, 64), 0);
	assert_int_equal(pthread_create(&producer, NULL, ring_producer, NULL), 0);
	while (next < ITEMS) {
		uint32_t n = spw_ring_ready(&ring, 32);

		for (uint32_t k = 0; k < n; k++)
			if (entry[(spw_ring_read_pos(&ring) + k) & 63] !=
			    next++ * 0x9e3779b97f4a7c15ull)
				fail_msg("entry %llu is wrong", (unsigned long long)next - 1);
		spw_ring_release(&ring, n);
		if (n == 0)
			sched_yield();
	}
	assert_int_equal(pthread_join(producer, NULL), 0);
	assert_int_equal(ring_fill(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shapes_are_checked),
		cmocka_unit_test(full_and_empty_are_distinct),
		cmocka_unit_test(positions_survive_any_wrap),
		cmocka_unit_test(two_threads_share_an_index_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
