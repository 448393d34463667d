/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Objects for a kernel that takes them itself: what a ring passes on, and when it gives back. This
 * thread stands in for the kernel, whose addresses are those of the CPU plus FAKE_AT.
 */
#include <errno.h>
#include <string.h>

#include "owner.h"
#include "tensor/spw_tensor_ring.h"

#define RING_OBJECTS 300u /* many laps of the entries */

static uint64_t *ring_at(const struct spw_tensor_ring *ring, uint32_t reader, uint64_t at)
{
	const struct spw_tensor_ring_dev dev = spw_tensor_ring_device(ring);

	return (uint64_t *)(uintptr_t)(dev.base - FAKE_AT + reader * dev.reader_bytes + at);
}

/* Waits for entry n of a reader; returns its values without the laps. */
static struct spw_tensor_entry ring_entry(const struct spw_tensor_ring *ring, uint32_t reader,
					  uint64_t n)
{
	const struct spw_tensor_ring_dev dev = spw_tensor_ring_device(ring);
	const uint64_t *w = ring_at(ring, reader, spw_tensor_entry_at(n, dev.entry_log2));
	const uint64_t lap = spw_tensor_lap(n, dev.entry_log2);

	for (int i = 0; i < 4; i++)
		while ((spw_gpu_load_acq64(w + i) & 0xff) != lap)
			tensor_sleep_ns(1000);
	return (struct spw_tensor_entry){w[0] - lap, w[1] >> 8, w[2] >> 8, w[3] >> 8};
}

static void ring_done(const struct spw_tensor_ring *ring, uint32_t reader, uint64_t n)
{
	spw_gpu_store_rel64(ring_at(ring, reader, SPW_TENSOR_BEAT_BYTES), n);
}

static void ring_wait_free(const struct owner *owner, uint32_t cnt)
{
	while (owner_free_cnt(owner) != cnt)
		tensor_sleep_ns(1000);
}

/* Every reader gets every object, and its buffer goes back when the slowest has released it. */
static void test_ring(void **state)
{
	struct owner owner = owner_make("cuda-reg");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_CUDA);
	struct spw_tensor_ring *ring;
	uint64_t beat;

	(void)state;
	assert_int_equal(spw_tensor_ring_open(stream, 2, &ring), 0);
	for (uint64_t n = 0; n < RING_OBJECTS; n++) {
		while (!owner_publish(&owner))
			tensor_sleep_ns(1000);
		for (uint32_t r = 0; r < 2; r++) {
			const struct spw_tensor_entry entry = ring_entry(ring, r, n);
			const uint64_t buffer = entry.how >> 16;

			assert_int_equal(entry.id, n + 1);
			assert_true(buffer < BUFFERS);
			assert_int_equal(entry.data, stream->cuda.at + buffer * STRIDE);
		}
		ring_done(ring, 0, n + 1);
		ring_done(ring, 1, n); /* one behind */
	}
	ring_wait_free(&owner, BUFFERS - 1);
	beat = spw_gpu_load_rlx64(ring_at(ring, 1, 0));
	while (spw_gpu_load_rlx64(ring_at(ring, 1, 0)) < beat + 3)
		tensor_sleep_ns(1000);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS - 1);
	ring_done(ring, 1, RING_OBJECTS);
	ring_wait_free(&owner, BUFFERS);
	spw_tensor_ring_stop(ring);
	assert_int_equal(ring_entry(ring, 0, RING_OBJECTS).data, 0);
	assert_int_equal(ring_entry(ring, 1, RING_OBJECTS).data, 0);
	assert_int_equal(spw_tensor_ring_close(ring), 0);
	spw_tensor_close(stream);
	assert_int_equal(fake_driver.registered, 0);
	owner_end(&owner);
}

/* What was not released goes back at the close; the stream's end is the ring's. */
static void test_ring_end(void **state)
{
	struct owner owner = owner_make("cuda-reg");
	struct spw_tensor_stream *stream = attach(&owner, SPW_TENSOR_CUDA);
	struct spw_tensor_ring *ring;

	(void)state;
	assert_int_equal(spw_tensor_ring_open(stream, 1, &ring), 0);
	for (uint32_t i = 0; i < BUFFERS; i++)
		assert_true(owner_publish(&owner));
	spw_thr_store_rel(&owner.page->ended, 1u);
	assert_int_equal(ring_entry(ring, 0, BUFFERS).data, 0);
	assert_int_equal(owner_free_cnt(&owner), 0);
	assert_int_equal(spw_tensor_ring_close(ring), 0);
	assert_int_equal(owner_free_cnt(&owner), BUFFERS);
	assert_int_equal(spw_tensor_ring_open(stream, 0, &ring), -ERANGE);
	assert_int_equal(spw_tensor_ring_open(stream, SPW_TENSOR_READER_MAX + 1, &ring), -ERANGE);
	spw_tensor_close(stream);
	stream = attach(&owner, SPW_TENSOR_CPU);
	assert_int_equal(spw_tensor_ring_open(stream, 1, &ring), -ENOTSUP);
	assert_non_null(strstr(spw_tensor_error(), "open it for a GPU"));
	spw_tensor_close(stream);
	assert_int_equal(spw_tensor_ring_close(NULL), 0);
	owner_end(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_ring_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
