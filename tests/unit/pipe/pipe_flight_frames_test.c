/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The columns in which the flight recorder keeps the frames of a POLL (frame/spw_column.h):
 * whatever a burst holds comes out again, slots apart, in as few bytes as its differences need.
 */
#include <string.h>

#include "pipe/pipe_flight.h"
#include "unit_test.h"

#define GUARD 0xa5

/* As pipe_flight_polled writes them and the replay reads them. Returns: bytes. */
static uint32_t there_and_back(const struct spw_desc *desc, uint32_t cnt, struct spw_desc *out)
{
	static uint8_t at[sizeof(struct spw_columns) + SPW_BURST_MAX * SPW_COLUMN_CNT * 8 +
			  16] SPW_ALIGNED(8);
	uint64_t value[SPW_COLUMN_CNT];
	uint32_t widths, bytes;

	memset(at, GUARD, sizeof(at));
	widths = spw_columns_put(spw_flight_row, desc, sizeof(*desc) / 8, cnt, (void *)at);
	bytes = spw_columns_bytes(widths, cnt);
	assert_true(widths <= UINT8_MAX && bytes % 8 == 0);
	for (uint32_t i = bytes; i < sizeof(at); i++)
		assert_int_equal(at[i], GUARD);
	for (uint32_t i = 0; i < cnt; i++) {
		spw_columns_get((const void *)at, widths, cnt, i, value);
		spw_flight_unrow(value, &out[i]);
		out[i].slot = desc[i].slot;
	}
	return bytes;
}

static uint64_t sometimes(uint64_t *seed, uint64_t mask)
{
	return unit_random(seed) % 100 ? 0 : unit_random(seed) & mask;
}

/* Bursts in which now and then a field differs from that of the first frame, in few or many bits.
 */
static void test_frames_of_a_poll(void **state)
{
	struct spw_desc desc[SPW_BURST_MAX] = {{0}}, out[SPW_BURST_MAX];
	uint64_t seed = 11;

	(void)state;
	for (uint32_t round = 0; round < 20000; round++) {
		uint32_t cnt = 1 + (uint32_t)(unit_random(&seed) % SPW_BURST_MAX);
		uint64_t r = unit_random(&seed);

		for (uint32_t i = 0; i < cnt; i++)
			desc[i] = (struct spw_desc){
				.nic_stamp = r ^ (uint64_t)i * 10 ^ sometimes(&seed, UINT64_MAX),
				.slot = (uint32_t)unit_random(&seed),
				.offset = 2 ^ (uint32_t)sometimes(&seed, UINT32_MAX),
				.len = 64 ^ (uint32_t)sometimes(&seed, SPW_DESC_LEN_MAX * 2 - 1),
				.meta = (uint32_t)r ^ (uint32_t)sometimes(&seed, UINT32_MAX),
				.peer = (uint32_t)sometimes(&seed, UINT32_MAX),
				.flags = (uint32_t)sometimes(&seed, 0x1f),
				.region = (uint16_t)sometimes(&seed, UINT16_MAX),
				.port = (uint16_t)sometimes(&seed, UINT16_MAX),
			};
		there_and_back(desc, cnt, out);
		assert_memory_equal(out, desc, cnt * sizeof(desc[0]));
	}
}

/* What 64 frames take: by what differs among them. */
static void test_bytes(void **state)
{
	const uint32_t head = sizeof(struct spw_columns);
	struct spw_desc desc[SPW_BURST_MAX], out[SPW_BURST_MAX];

	(void)state;
	memset(desc, 0, sizeof(desc));
	for (uint32_t i = 0; i < SPW_BURST_MAX; i++)
		desc[i] = (struct spw_desc){.len = 64, .slot = i, .offset = 2};
	assert_int_equal(there_and_back(desc, SPW_BURST_MAX, out), head);
	for (uint32_t i = 0; i < SPW_BURST_MAX; i++)
		desc[i].nic_stamp = (1ull << 40) + 10 * i;
	assert_int_equal(there_and_back(desc, SPW_BURST_MAX, out), head + 64 * 2);
	desc[7].len = 1500;
	assert_int_equal(there_and_back(desc, SPW_BURST_MAX, out), head + 64 * (2 + 2));
	desc[9].meta = 0x12345678;
	assert_int_equal(there_and_back(desc, SPW_BURST_MAX, out), head + 64 * (2 + 2 + 4));
	desc[11].nic_stamp += 1ull << 32;
	assert_int_equal(there_and_back(desc, SPW_BURST_MAX, out), head + 64 * (8 + 2 + 4));
	assert_int_equal(there_and_back(desc, 1, out), head);
	assert_int_equal(there_and_back(desc + 7, 3, out), SPW_ALIGN_UP(head + 3 * (2 + 2 + 4), 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_of_a_poll),
		cmocka_unit_test(test_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
