/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A ring of a few batches in memory alone; the test plays the executor. */
#ifndef GRING_RIG_H
#define GRING_RIG_H

#include "unit_test.h"

#include <stdlib.h>
#include <string.h>

#include "exec/spw_gring.h"

#define BATCHES 4u
#define UNITS   2u

struct rig {
	struct spw_gring ring;
	struct spw_gring_desc desc[BATCHES * SPW_GRING_FRAME_MAX];
	struct spw_gring_done done[BATCHES];
	struct spw_gring_batch batch[BATCHES];
	uint64_t unit_frames[UNITS];
};

static uint64_t fake_now;

SPW_INLINE uint64_t now_is(struct spw_gring *ring)
{
	(void)ring;
	return fake_now;
}

SPW_INLINE struct rig *rig_make(void)
{
	struct rig *rig = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*rig), (size_t)128));

	assert_non_null(rig);
	memset(rig, 0, sizeof(*rig));
	rig->ring = (struct spw_gring){.desc = rig->desc,
				       .done = rig->done,
				       .batch = rig->batch,
				       .batch_mask = BATCHES - 1,
				       .batch_log2 = 2,
				       .unit_cnt = UNITS,
				       .region_cnt = 1,
				       .unit_frames = rig->unit_frames,
				       .exec_now = now_is};
	fake_now = 1000;
	return rig;
}

SPW_INLINE struct spw_gring_batch *fill(struct rig *rig, uint32_t cnt)
{
	struct spw_gring_batch *b = spw_gring_next(&rig->ring);

	assert_non_null(b);
	b->cnt = cnt;
	memset(b->desc, 0, sizeof(b->desc));
	for (uint32_t i = 0; i < cnt; i++) {
		b->desc[i].len = 64 + i;
		b->desc[i].offset = 2048 * i;
		b->desc[i].meta = 0xabcd0000u + i;
	}
	return b;
}

/* w[2] without a count gets the batch's. */
SPW_INLINE void complete(struct rig *rig, uint64_t seq, const uint64_t *w)
{
	struct spw_gring_done *done = &rig->done[seq & (BATCHES - 1)];

	for (int i = 0; i < 8; i++)
		done->w[i] = spw_gring_tag(seq, 2) | (w[i] & SPW_GRING_VALUE_MASK);
	if (!(done->w[2] >> 16 & 0x7f))
		done->w[2] |= (uint64_t)rig->batch[seq & (BATCHES - 1)].cnt << 16;
}

/* pushes, completes, reaps and retires one batch */
SPW_INLINE void turn(struct rig *rig, uint32_t cnt)
{
	struct spw_gring_batch *b = fill(rig, cnt);

	spw_gring_push(&rig->ring, b);
	complete(rig, b->seq, (uint64_t[8]){0});
	assert_ptr_equal(spw_gring_reap(&rig->ring), b);
	spw_gring_retire(&rig->ring, b);
}

#endif
