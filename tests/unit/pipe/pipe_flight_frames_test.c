/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The short form in which the flight recorder keeps the frames of a POLL, and when it must not be
 * used.
 */
#include "pipe/pipe_flight.h"
#include "pipe/pipe_replay.h"
#include "unit_test.h"

/* The short form of a POLL's frames as pipe_flight_poll writes it, read as the replay reads it.
 * Returns: whether it could say everything. */
static bool short_form(const struct spw_desc *desc, uint32_t cnt, struct spw_desc *out)
{
	struct {
		struct spw_flight_poll poll;
		struct spw_flight_frame frame[SPW_BURST_MAX];
	} at = {.poll = {.rec = {SPW_FLIGHT_POLL, (uint8_t)cnt,
				 desc->flags & SPW_DESC_NIC_STAMP ? SPW_FLIGHT_STAMP : 0, 0},
			 .nic_base = desc->nic_stamp,
			 .offset = desc->offset,
			 .peer = desc->peer,
			 .region = desc->region,
			 .port = desc->port}};
	bool all = pipe_flight_frames(desc, cnt, at.frame);

	assert_int_equal(replay_frames(&at.poll, out), cnt);
	return all;
}

static uint32_t sometimes(uint64_t *seed, uint32_t mask)
{
	return unit_random(seed) % 100 ? 0 : (uint32_t)unit_random(seed) & mask;
}

/* Bursts in which now and then one field differs from that of the first frame. */
static void test_frames_of_a_poll(void **state)
{
	struct spw_desc desc[SPW_BURST_MAX] = {{0}}, out[SPW_BURST_MAX] = {{0}};
	uint64_t seed = 11;
	uint32_t wide = 0, round;

	(void)state;
	for (round = 0; round < 20000; round++) {
		uint32_t cnt = 1 + (uint32_t)(unit_random(&seed) % 8);
		bool same = true;

		for (uint32_t i = 0; i < cnt; i++) {
			uint64_t r = unit_random(&seed);
			struct spw_desc *d = &desc[i], *first = &desc[0];

			*d = (struct spw_desc){
				.nic_stamp = 1ull << 40 | (r & 0xffff),
				.slot = (uint32_t)r,
				.offset = 2 ^ sometimes(&seed, 0x101),
				.len = 1 + (uint32_t)(r >> 32 & (SPW_DESC_LEN_MAX - 1)),
				.meta = (uint32_t)(r >> 7),
				.peer = sometimes(&seed, UINT32_MAX),
				.flags = ((uint32_t)r & SPW_DESC_HANDLER_FLAGS) |
					 (sometimes(&seed, 1) ? 0u : (uint32_t)SPW_DESC_NIC_STAMP),
				.region = (uint16_t)sometimes(&seed, 7),
			};
			d->nic_stamp += i ? first->nic_stamp & 0xffff : 0;
			d->nic_stamp += (uint64_t)sometimes(&seed, 1) << 32;
			same = same && d->offset == first->offset && d->peer == first->peer &&
			       d->region == first->region &&
			       !((d->flags ^ first->flags) & SPW_DESC_NIC_STAMP) &&
			       d->nic_stamp - first->nic_stamp <= UINT32_MAX;
		}
		assert_int_equal(short_form(desc, cnt, out), same);
		for (uint32_t i = 0; same && i < cnt; i++)
			assert_memory_equal(&out[i], &desc[i], sizeof(desc[i]));
		wide += !same;
	}
	assert_true(wide > round / 20 && wide < round / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_of_a_poll),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
