/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A push that idle units share (spw_gring_push), against an executor played by hand. */
#include "gring_rig.h"

/* Pushes cnt frames and checks the batches that they become: every frame once and in order, the
 * fields of the pipe in each record. Leaves them in the ring. */
static uint32_t push_shared(struct rig *rig, uint32_t cnt)
{
	struct spw_gring_batch *b = fill(rig, cnt);
	uint64_t first = rig->ring.head_seq;
	uint32_t parts, frame = 0;

	b->since_tsc = 11 + first;
	b->ahead = 3;
	parts = spw_gring_push(&rig->ring, b);
	assert_int_equal(rig->ring.head_seq, first + parts);
	for (uint64_t seq = first; seq < first + parts; seq++) {
		const struct spw_gring_batch *part = spw_gring_at(&rig->ring, seq);
		const struct spw_gring_desc *d =
			&rig->desc[(seq & (BATCHES - 1)) * SPW_GRING_FRAME_MAX];

		assert_int_equal(part->seq, seq);
		assert_int_equal(part->since_tsc, 11 + first);
		assert_int_equal(part->ahead, 3);
		assert_int_equal(spw_gring_hi_cnt(d->hi), part->cnt);
		for (uint32_t i = 0; i < part->cnt; i++, frame++) {
			assert_int_equal(part->desc[i].len, 64 + frame);
			assert_int_equal(spw_gring_lo_offset(d[i].lo), 2048 * frame);
			assert_true(spw_gring_has_tag(d[i].lo, spw_gring_tag(seq, 2)));
		}
	}
	assert_int_equal(frame, cnt);
	return parts;
}

static void reap_next(struct rig *rig)
{
	struct spw_gring_batch *b;

	complete(rig, rig->ring.tail_seq,
		 (uint64_t[8]){[2] = rig->ring.tail_seq % rig->ring.unit_cnt << 40});
	b = spw_gring_reap(&rig->ring);
	assert_non_null(b);
	spw_gring_retire(&rig->ring, b);
}

/* Shares of 256 bytes, frames of 64 and more; at every place of the ring. */
static void idle_units_share_a_large_batch(void **state)
{
	(void)state;
	for (uint32_t laps = 0; laps < 2 * BATCHES; laps++) {
		struct rig *rig = rig_make();
		uint64_t frames[4] = {0};

		rig->ring.unit_cnt = 4;
		rig->ring.unit_frames = frames;
		for (uint32_t i = 0; i < laps; i++)
			turn(rig, 1);
		rig->ring.share_log2 = 8;
		assert_int_equal(push_shared(rig, 7), 1); /* 469 bytes: not two shares */
		reap_next(rig);
		assert_int_equal(push_shared(rig, 8), 2);  /* 540 */
		assert_int_equal(push_shared(rig, 64), 2); /* two are busy */
		assert_int_equal(rig->ring.in_exec_frames, 72);
		while (rig->ring.in_exec_frames)
			reap_next(rig);
		assert_int_equal(push_shared(rig, 1), 1);
		assert_int_equal(push_shared(rig, 2), 1);
		reap_next(rig);
		assert_int_equal(push_shared(rig, 64), 3);
		assert_null(spw_gring_next(&rig->ring));
		while (rig->ring.in_exec_frames)
			reap_next(rig);
		rig->ring.share_log2 = 6;
		assert_int_equal(push_shared(rig, 3), 3); /* a frame each */
		assert_int_equal(rig->ring.fault_cnt, 0);
		free(rig);
	}
}

/* Units have finished, but nobody has retired their batches: the records are still in use. */
static void a_share_needs_a_record(void **state)
{
	struct rig *rig = rig_make();
	uint64_t frames[8] = {0};

	(void)state;
	rig->ring.unit_cnt = 8;
	rig->ring.unit_frames = frames;
	for (uint32_t i = 0; i < 3; i++) {
		spw_gring_push(&rig->ring, fill(rig, 1));
		complete(rig, i, (uint64_t[8]){[2] = (uint64_t)i << 40});
		assert_non_null(spw_gring_reap(&rig->ring));
	}
	rig->ring.share_log2 = 6;
	assert_int_equal(push_shared(rig, 64), 1);
	free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_units_share_a_large_batch),
		cmocka_unit_test(a_share_needs_a_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
