/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A reorder window, what comes to it, and what has left it, in order.
 */
#ifndef WINDOW_KIT_H
#define WINDOW_KIT_H

#include "../../unit_test.h"
#include "port/rails/window.h"

#define SLOT_CNT 4096u
#define WAIT_TSC 1000u

static struct rails_window window;
static uint32_t slot_next;                /* a new slot for every frame, round and round */
static struct rails_tag tag_of[SLOT_CNT]; /* what the frame in a slot is */

static struct rails_tag out[1u << 20]; /* what left the window, in order */
static uint32_t out_cnt, late_cnt, duplicate_cnt;

static SPW_UNUSED void start(uint32_t cnt, uint32_t parked_max)
{
	const struct rails_window_conf conf = {.cnt = cnt,
					       .seq_cnt = 256,
					       .slot_cnt = SLOT_CNT,
					       .parked_max = parked_max,
					       .wait_tsc = WAIT_TSC};

	assert_int_equal(rails_window_init(&window, &conf), 0);
	window.now_tsc = 1;
	slot_next = out_cnt = late_cnt = duplicate_cnt = 0;
}

static SPW_UNUSED void collect(void)
{
	struct spw_desc desc[7];
	uint16_t n;

	while ((n = rails_window_take(&window, desc, SPW_ARRAY_CNT(desc))))
		for (uint16_t i = 0; i < n; i++)
			out[out_cnt++] = tag_of[desc[i].slot];
}

/* One frame comes, as rx.c takes it. */
static enum rails_verdict came(uint32_t idx, uint32_t seq, uint16_t run)
{
	const struct rails_tag tag = {RAILS_WORD(seq, run, 0), .idx = idx};
	const struct spw_desc desc = {.slot = slot_next++ % SLOT_CNT, .len = 64};
	enum rails_verdict verdict = RAILS_PASS;

	tag_of[desc.slot] = tag;
	if (!rails_window_next(&window, &tag))
		verdict = rails_window_put(&window, &tag, &desc);
	if (verdict == RAILS_PASS)
		out[out_cnt++] = tag;
	late_cnt += verdict == RAILS_LATE;
	duplicate_cnt += verdict == RAILS_DUPLICATE;
	return verdict;
}

/* The window is empty, and has nothing of its own left. */
static SPW_UNUSED void end(void)
{
	collect();
	assert_int_equal(window.parked_cnt, 0);
	assert_int_equal(window.waiting, 0);
	assert_int_equal(window.free_cnt, RAILS_RING_CNT);
	rails_window_fini(&window);
}

static SPW_UNUSED void expect_seqs(const uint32_t *seq, uint32_t cnt)
{
	collect();
	assert_int_equal(out_cnt, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(RAILS_WORD_SEQ(out[i].word), seq[i]);
}
#define EXPECT(...)                                  \
	expect_seqs((const uint32_t[]){__VA_ARGS__}, \
		    sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

#endif
